"""The contents of a parameter server: arrays, tables, and the functions that change them."""

from muster.ps.contents._contents import CheckedPush as CheckedPush
from muster.ps.contents._contents import Contents as Contents
from muster.ps.contents._contents import Description as Description
from muster.ps.contents._contents import Device as Device
from muster.ps.contents._contents import require_sizes as require_sizes
from muster.ps.contents._function_layout import FunctionLayout as FunctionLayout
from muster.ps.contents._function_layout import RowPush as RowPush
from muster.ps.contents._function_layout import row_of as row_of
from muster.ps.contents._stored import FunctionSignature as FunctionSignature
from muster.ps.contents._stored import StoredArray as StoredArray
from muster.ps.contents._stored import StoredFunction as StoredFunction
from muster.ps.contents._stored import StoredHash as StoredHash
from muster.ps.contents._stored import StoredName as StoredName
from muster.ps.contents._stored import TableSignature as TableSignature
from muster.ps.contents._stored import TableUse as TableUse
