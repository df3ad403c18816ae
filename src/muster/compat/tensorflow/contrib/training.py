"""``tf.contrib.training``."""

from muster.compat.v1.contrib.hparams import HParams as HParams
from muster.compat.v1.contrib.training import create_train_op as create_train_op
