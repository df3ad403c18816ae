"""``tensorboard``'s modules that write by TensorFlow, on muster's summaries."""

from muster_tensorflow.tensorboard import plugins as plugins
