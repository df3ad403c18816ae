"""``tf.keras.backend``: Keras 3's, and functions of Keras 2, which are in ``keras.ops`` now."""

from typing import Any

from muster import keras
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1._step import name_scope as name_scope
from muster_tensorflow.programs.v1.sessions._session import set_session as set_session
from muster_tensorflow.programs.v2.backend._backend import SAME as _SAME
from muster_tensorflow.programs.v2.backend._backend import argmax as argmax
from muster_tensorflow.programs.v2.backend._backend import argmin as argmin
from muster_tensorflow.programs.v2.backend._backend import batch_dot as batch_dot
from muster_tensorflow.programs.v2.backend._backend import batch_flatten as batch_flatten
from muster_tensorflow.programs.v2.backend._backend import batch_get_value as batch_get_value
from muster_tensorflow.programs.v2.backend._backend import batch_set_value as batch_set_value
from muster_tensorflow.programs.v2.backend._backend import concatenate as concatenate
from muster_tensorflow.programs.v2.backend._backend import constant as constant
from muster_tensorflow.programs.v2.backend._backend import count_params as count_params
from muster_tensorflow.programs.v2.backend._backend import ctc_batch_cost as ctc_batch_cost
from muster_tensorflow.programs.v2.backend._backend import ctc_decode as ctc_decode
from muster_tensorflow.programs.v2.backend._backend import dtype as dtype
from muster_tensorflow.programs.v2.backend._backend import expand_dims as expand_dims
from muster_tensorflow.programs.v2.backend._backend import flatten as flatten
from muster_tensorflow.programs.v2.backend._backend import function as function
from muster_tensorflow.programs.v2.backend._backend import gather as gather
from muster_tensorflow.programs.v2.backend._backend import get_value as eval
from muster_tensorflow.programs.v2.backend._backend import get_value as get_value
from muster_tensorflow.programs.v2.backend._backend import identity as identity
from muster_tensorflow.programs.v2.backend._backend import in_top_k as in_top_k
from muster_tensorflow.programs.v2.backend._backend import int_shape as int_shape
from muster_tensorflow.programs.v2.backend._backend import l2_normalize as l2_normalize
from muster_tensorflow.programs.v2.backend._backend import moving_average_update as moving_average_update
from muster_tensorflow.programs.v2.backend._backend import ndim as ndim
from muster_tensorflow.programs.v2.backend._backend import permute_dimensions as permute_dimensions
from muster_tensorflow.programs.v2.backend._backend import pow as pow
from muster_tensorflow.programs.v2.backend._backend import random_normal as random_normal
from muster_tensorflow.programs.v2.backend._backend import random_uniform as random_uniform
from muster_tensorflow.programs.v2.backend._backend import repeat as repeat
from muster_tensorflow.programs.v2.backend._backend import repeat_elements as repeat_elements
from muster_tensorflow.programs.v2.backend._backend import reverse as reverse
from muster_tensorflow.programs.v2.backend._backend import set_value as set_value
from muster_tensorflow.programs.v2.backend._backend import update as update
from muster_tensorflow.programs.v2.backend._backend import update_add as update_add
from muster_tensorflow.programs.v2.backend._backend import update_sub as update_sub
from muster_tensorflow.programs.v2.backend._backend import variable as variable
from muster_tensorflow.programs.v2.backend._backend_layers import bias_add as bias_add
from muster_tensorflow.programs.v2.backend._backend_layers import conv1d as conv1d
from muster_tensorflow.programs.v2.backend._backend_layers import conv2d as conv2d
from muster_tensorflow.programs.v2.backend._backend_layers import dropout as dropout
from muster_tensorflow.programs.v2.backend._backend_layers import pool2d as pool2d
from muster_tensorflow.programs.v2.backend._backend_layers import random_bernoulli as random_bernoulli
from muster_tensorflow.programs.v2.backend._backend_layers import random_binomial as random_binomial
from muster_tensorflow.programs.v2.backend._backend_layers import spatial_2d_padding as spatial_2d_padding
from muster_tensorflow.programs.v2.backend._backend_layers import temporal_padding as temporal_padding
from muster_tensorflow.programs.v2.backend._backend_layers import truncated_normal as truncated_normal
from muster_tensorflow.programs.v2.backend._backend_parameters import arange as arange
from muster_tensorflow.programs.v2.backend._backend_parameters import clip as clip
from muster_tensorflow.programs.v2.backend._backend_parameters import cumprod as cumprod
from muster_tensorflow.programs.v2.backend._backend_parameters import cumsum as cumsum
from muster_tensorflow.programs.v2.backend._backend_parameters import dot as dot
from muster_tensorflow.programs.v2.backend._backend_parameters import equal as equal
from muster_tensorflow.programs.v2.backend._backend_parameters import eye as eye
from muster_tensorflow.programs.v2.backend._backend_parameters import greater as greater
from muster_tensorflow.programs.v2.backend._backend_parameters import greater_equal as greater_equal
from muster_tensorflow.programs.v2.backend._backend_parameters import hard_sigmoid as hard_sigmoid
from muster_tensorflow.programs.v2.backend._backend_parameters import less as less
from muster_tensorflow.programs.v2.backend._backend_parameters import less_equal as less_equal
from muster_tensorflow.programs.v2.backend._backend_parameters import maximum as maximum
from muster_tensorflow.programs.v2.backend._backend_parameters import minimum as minimum
from muster_tensorflow.programs.v2.backend._backend_parameters import not_equal as not_equal
from muster_tensorflow.programs.v2.backend._backend_parameters import one_hot as one_hot
from muster_tensorflow.programs.v2.backend._backend_parameters import ones as ones
from muster_tensorflow.programs.v2.backend._backend_parameters import ones_like as ones_like
from muster_tensorflow.programs.v2.backend._backend_parameters import placeholder as placeholder
from muster_tensorflow.programs.v2.backend._backend_parameters import relu as relu
from muster_tensorflow.programs.v2.backend._backend_parameters import reshape as reshape
from muster_tensorflow.programs.v2.backend._backend_parameters import shape as shape
from muster_tensorflow.programs.v2.backend._backend_parameters import (
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
)
from muster_tensorflow.programs.v2.backend._backend_parameters import stop_gradient as stop_gradient
from muster_tensorflow.programs.v2.backend._backend_parameters import tile as tile
from muster_tensorflow.programs.v2.backend._backend_parameters import zeros as zeros
from muster_tensorflow.programs.v2.backend._backend_parameters import zeros_like as zeros_like
from muster_tensorflow.programs.v2.backend._backend_phases import cast_to_floatx as cast_to_floatx
from muster_tensorflow.programs.v2.backend._backend_phases import in_test_phase as in_test_phase
from muster_tensorflow.programs.v2.backend._backend_phases import in_train_phase as in_train_phase
from muster_tensorflow.programs.v2.backend._backend_phases import learning_phase as learning_phase
from muster_tensorflow.programs.v2.backend._backend_phases import learning_phase_scope as learning_phase_scope
from muster_tensorflow.programs.v2.backend._backend_phases import print_tensor as print_tensor
from muster_tensorflow.programs.v2.backend._backend_phases import set_learning_phase as set_learning_phase
from muster_tensorflow.programs.v2.backend._backend_phases import switch as switch
from muster_tensorflow.programs.v2.backend._backend_steps import foldl as foldl
from muster_tensorflow.programs.v2.backend._backend_steps import foldr as foldr
from muster_tensorflow.programs.v2.backend._backend_steps import map_fn as map_fn
from muster_tensorflow.programs.v2.backend._backend_steps import rnn as rnn
from muster_tensorflow.programs.v2.backend._backend_values import backend as backend
from muster_tensorflow.programs.v2.backend._backend_values import (
    binary_focal_crossentropy as binary_focal_crossentropy,
)
from muster_tensorflow.programs.v2.backend._backend_values import (
    categorical_focal_crossentropy as categorical_focal_crossentropy,
)
from muster_tensorflow.programs.v2.backend._backend_values import (
    ctc_label_dense_to_sparse as ctc_label_dense_to_sparse,
)
from muster_tensorflow.programs.v2.backend._backend_values import is_sparse as is_sparse
from muster_tensorflow.programs.v2.backend._backend_values import (
    random_normal_variable as random_normal_variable,
)
from muster_tensorflow.programs.v2.backend._backend_values import (
    random_uniform_variable as random_uniform_variable,
)
from muster_tensorflow.programs.v2.backend._backend_values import reset_uids as reset_uids
from muster_tensorflow.programs.v2.backend._backend_values import to_dense as to_dense
from muster_tensorflow.programs.v2.backend._backend_volumes import batch_normalization as batch_normalization
from muster_tensorflow.programs.v2.backend._backend_volumes import conv2d_transpose as conv2d_transpose
from muster_tensorflow.programs.v2.backend._backend_volumes import conv3d as conv3d
from muster_tensorflow.programs.v2.backend._backend_volumes import depthwise_conv2d as depthwise_conv2d
from muster_tensorflow.programs.v2.backend._backend_volumes import local_conv1d as local_conv1d
from muster_tensorflow.programs.v2.backend._backend_volumes import local_conv2d as local_conv2d
from muster_tensorflow.programs.v2.backend._backend_volumes import (
    normalize_batch_in_training as normalize_batch_in_training,
)
from muster_tensorflow.programs.v2.backend._backend_volumes import pool3d as pool3d
from muster_tensorflow.programs.v2.backend._backend_volumes import resize_images as resize_images
from muster_tensorflow.programs.v2.backend._backend_volumes import resize_volumes as resize_volumes
from muster_tensorflow.programs.v2.backend._backend_volumes import separable_conv2d as separable_conv2d
from muster_tensorflow.programs.v2.backend._backend_volumes import spatial_3d_padding as spatial_3d_padding


def __getattr__(name: str) -> Any:
    return getattr(keras.ops, name) if name in _SAME else _passed_on(keras.backend, __name__, name, *_SAME)
