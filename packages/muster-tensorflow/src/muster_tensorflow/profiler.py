"""``tf.profiler``."""

from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v2 import _profiler

experimental = _Names(
    "tf.profiler.experimental",
    Profile=_profiler.profile,
    Trace=_profiler.trace,
    start=_profiler.start,
    stop=_profiler.stop,
)
