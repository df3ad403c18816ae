"""``tf.autograph``: functions are traced as they are, so there is nothing to convert."""

from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v2._autograph import Feature as _Feature
from muster_tensorflow.programs.v2._autograph import do_not_convert as _do_not_convert
from muster_tensorflow.programs.v2._autograph import set_loop_options as _set_loop_options
from muster_tensorflow.programs.v2._autograph import set_verbosity as set_verbosity
from muster_tensorflow.programs.v2._autograph import to_code as to_code
from muster_tensorflow.programs.v2._autograph import to_graph as to_graph

experimental = _Names(
    "tf.autograph.experimental",
    Feature=_Feature,
    do_not_convert=_do_not_convert,
    set_loop_options=_set_loop_options,
)
