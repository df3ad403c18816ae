"""``tf.contrib.losses``."""

from muster_tensorflow.library.contrib import metric_learning as _metric_learning
from muster_tensorflow.library.contrib.predictions_first import absolute_difference as absolute_difference
from muster_tensorflow.library.contrib.predictions_first import log_loss as log_loss
from muster_tensorflow.library.contrib.predictions_first import mean_squared_error as mean_squared_error
from muster_tensorflow.library.contrib.predictions_first import sigmoid_cross_entropy as sigmoid_cross_entropy
from muster_tensorflow.library.contrib.predictions_first import softmax_cross_entropy as softmax_cross_entropy
from muster_tensorflow.library.contrib.predictions_first import (
    sparse_softmax_cross_entropy as sparse_softmax_cross_entropy,
)
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v1._collections import add_loss as add_loss
from muster_tensorflow.programs.v1._collections import get_losses as get_losses
from muster_tensorflow.programs.v1.losses import compute_weighted_loss as compute_weighted_loss
from muster_tensorflow.programs.v1.losses import get_regularization_losses as get_regularization_losses
from muster_tensorflow.programs.v1.losses import get_total_loss as get_total_loss

metric_learning = _Names(
    "tf.contrib.losses.metric_learning",
    contrastive_loss=_metric_learning.contrastive_loss,
    npairs_loss=_metric_learning.npairs_loss,
    triplet_semihard_loss=_metric_learning.triplet_semihard_loss,
)
