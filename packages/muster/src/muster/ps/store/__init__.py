"""A server's store for a coordinator: variables created at any time, and functions that update them."""

from muster.ps.contents import StoredArray as StoredArray
from muster.ps.contents import StoredFunction as StoredFunction
from muster.ps.contents import StoredHash as StoredHash
from muster.ps.contents import StoredName as StoredName
from muster.ps.contents import TableUse as TableUse
from muster.ps.store._client import StoreClient as StoreClient
