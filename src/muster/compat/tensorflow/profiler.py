"""``tf.profiler``."""

from muster.compat._names import Names as _Names
from muster.compat.v2 import _profiler

experimental = _Names(
    "tf.profiler.experimental",
    Profile=_profiler.profile,
    Trace=_profiler.trace,
    start=_profiler.start,
    stop=_profiler.stop,
)
