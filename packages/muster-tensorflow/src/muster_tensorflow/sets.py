"""``tf.sets``."""

from muster_tensorflow.library.ops.arrays._sets import set_difference as difference
from muster_tensorflow.library.ops.arrays._sets import set_intersection as intersection
from muster_tensorflow.library.ops.arrays._sets import set_size as size
from muster_tensorflow.library.ops.arrays._sets import set_union as union
