"""``tf.contrib.training``."""

from muster_tensorflow.library.contrib.hparams import HParams as HParams
from muster_tensorflow.library.contrib.training import clip_gradient_norms as clip_gradient_norms
from muster_tensorflow.library.contrib.training import clip_gradient_norms_fn as clip_gradient_norms_fn
from muster_tensorflow.library.contrib.training import create_train_op as create_train_op
from muster_tensorflow.library.contrib.training import multiply_gradients as multiply_gradients
from muster_tensorflow.programs.v1._device_setters import (
    GreedyLoadBalancingStrategy as GreedyLoadBalancingStrategy,
)
from muster_tensorflow.programs.v1._device_setters import byte_size_load_fn as byte_size_load_fn
from muster_tensorflow.programs.v2.checkpoints._checkpoint_state import (
    checkpoints_iterator as checkpoints_iterator,
)
