"""``tf.compat.v1.nn``: TensorFlow 1's arguments, and the names of ``tf.nn``."""

from typing import Any

from muster_tensorflow import nn as _nn
from muster_tensorflow.library.ops.nn._candidates import (
    log_uniform_candidate_sampler as log_uniform_candidate_sampler,
)
from muster_tensorflow.library.ops.nn._candidates import (
    uniform_candidate_sampler as uniform_candidate_sampler,
)
from muster_tensorflow.library.ops.nn._ctc import ctc_beam_search_decoder as ctc_beam_search_decoder_v2
from muster_tensorflow.library.ops.nn._ctc import ctc_loss as ctc_loss_v2
from muster_tensorflow.library.ops.nn._ctc import ctc_loss_of_sparse_labels as ctc_loss
from muster_tensorflow.library.ops.nn._more_layers_of_nn import avg_pool as avg_pool_v2
from muster_tensorflow.library.ops.nn._more_layers_of_nn import depthwise_conv2d as depthwise_conv2d_native
from muster_tensorflow.library.ops.nn._more_layers_of_nn import max_pool as max_pool_v2
from muster_tensorflow.library.ops.nn._rarer_nn import fused_batch_norm as fused_batch_norm
from muster_tensorflow.library.ops.nn._rarer_nn import relu_layer as relu_layer
from muster_tensorflow.library.ops.nn._windows_of_nn import conv2d_backprop_filter as conv2d_backprop_filter
from muster_tensorflow.library.ops.nn._windows_of_nn import (
    depthwise_conv2d_backprop_filter as depthwise_conv2d_native_backprop_filter,
)
from muster_tensorflow.library.ops.nn._windows_of_nn import (
    depthwise_conv2d_backprop_input as depthwise_conv2d_native_backprop_input,
)
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1 import rnn_cell as _cells
from muster_tensorflow.programs.v1.operations._old_arguments import conv2d as conv2d
from muster_tensorflow.programs.v1.operations._old_arguments import dropout as dropout
from muster_tensorflow.programs.v1.operations._old_arguments import embedding_lookup as embedding_lookup
from muster_tensorflow.programs.v1.operations._old_arguments import (
    embedding_lookup_sparse as embedding_lookup_sparse,
)
from muster_tensorflow.programs.v1.operations._old_arguments import moments as moments
from muster_tensorflow.programs.v1.operations._old_arguments import nce_loss as nce_loss
from muster_tensorflow.programs.v1.operations._old_arguments import (
    safe_embedding_lookup_sparse as safe_embedding_lookup_sparse,
)
from muster_tensorflow.programs.v1.operations._old_arguments import (
    sampled_softmax_loss as sampled_softmax_loss,
)
from muster_tensorflow.programs.v1.operations._old_arguments import xw_plus_b as xw_plus_b
from muster_tensorflow.programs.v1.operations._old_operations import dilation2d as dilation2d
from muster_tensorflow.programs.v1.operations._old_operations import erosion2d as erosion2d
from muster_tensorflow.programs.v1.operations._old_parameters import avg_pool as avg_pool
from muster_tensorflow.programs.v1.operations._old_parameters import avg_pool as avg_pool2d
from muster_tensorflow.programs.v1.operations._old_parameters import (
    batch_norm_with_global_normalization as batch_norm_with_global_normalization,
)
from muster_tensorflow.programs.v1.operations._old_parameters import conv1d as conv1d
from muster_tensorflow.programs.v1.operations._old_parameters import (
    conv2d_backprop_input as conv2d_backprop_input,
)
from muster_tensorflow.programs.v1.operations._old_parameters import conv2d_transpose as conv2d_transpose
from muster_tensorflow.programs.v1.operations._old_parameters import conv3d as conv3d
from muster_tensorflow.programs.v1.operations._old_parameters import conv3d_transpose as conv3d_transpose
from muster_tensorflow.programs.v1.operations._old_parameters import convolution as convolution
from muster_tensorflow.programs.v1.operations._old_parameters import crelu as crelu
from muster_tensorflow.programs.v1.operations._old_parameters import depth_to_space as depth_to_space
from muster_tensorflow.programs.v1.operations._old_parameters import depthwise_conv2d as depthwise_conv2d
from muster_tensorflow.programs.v1.operations._old_parameters import in_top_k as in_top_k
from muster_tensorflow.programs.v1.operations._old_parameters import log_softmax as log_softmax
from muster_tensorflow.programs.v1.operations._old_parameters import max_pool as max_pool
from muster_tensorflow.programs.v1.operations._old_parameters import (
    max_pool_with_argmax as max_pool_with_argmax,
)
from muster_tensorflow.programs.v1.operations._old_parameters import pool as pool
from muster_tensorflow.programs.v1.operations._old_parameters import separable_conv2d as separable_conv2d
from muster_tensorflow.programs.v1.operations._old_parameters import softmax as softmax
from muster_tensorflow.programs.v1.operations._old_parameters import (
    softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits,
)
from muster_tensorflow.programs.v1.operations._old_parameters import (
    softmax_cross_entropy_with_logits_v2 as softmax_cross_entropy_with_logits_v2,
)
from muster_tensorflow.programs.v1.operations._old_parameters import space_to_batch as space_to_batch
from muster_tensorflow.programs.v1.operations._old_parameters import space_to_depth as space_to_depth
from muster_tensorflow.programs.v1.operations._old_parameters import (
    sufficient_statistics as sufficient_statistics,
)
from muster_tensorflow.programs.v1.operations._old_parameters import (
    weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits,
)
from muster_tensorflow.programs.v1.operations._old_parameters import weighted_moments as weighted_moments
from muster_tensorflow.programs.v1.rnn import bidirectional_dynamic_rnn as bidirectional_dynamic_rnn
from muster_tensorflow.programs.v1.rnn import dynamic_rnn as dynamic_rnn
from muster_tensorflow.programs.v1.rnn import static_bidirectional_rnn as static_bidirectional_rnn
from muster_tensorflow.programs.v1.rnn import static_rnn as static_rnn

rnn_cell = _Names(
    "tf.compat.v1.nn.rnn_cell",
    BasicLSTMCell=_cells.BasicLSTMCell,
    BasicRNNCell=_cells.BasicRNNCell,
    DeviceWrapper=_cells.DeviceWrapper,
    DropoutWrapper=_cells.DropoutWrapper,
    GRUCell=_cells.GRUCell,
    LSTMCell=_cells.LSTMCell,
    LSTMStateTuple=_cells.LSTMStateTuple,
    MultiRNNCell=_cells.MultiRNNCell,
    RNNCell=_cells.RNNCell,
    ResidualWrapper=_cells.ResidualWrapper,
)


def __getattr__(name: str) -> Any:
    return _passed_on(_nn, __name__, name)
