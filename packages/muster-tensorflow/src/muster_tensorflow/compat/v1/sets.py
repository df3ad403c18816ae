"""``tf.compat.v1.sets``."""

from muster_tensorflow.library.ops.arrays._sets import set_difference as difference
from muster_tensorflow.library.ops.arrays._sets import set_difference as set_difference
from muster_tensorflow.library.ops.arrays._sets import set_intersection as intersection
from muster_tensorflow.library.ops.arrays._sets import set_intersection as set_intersection
from muster_tensorflow.library.ops.arrays._sets import set_size as set_size
from muster_tensorflow.library.ops.arrays._sets import set_size as size
from muster_tensorflow.library.ops.arrays._sets import set_union as set_union
from muster_tensorflow.library.ops.arrays._sets import set_union as union
