"""``tf.compat.v1.debugging``: TensorFlow 1's arguments, and the names of ``tf.debugging``."""

from typing import Any

from muster_tensorflow import debugging as _debugging
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1.operations._assertions import assert_equal as assert_equal
from muster_tensorflow.programs.v1.operations._assertions import assert_greater as assert_greater
from muster_tensorflow.programs.v1.operations._assertions import assert_greater_equal as assert_greater_equal
from muster_tensorflow.programs.v1.operations._assertions import assert_less as assert_less
from muster_tensorflow.programs.v1.operations._assertions import assert_less_equal as assert_less_equal
from muster_tensorflow.programs.v1.operations._assertions import assert_near as assert_near
from muster_tensorflow.programs.v1.operations._assertions import assert_negative as assert_negative
from muster_tensorflow.programs.v1.operations._assertions import assert_non_negative as assert_non_negative
from muster_tensorflow.programs.v1.operations._assertions import assert_non_positive as assert_non_positive
from muster_tensorflow.programs.v1.operations._assertions import assert_none_equal as assert_none_equal
from muster_tensorflow.programs.v1.operations._assertions import assert_positive as assert_positive
from muster_tensorflow.programs.v1.operations._assertions import assert_rank as assert_rank
from muster_tensorflow.programs.v1.operations._assertions import assert_rank_at_least as assert_rank_at_least
from muster_tensorflow.programs.v1.operations._assertions import assert_rank_in as assert_rank_in
from muster_tensorflow.programs.v1.operations._assertions import assert_scalar as assert_scalar
from muster_tensorflow.programs.v1.operations._assertions import assert_type as assert_type
from muster_tensorflow.programs.v1.operations._old_parameters import assert_all_finite as assert_all_finite


def __getattr__(name: str) -> Any:
    return _passed_on(_debugging, __name__, name)
