"""``tf.contrib.gan``."""

from muster_tensorflow.contrib.gan import estimator as estimator
from muster_tensorflow.contrib.gan import losses as losses
from muster_tensorflow.library.contrib.gan._train import GANLoss as GANLoss
from muster_tensorflow.library.contrib.gan._train import GANModel as GANModel
from muster_tensorflow.library.contrib.gan._train import GANTrainOps as GANTrainOps
from muster_tensorflow.library.contrib.gan._train import GANTrainSteps as GANTrainSteps
from muster_tensorflow.library.contrib.gan._train import RunTrainOpsHook as RunTrainOpsHook
from muster_tensorflow.library.contrib.gan._train import gan_loss as gan_loss
from muster_tensorflow.library.contrib.gan._train import gan_model as gan_model
from muster_tensorflow.library.contrib.gan._train import gan_train_ops as gan_train_ops
from muster_tensorflow.library.contrib.gan._train import get_joint_train_hooks as get_joint_train_hooks
from muster_tensorflow.library.contrib.gan._train import (
    get_sequential_train_hooks as get_sequential_train_hooks,
)
