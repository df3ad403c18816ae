"""``tf.compat.v1.manip``: an older place of operations that move values."""

from muster_tensorflow.library.ops.arrays._blocks import batch_to_space as batch_to_space_nd
from muster_tensorflow.library.ops.arrays._blocks import space_to_batch as space_to_batch_nd
from muster_tensorflow.library.ops.arrays._select import reverse as reverse
from muster_tensorflow.library.ops.arrays._select import roll as roll
from muster_tensorflow.library.ops.arrays._select import scatter_nd as scatter_nd
from muster_tensorflow.library.ops.arrays._shape import reshape as reshape
from muster_tensorflow.library.ops.arrays._shape import tile as tile
from muster_tensorflow.programs.v1.operations._old_arguments import gather_nd as gather_nd
