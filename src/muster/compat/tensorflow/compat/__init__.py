"""``tf.compat``."""

from muster.compat.ops._array_shape import dimension_value as dimension_value
from muster.compat.tensorflow.compat import v1 as v1
from muster.compat.tensorflow.compat import v2 as v2
from muster.compat.v1._text import as_bytes as as_bytes
from muster.compat.v1._text import as_str as as_str
from muster.compat.v1._text import as_str as as_text
from muster.compat.v1._text import as_str_any as as_str_any
