"""``tensorboard.plugins.hparams``."""

from muster.compat.tensorboard.plugins.hparams import api as api
