"""``tf.compat``."""

from os import fspath as path_to_str

from muster_tensorflow.compat import v1 as v1
from muster_tensorflow.compat import v2 as v2
from muster_tensorflow.library.ops.arrays._array_shape import dimension_value as dimension_value
from muster_tensorflow.programs.v1._text import as_bytes as as_bytes
from muster_tensorflow.programs.v1._text import as_str as as_str
from muster_tensorflow.programs.v1._text import as_str as as_text
from muster_tensorflow.programs.v1._text import as_str_any as as_str_any
from muster_tensorflow.programs.v2._versions import bytes_or_text_types as bytes_or_text_types
from muster_tensorflow.programs.v2._versions import complex_types as complex_types
from muster_tensorflow.programs.v2._versions import (
    forward_compatibility_horizon as forward_compatibility_horizon,
)
from muster_tensorflow.programs.v2._versions import forward_compatible as forward_compatible
from muster_tensorflow.programs.v2._versions import integral_types as integral_types
from muster_tensorflow.programs.v2._versions import real_types as real_types
