"""A server's store for a coordinator: variables created at any time, and functions that update them."""

from muster.ps.store._client import StoreClient as StoreClient
from muster.ps.store._keeper import Keeper as Keeper
from muster.ps.store._machine import StoreMachine as StoreMachine
from muster.ps.store._messages import PURPOSE as PURPOSE
from muster.ps.store._messages import SAVE_PURPOSE as SAVE_PURPOSE
from muster.ps.store._messages import StoreStatistics as StoreStatistics
from muster.ps.store._stored import StoredArray as StoredArray
from muster.ps.store._stored import StoredFunction as StoredFunction
from muster.ps.store._stored import StoredHash as StoredHash
from muster.ps.store._stored import StoredName as StoredName
from muster.ps.store._stored import TableUse as TableUse
