"""``tensorboard.plugins``."""

from muster.compat.tensorboard.plugins import hparams as hparams
