"""``tf.sets``."""

from muster.compat.ops._sets import set_difference as difference
from muster.compat.ops._sets import set_intersection as intersection
from muster.compat.ops._sets import set_size as size
from muster.compat.ops._sets import set_union as union
