"""``tensorboard.plugins``."""

from muster_tensorflow.tensorboard.plugins import hparams as hparams
