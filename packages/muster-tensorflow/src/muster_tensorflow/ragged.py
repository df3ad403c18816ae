"""``tf.ragged``."""

from muster_tensorflow.library.ops.ragged._ragged import boolean_mask as boolean_mask
from muster_tensorflow.library.ops.ragged._ragged import constant as constant
from muster_tensorflow.library.ops.ragged._ragged import cross as cross
from muster_tensorflow.library.ops.ragged._ragged import map_flat_values as map_flat_values
from muster_tensorflow.library.ops.ragged._ragged import range_ as range
from muster_tensorflow.library.ops.ragged._ragged import (
    row_splits_to_segment_ids as row_splits_to_segment_ids,
)
from muster_tensorflow.library.ops.ragged._ragged import (
    segment_ids_to_row_splits as segment_ids_to_row_splits,
)
from muster_tensorflow.library.ops.ragged._ragged import stack as stack
from muster_tensorflow.library.ops.ragged._ragged import stack_dynamic_partitions as stack_dynamic_partitions
