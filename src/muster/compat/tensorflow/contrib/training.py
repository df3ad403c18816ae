"""``tf.contrib.training``."""

from muster.compat.v1._device_setters import GreedyLoadBalancingStrategy as GreedyLoadBalancingStrategy
from muster.compat.v1._device_setters import byte_size_load_fn as byte_size_load_fn
from muster.compat.v1.contrib.hparams import HParams as HParams
from muster.compat.v1.contrib.training import create_train_op as create_train_op
