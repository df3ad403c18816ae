"""``tf.sparse``."""

from muster.compat.ops._sparse import add as add
from muster.compat.ops._sparse import concat as concat
from muster.compat.ops._sparse import expand_dims as expand_dims
from muster.compat.ops._sparse import eye as eye
from muster.compat.ops._sparse import fill_empty_rows as fill_empty_rows
from muster.compat.ops._sparse import from_dense as from_dense
from muster.compat.ops._sparse import map_values as map_values
from muster.compat.ops._sparse import maximum as maximum
from muster.compat.ops._sparse import minimum as minimum
from muster.compat.ops._sparse import reduce_max as reduce_max
from muster.compat.ops._sparse import reduce_sum as reduce_sum
from muster.compat.ops._sparse import reorder as reorder
from muster.compat.ops._sparse import reset_shape as reset_shape
from muster.compat.ops._sparse import reshape as reshape
from muster.compat.ops._sparse import retain as retain
from muster.compat.ops._sparse import slice as slice
from muster.compat.ops._sparse import softmax as softmax
from muster.compat.ops._sparse import sparse_dense_matmul as sparse_dense_matmul
from muster.compat.ops._sparse import split as split
from muster.compat.ops._sparse import to_dense as to_dense
from muster.compat.ops._sparse import to_indicator as to_indicator
from muster.compat.ops._sparse import transpose as transpose
from muster.data import SparseTensor as SparseTensor
