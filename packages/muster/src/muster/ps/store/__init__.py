"""A server's store for a coordinator: variables created at any time, and functions that update them."""

from muster.ps.contents import StoredArray as StoredArray
from muster.ps.contents import StoredFunction as StoredFunction
from muster.ps.contents import StoredHash as StoredHash
from muster.ps.contents import StoredName as StoredName
from muster.ps.contents import TableUse as TableUse
from muster.ps.store._client import StoreClient as StoreClient
from muster.ps.store._machine import StoreMachine as StoreMachine
from muster.ps.store._messages import PURPOSE as PURPOSE
from muster.ps.store._messages import SAVE_PURPOSE as SAVE_PURPOSE
from muster.ps.store._messages import Change as Change
from muster.ps.store._messages import StoreStatistics as StoreStatistics
from muster.ps.store._saved import SavedStore as SavedStore
