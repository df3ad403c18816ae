"""Embedding tables on a server: rows and optimizer slots, looked up and updated by id."""

from muster.ps.tables._hash_table import NOTE as NOTE
from muster.ps.tables._hash_table import HashTable as HashTable
from muster.ps.tables._hash_table import Trained as Trained
from muster.ps.tables._ids import Ids as Ids
from muster.ps.tables._ids import owners as owners
from muster.ps.tables._initial_rows import Constant as Constant
from muster.ps.tables._initial_rows import Normal as Normal
from muster.ps.tables._initial_rows import Uniform as Uniform
from muster.ps.tables._keeping import Keeping as Keeping
from muster.ps.tables._row_store import Columns as Columns
from muster.ps.tables._row_store import RowStore as RowStore
from muster.ps.tables._row_updates import GivenRows as GivenRows
from muster.ps.tables._row_updates import PaddedRows as PaddedRows
from muster.ps.tables._row_updates import RowBuffers as RowBuffers
from muster.ps.tables._spec import Column as Column
from muster.ps.tables._spec import SlotSpec as SlotSpec
from muster.ps.tables._spec import TableSpec as TableSpec
