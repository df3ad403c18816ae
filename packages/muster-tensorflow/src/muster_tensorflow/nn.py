"""``tf.nn``."""

from muster_tensorflow.library.ops.arrays._blocks import depth_to_space as depth_to_space
from muster_tensorflow.library.ops.arrays._blocks import space_to_batch as space_to_batch
from muster_tensorflow.library.ops.arrays._blocks import space_to_depth as space_to_depth
from muster_tensorflow.library.ops.math._math import sigmoid as sigmoid
from muster_tensorflow.library.ops.math._math import tanh as tanh
from muster_tensorflow.library.ops.math._more_math import approx_max_k as approx_max_k
from muster_tensorflow.library.ops.math._more_math import approx_min_k as approx_min_k
from muster_tensorflow.library.ops.math._special import weighted_moments as weighted_moments
from muster_tensorflow.library.ops.nn._candidates import (
    fixed_unigram_candidate_sampler as fixed_unigram_candidate_sampler,
)
from muster_tensorflow.library.ops.nn._candidates import nce_loss as nce_loss
from muster_tensorflow.library.ops.nn._candidates import sampled_softmax_loss as sampled_softmax_loss
from muster_tensorflow.library.ops.nn._ctc import ctc_beam_search_decoder as ctc_beam_search_decoder
from muster_tensorflow.library.ops.nn._ctc import ctc_greedy_decoder as ctc_greedy_decoder
from muster_tensorflow.library.ops.nn._ctc import ctc_loss as ctc_loss
from muster_tensorflow.library.ops.nn._layers_of_nn import avg_pool2d as avg_pool2d
from muster_tensorflow.library.ops.nn._layers_of_nn import batch_normalization as batch_normalization
from muster_tensorflow.library.ops.nn._layers_of_nn import bias_add as bias_add
from muster_tensorflow.library.ops.nn._layers_of_nn import conv1d as conv1d
from muster_tensorflow.library.ops.nn._layers_of_nn import conv2d as conv2d
from muster_tensorflow.library.ops.nn._layers_of_nn import dropout as dropout
from muster_tensorflow.library.ops.nn._layers_of_nn import max_pool2d as max_pool2d
from muster_tensorflow.library.ops.nn._more_layers_of_nn import atrous_conv2d as atrous_conv2d
from muster_tensorflow.library.ops.nn._more_layers_of_nn import avg_pool as avg_pool
from muster_tensorflow.library.ops.nn._more_layers_of_nn import avg_pool1d as avg_pool1d
from muster_tensorflow.library.ops.nn._more_layers_of_nn import avg_pool3d as avg_pool3d
from muster_tensorflow.library.ops.nn._more_layers_of_nn import conv1d_transpose as conv1d_transpose
from muster_tensorflow.library.ops.nn._more_layers_of_nn import conv2d_transpose as conv2d_transpose
from muster_tensorflow.library.ops.nn._more_layers_of_nn import conv3d as conv3d
from muster_tensorflow.library.ops.nn._more_layers_of_nn import conv3d_transpose as conv3d_transpose
from muster_tensorflow.library.ops.nn._more_layers_of_nn import convolution as convolution
from muster_tensorflow.library.ops.nn._more_layers_of_nn import crelu as crelu
from muster_tensorflow.library.ops.nn._more_layers_of_nn import depthwise_conv2d as depthwise_conv2d
from muster_tensorflow.library.ops.nn._more_layers_of_nn import (
    local_response_normalization as local_response_normalization,
)
from muster_tensorflow.library.ops.nn._more_layers_of_nn import local_response_normalization as lrn
from muster_tensorflow.library.ops.nn._more_layers_of_nn import log_poisson_loss as log_poisson_loss
from muster_tensorflow.library.ops.nn._more_layers_of_nn import max_pool as max_pool
from muster_tensorflow.library.ops.nn._more_layers_of_nn import max_pool1d as max_pool1d
from muster_tensorflow.library.ops.nn._more_layers_of_nn import max_pool3d as max_pool3d
from muster_tensorflow.library.ops.nn._more_layers_of_nn import normalize_moments as normalize_moments
from muster_tensorflow.library.ops.nn._more_layers_of_nn import pool as pool
from muster_tensorflow.library.ops.nn._more_layers_of_nn import separable_conv2d as separable_conv2d
from muster_tensorflow.library.ops.nn._more_layers_of_nn import sufficient_statistics as sufficient_statistics
from muster_tensorflow.library.ops.nn._nn import elu as elu
from muster_tensorflow.library.ops.nn._nn import embedding_lookup as embedding_lookup
from muster_tensorflow.library.ops.nn._nn import embedding_lookup_sparse as embedding_lookup_sparse
from muster_tensorflow.library.ops.nn._nn import gelu as gelu
from muster_tensorflow.library.ops.nn._nn import in_top_k as in_top_k
from muster_tensorflow.library.ops.nn._nn import l2_loss as l2_loss
from muster_tensorflow.library.ops.nn._nn import l2_normalize as l2_normalize
from muster_tensorflow.library.ops.nn._nn import leaky_relu as leaky_relu
from muster_tensorflow.library.ops.nn._nn import log_softmax as log_softmax
from muster_tensorflow.library.ops.nn._nn import moments as moments
from muster_tensorflow.library.ops.nn._nn import relu as relu
from muster_tensorflow.library.ops.nn._nn import relu6 as relu6
from muster_tensorflow.library.ops.nn._nn import safe_embedding_lookup_sparse as safe_embedding_lookup_sparse
from muster_tensorflow.library.ops.nn._nn import selu as selu
from muster_tensorflow.library.ops.nn._nn import (
    sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits,
)
from muster_tensorflow.library.ops.nn._nn import silu as silu
from muster_tensorflow.library.ops.nn._nn import silu as swish
from muster_tensorflow.library.ops.nn._nn import softmax as softmax
from muster_tensorflow.library.ops.nn._nn import (
    softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits,
)
from muster_tensorflow.library.ops.nn._nn import softplus as softplus
from muster_tensorflow.library.ops.nn._nn import softsign as softsign
from muster_tensorflow.library.ops.nn._nn import (
    sparse_softmax_cross_entropy_with_logits as sparse_softmax_cross_entropy_with_logits,
)
from muster_tensorflow.library.ops.nn._nn import top_k as top_k
from muster_tensorflow.library.ops.nn._nn import (
    weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits,
)
from muster_tensorflow.library.ops.nn._nn import zero_fraction as zero_fraction
from muster_tensorflow.library.ops.nn._rarer_nn import (
    batch_norm_with_global_normalization as batch_norm_with_global_normalization,
)
from muster_tensorflow.library.ops.nn._rarer_nn import collapse_repeated as collapse_repeated
from muster_tensorflow.library.ops.nn._rarer_nn import ctc_unique_labels as ctc_unique_labels
from muster_tensorflow.library.ops.nn._rarer_nn import general_dropout as _general_dropout
from muster_tensorflow.library.ops.nn._rarer_nn import isotonic_regression as isotonic_regression
from muster_tensorflow.library.ops.nn._rarer_nn import stateless_dropout as _stateless_dropout
from muster_tensorflow.library.ops.nn._windows_of_nn import atrous_conv2d_transpose as atrous_conv2d_transpose
from muster_tensorflow.library.ops.nn._windows_of_nn import conv_transpose as conv_transpose
from muster_tensorflow.library.ops.nn._windows_of_nn import (
    depthwise_conv2d_backprop_filter as depthwise_conv2d_backprop_filter,
)
from muster_tensorflow.library.ops.nn._windows_of_nn import (
    depthwise_conv2d_backprop_input as depthwise_conv2d_backprop_input,
)
from muster_tensorflow.library.ops.nn._windows_of_nn import dilation2d as dilation2d
from muster_tensorflow.library.ops.nn._windows_of_nn import erosion2d as erosion2d
from muster_tensorflow.library.ops.nn._windows_of_nn import max_pool_with_argmax as max_pool_with_argmax
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v2.devices._average_loss import compute_average_loss as compute_average_loss
from muster_tensorflow.programs.v2.devices._average_loss import (
    scale_regularization_loss as scale_regularization_loss,
)

experimental = _Names(
    "tf.nn.experimental", general_dropout=_general_dropout, stateless_dropout=_stateless_dropout
)
