"""``tf.compat``."""

from os import fspath as path_to_str

from muster.compat.ops._array_shape import dimension_value as dimension_value
from muster.compat.tensorflow.compat import v1 as v1
from muster.compat.tensorflow.compat import v2 as v2
from muster.compat.v1._text import as_bytes as as_bytes
from muster.compat.v1._text import as_str as as_str
from muster.compat.v1._text import as_str as as_text
from muster.compat.v1._text import as_str_any as as_str_any
from muster.compat.v2._versions import bytes_or_text_types as bytes_or_text_types
from muster.compat.v2._versions import complex_types as complex_types
from muster.compat.v2._versions import forward_compatibility_horizon as forward_compatibility_horizon
from muster.compat.v2._versions import forward_compatible as forward_compatible
from muster.compat.v2._versions import integral_types as integral_types
from muster.compat.v2._versions import real_types as real_types
