"""``tf.compat.v1``: TensorFlow 1's names, and through ``__getattr__`` all of TensorFlow 2's.

``import muster.compat.tensorflow.compat.v1 as tf`` is for programs that were written for TensorFlow 1.
"""

import sys
from typing import Any

from muster.compat._names import missing as _missing
from muster.compat.ops._control import numpy_function as py_func
from muster.compat.ops._linalg import band_part as matrix_band_part
from muster.compat.ops._linalg import cholesky as cholesky
from muster.compat.ops._linalg import det as matrix_determinant
from muster.compat.ops._linalg import diag as matrix_diag
from muster.compat.ops._linalg import diag_part as matrix_diag_part
from muster.compat.ops._linalg import inv as matrix_inverse
from muster.compat.ops._linalg import solve as matrix_solve
from muster.compat.ops._linalg import trace as trace
from muster.compat.ops._math import ceil as ceil
from muster.compat.ops._math import erf as erf
from muster.compat.ops._math import floordiv as floor_div
from muster.compat.ops._math import floordiv as floordiv
from muster.compat.ops._math import floormod as floormod
from muster.compat.ops._math import floormod as mod
from muster.compat.ops._math import is_finite as is_finite
from muster.compat.ops._math import is_inf as is_inf
from muster.compat.ops._math import is_nan as is_nan
from muster.compat.ops._math import lgamma as lgamma
from muster.compat.ops._math import log as log
from muster.compat.ops._math import log1p as log1p
from muster.compat.ops._math import log_sigmoid as log_sigmoid
from muster.compat.ops._math import logical_xor as logical_xor
from muster.compat.ops._math import reciprocal as reciprocal
from muster.compat.ops._math import rsqrt as rsqrt
from muster.compat.ops._math import squared_difference as squared_difference
from muster.compat.ops._random import normal as random_normal
from muster.compat.ops._random import set_seed as _set_seed
from muster.compat.ops._random import shuffle as random_shuffle
from muster.compat.ops._random import truncated_normal as truncated_normal
from muster.compat.ops._random import uniform as random_uniform
from muster.compat.ops._segments import bincount as bincount
from muster.compat.ops._segments import segment_max as segment_max
from muster.compat.ops._segments import segment_mean as segment_mean
from muster.compat.ops._segments import segment_sum as segment_sum
from muster.compat.ops._segments import unsorted_segment_max as unsorted_segment_max
from muster.compat.ops._segments import unsorted_segment_mean as unsorted_segment_mean
from muster.compat.ops._segments import unsorted_segment_sum as unsorted_segment_sum
from muster.compat.ops._select import linspace as lin_space
from muster.compat.ops._strings import as_string as as_string
from muster.compat.ops._strings import join as string_join
from muster.compat.ops._strings import regex_replace as regex_replace
from muster.compat.ops._strings import strip as string_strip
from muster.compat.tensorflow import summary as summary
from muster.compat.tensorflow import train as train
from muster.compat.tensorflow.compat.v1 import app as app
from muster.compat.tensorflow.compat.v1 import data as data
from muster.compat.tensorflow.compat.v1 import distribute as distribute
from muster.compat.tensorflow.compat.v1 import estimator as estimator
from muster.compat.tensorflow.compat.v1 import feature_column as feature_column
from muster.compat.tensorflow.compat.v1 import flags as flags
from muster.compat.tensorflow.compat.v1 import gfile as gfile
from muster.compat.tensorflow.compat.v1 import initializers as initializers
from muster.compat.tensorflow.compat.v1 import io as io
from muster.compat.tensorflow.compat.v1 import layers as layers
from muster.compat.tensorflow.compat.v1 import logging as logging
from muster.compat.tensorflow.compat.v1 import losses as losses
from muster.compat.tensorflow.compat.v1 import math as math
from muster.compat.tensorflow.compat.v1 import metrics as metrics
from muster.compat.tensorflow.compat.v1 import nn as nn
from muster.compat.tensorflow.compat.v1 import python_io as python_io
from muster.compat.tensorflow.compat.v1 import random as random
from muster.compat.tensorflow.compat.v1 import strings as strings
from muster.compat.tensorflow.version import COMPILER_VERSION as COMPILER_VERSION
from muster.compat.tensorflow.version import GIT_VERSION as GIT_VERSION
from muster.compat.tensorflow.version import VERSION as VERSION
from muster.compat.v1._initializers import constant_initializer as constant_initializer
from muster.compat.v1._initializers import glorot_normal_initializer as glorot_normal_initializer
from muster.compat.v1._initializers import glorot_uniform_initializer as glorot_uniform_initializer
from muster.compat.v1._initializers import ones_initializer as ones_initializer
from muster.compat.v1._initializers import orthogonal_initializer as orthogonal_initializer
from muster.compat.v1._initializers import random_normal_initializer as random_normal_initializer
from muster.compat.v1._initializers import random_uniform_initializer as random_uniform_initializer
from muster.compat.v1._initializers import truncated_normal_initializer as truncated_normal_initializer
from muster.compat.v1._initializers import variance_scaling_initializer as variance_scaling_initializer
from muster.compat.v1._initializers import zeros_initializer as zeros_initializer
from muster.compat.v1._input import read_file as read_file
from muster.compat.v1._input import write_file as write_file
from muster.compat.v1._old_arguments import argmax as argmax
from muster.compat.v1._old_arguments import argmin as argmin
from muster.compat.v1._old_arguments import boolean_mask as boolean_mask
from muster.compat.v1._old_arguments import cond as cond
from muster.compat.v1._old_arguments import confusion_matrix as confusion_matrix
from muster.compat.v1._old_arguments import count_nonzero as count_nonzero
from muster.compat.v1._old_arguments import decode_csv as decode_csv
from muster.compat.v1._old_arguments import div as div
from muster.compat.v1._old_arguments import expand_dims as expand_dims
from muster.compat.v1._old_arguments import gather as gather
from muster.compat.v1._old_arguments import gather_nd as gather_nd
from muster.compat.v1._old_arguments import norm as norm
from muster.compat.v1._old_arguments import ones_like as ones_like
from muster.compat.v1._old_arguments import pad as pad
from muster.compat.v1._old_arguments import reduce_all as reduce_all
from muster.compat.v1._old_arguments import reduce_any as reduce_any
from muster.compat.v1._old_arguments import reduce_logsumexp as reduce_logsumexp
from muster.compat.v1._old_arguments import reduce_max as reduce_max
from muster.compat.v1._old_arguments import reduce_mean as reduce_mean
from muster.compat.v1._old_arguments import reduce_min as reduce_min
from muster.compat.v1._old_arguments import reduce_prod as reduce_prod
from muster.compat.v1._old_arguments import reduce_sum as reduce_sum
from muster.compat.v1._old_arguments import shape as shape
from muster.compat.v1._old_arguments import sparse_tensor_to_dense as sparse_tensor_to_dense
from muster.compat.v1._old_arguments import squeeze as squeeze
from muster.compat.v1._old_arguments import substr as substr
from muster.compat.v1._old_arguments import to_bfloat16 as to_bfloat16
from muster.compat.v1._old_arguments import to_double as to_double
from muster.compat.v1._old_arguments import to_float as to_float
from muster.compat.v1._old_arguments import to_int32 as to_int32
from muster.compat.v1._old_arguments import to_int64 as to_int64
from muster.compat.v1._old_arguments import to_number as string_to_number
from muster.compat.v1._old_arguments import transpose as transpose
from muster.compat.v1._old_arguments import while_loop as while_loop
from muster.compat.v1._old_arguments import zeros_like as zeros_like
from muster.compat.v1._partitioners import fixed_size_partitioner as fixed_size_partitioner
from muster.compat.v1._partitioners import min_max_variable_partitioner as min_max_variable_partitioner
from muster.compat.v1._partitioners import variable_axis_size_partitioner as variable_axis_size_partitioner
from muster.compat.v1._session_config import ConfigProto as ConfigProto
from muster.compat.v1._session_config import GPUOptions as GPUOptions
from muster.compat.v1._step import GraphKeys as GraphKeys
from muster.compat.v1._step import assign as assign
from muster.compat.v1._step import assign_add as assign_add
from muster.compat.v1._step import assign_sub as assign_sub
from muster.compat.v1._step import disable_eager_execution as disable_eager_execution
from muster.compat.v1._step import disable_v2_behavior as disable_v2_behavior
from muster.compat.v1._step import do_nothing as disable_resource_variables
from muster.compat.v1._step import do_nothing as disable_tensor_equality
from muster.compat.v1._step import do_nothing as disable_v2_tensorshape
from muster.compat.v1._step import do_nothing as enable_resource_variables
from muster.compat.v1._step import do_nothing as enable_tensor_equality
from muster.compat.v1._step import do_nothing as enable_v2_behavior
from muster.compat.v1._step import do_nothing as enable_v2_tensorshape
from muster.compat.v1._step import do_nothing as reset_default_graph
from muster.compat.v1._step import enable_eager_execution as enable_eager_execution
from muster.compat.v1._step import get_collection as get_collection
from muster.compat.v1._step import global_variables as global_variables
from muster.compat.v1._step import initializer_op as global_variables_initializer
from muster.compat.v1._step import initializer_op as initialize_all_variables
from muster.compat.v1._step import initializer_op as local_variables_initializer
from muster.compat.v1._step import initializer_op as tables_initializer
from muster.compat.v1._step import print_ as Print
from muster.compat.v1._step import trainable_variables as trainable_variables
from muster.compat.v1._variables import AUTO_REUSE as AUTO_REUSE
from muster.compat.v1._variables import VariableScope as VariableScope
from muster.compat.v1._variables import get_variable as get_variable
from muster.compat.v1._variables import get_variable_scope as get_variable_scope
from muster.compat.v1._variables import variable_scope as variable_scope
from muster.compat.v2.gfile import glob as matching_files
from muster.data import FixedLenFeature as FixedLenFeature
from muster.data import FixedLenSequenceFeature as FixedLenSequenceFeature
from muster.data import Placeholder as _Placeholder
from muster.data import VarLenFeature as VarLenFeature
from muster.data import decode_raw as decode_raw
from muster.data import parse_example as parse_example
from muster.data import parse_single_example as parse_single_example

placeholder = _Placeholder
set_random_seed = _set_seed


def __getattr__(name: str) -> Any:
    # Not imported above, since it imports this module.
    try:
        return getattr(sys.modules["muster.compat.tensorflow"], name)
    except AttributeError:
        raise _missing("tf.compat.v1", name) from None
