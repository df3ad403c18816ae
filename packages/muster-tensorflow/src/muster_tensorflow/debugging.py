"""``tf.debugging``."""

from muster import keras as _keras
from muster_tensorflow.library.ops.control._asserts import Assert as Assert
from muster_tensorflow.library.ops.control._asserts import assert_all_finite as assert_all_finite
from muster_tensorflow.library.ops.control._asserts import assert_equal as assert_equal
from muster_tensorflow.library.ops.control._asserts import assert_greater as assert_greater
from muster_tensorflow.library.ops.control._asserts import assert_greater_equal as assert_greater_equal
from muster_tensorflow.library.ops.control._asserts import assert_integer as assert_integer
from muster_tensorflow.library.ops.control._asserts import assert_less as assert_less
from muster_tensorflow.library.ops.control._asserts import assert_less_equal as assert_less_equal
from muster_tensorflow.library.ops.control._asserts import assert_near as assert_near
from muster_tensorflow.library.ops.control._asserts import assert_negative as assert_negative
from muster_tensorflow.library.ops.control._asserts import assert_non_negative as assert_non_negative
from muster_tensorflow.library.ops.control._asserts import assert_non_positive as assert_non_positive
from muster_tensorflow.library.ops.control._asserts import assert_none_equal as assert_none_equal
from muster_tensorflow.library.ops.control._asserts import assert_positive as assert_positive
from muster_tensorflow.library.ops.control._asserts import assert_rank as assert_rank
from muster_tensorflow.library.ops.control._asserts import assert_rank_at_least as assert_rank_at_least
from muster_tensorflow.library.ops.control._asserts import assert_rank_in as assert_rank_in
from muster_tensorflow.library.ops.control._asserts import assert_scalar as assert_scalar
from muster_tensorflow.library.ops.control._asserts import assert_shapes as assert_shapes
from muster_tensorflow.library.ops.control._asserts import assert_type as assert_type
from muster_tensorflow.library.ops.control._asserts import check_numerics as check_numerics
from muster_tensorflow.library.ops.control._asserts import disable_check_numerics as disable_check_numerics
from muster_tensorflow.library.ops.control._asserts import enable_check_numerics as enable_check_numerics
from muster_tensorflow.library.ops.control._asserts import is_numeric_tensor as is_numeric_tensor
from muster_tensorflow.programs.v2.config import set_log_device_placement as set_log_device_placement
from muster_tensorflow.programs.v2.devices._device_memory import (
    get_log_device_placement as get_log_device_placement,
)

disable_traceback_filtering = _keras.config.disable_traceback_filtering
enable_traceback_filtering = _keras.config.enable_traceback_filtering
is_traceback_filtering_enabled = _keras.config.is_traceback_filtering_enabled
