"""``tensorboard.plugins.hparams``."""

from muster_tensorflow.tensorboard.plugins.hparams import api as api
