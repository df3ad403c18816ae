"""``tf.nn``."""

from muster.compat.ops._layers_of_nn import avg_pool2d as avg_pool
from muster.compat.ops._layers_of_nn import avg_pool2d as avg_pool2d
from muster.compat.ops._layers_of_nn import batch_normalization as batch_normalization
from muster.compat.ops._layers_of_nn import bias_add as bias_add
from muster.compat.ops._layers_of_nn import conv1d as conv1d
from muster.compat.ops._layers_of_nn import conv2d as conv2d
from muster.compat.ops._layers_of_nn import dropout as dropout
from muster.compat.ops._layers_of_nn import max_pool2d as max_pool
from muster.compat.ops._layers_of_nn import max_pool2d as max_pool2d
from muster.compat.ops._math import sigmoid as sigmoid
from muster.compat.ops._math import tanh as tanh
from muster.compat.ops._nn import elu as elu
from muster.compat.ops._nn import embedding_lookup as embedding_lookup
from muster.compat.ops._nn import embedding_lookup_sparse as embedding_lookup_sparse
from muster.compat.ops._nn import gelu as gelu
from muster.compat.ops._nn import in_top_k as in_top_k
from muster.compat.ops._nn import l2_loss as l2_loss
from muster.compat.ops._nn import l2_normalize as l2_normalize
from muster.compat.ops._nn import leaky_relu as leaky_relu
from muster.compat.ops._nn import log_softmax as log_softmax
from muster.compat.ops._nn import moments as moments
from muster.compat.ops._nn import relu as relu
from muster.compat.ops._nn import relu6 as relu6
from muster.compat.ops._nn import selu as selu
from muster.compat.ops._nn import sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits
from muster.compat.ops._nn import silu as silu
from muster.compat.ops._nn import silu as swish
from muster.compat.ops._nn import softmax as softmax
from muster.compat.ops._nn import softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits
from muster.compat.ops._nn import softplus as softplus
from muster.compat.ops._nn import softsign as softsign
from muster.compat.ops._nn import (
    sparse_softmax_cross_entropy_with_logits as sparse_softmax_cross_entropy_with_logits,
)
from muster.compat.ops._nn import top_k as top_k
from muster.compat.ops._nn import weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits
from muster.compat.ops._nn import zero_fraction as zero_fraction
from muster.compat.v2._average_loss import compute_average_loss as compute_average_loss
from muster.compat.v2._average_loss import scale_regularization_loss as scale_regularization_loss
