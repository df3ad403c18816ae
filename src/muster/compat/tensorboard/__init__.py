"""``tensorboard``'s modules that write by TensorFlow, on muster's summaries."""

from muster.compat.tensorboard import plugins as plugins
