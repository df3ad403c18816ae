"""Modules of ``tensorboard`` that need TensorFlow, rebuilt on muster's summaries."""

from muster_tensorflow.tensorboard import plugins as plugins
