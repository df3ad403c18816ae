"""TensorFlow's names: ``import muster_tensorflow as tf``.

The names of TensorFlow 2; those of TensorFlow 1 are in ``tf.compat.v1``. Operations work on NumPy values,
which stay NumPy values (in input functions), and on the values of a step.
"""

import sys as _sys

from muster import keras as _keras  # first: Ctrl-C waits for it
from muster.data import Dataset as _Dataset
from muster.data import RaggedTensor as RaggedTensor
from muster.data import RaggedTensorSpec as RaggedTensorSpec
from muster.data import SparseTensor as SparseTensor
from muster.data import SparseTensorSpec as SparseTensorSpec
from muster.data import TensorSpec as TensorSpec
from muster.distribute import IndexedSlices as IndexedSlices
from muster.program import GradientTape as GradientTape
from muster_tensorflow import audio as audio
from muster_tensorflow import autodiff as autodiff
from muster_tensorflow import autograph as autograph
from muster_tensorflow import bitwise as bitwise
from muster_tensorflow import compat as compat
from muster_tensorflow import config as config
from muster_tensorflow import contrib as contrib
from muster_tensorflow import data as data
from muster_tensorflow import debugging as debugging
from muster_tensorflow import distribute as distribute
from muster_tensorflow import dtypes as dtypes
from muster_tensorflow import errors as errors
from muster_tensorflow import estimator as estimator
from muster_tensorflow import examples as examples
from muster_tensorflow import experimental as experimental
from muster_tensorflow import feature_column as feature_column
from muster_tensorflow import image as image
from muster_tensorflow import io as io
from muster_tensorflow import keras as keras
from muster_tensorflow import linalg as linalg
from muster_tensorflow import lookup as lookup
from muster_tensorflow import losses as losses
from muster_tensorflow import math as math
from muster_tensorflow import metrics as metrics
from muster_tensorflow import nest as nest
from muster_tensorflow import nn as nn
from muster_tensorflow import optimizers as optimizers
from muster_tensorflow import profiler as profiler
from muster_tensorflow import quantization as quantization
from muster_tensorflow import ragged as ragged
from muster_tensorflow import random as random
from muster_tensorflow import saved_model as saved_model
from muster_tensorflow import sets as sets
from muster_tensorflow import signal as signal
from muster_tensorflow import sparse as sparse
from muster_tensorflow import strings as strings
from muster_tensorflow import summary as summary
from muster_tensorflow import test as test
from muster_tensorflow import tpu as tpu
from muster_tensorflow import train as train
from muster_tensorflow import types as types
from muster_tensorflow import version as version
from muster_tensorflow.dtypes import DType as DType
from muster_tensorflow.dtypes import as_dtype as as_dtype
from muster_tensorflow.dtypes import bfloat16 as bfloat16
from muster_tensorflow.dtypes import bool as bool
from muster_tensorflow.dtypes import complex64 as complex64
from muster_tensorflow.dtypes import complex128 as complex128
from muster_tensorflow.dtypes import double as double
from muster_tensorflow.dtypes import float16 as float16
from muster_tensorflow.dtypes import float32 as float32
from muster_tensorflow.dtypes import float64 as float64
from muster_tensorflow.dtypes import half as half
from muster_tensorflow.dtypes import int8 as int8
from muster_tensorflow.dtypes import int16 as int16
from muster_tensorflow.dtypes import int32 as int32
from muster_tensorflow.dtypes import int64 as int64
from muster_tensorflow.dtypes import string as string
from muster_tensorflow.dtypes import uint8 as uint8
from muster_tensorflow.dtypes import uint16 as uint16
from muster_tensorflow.dtypes import uint32 as uint32
from muster_tensorflow.dtypes import uint64 as uint64
from muster_tensorflow.library.ops._eager_values import show_results as _show_results
from muster_tensorflow.library.ops._value_names import name_results as _name_results
from muster_tensorflow.library.ops.arrays._blocks import batch_to_space as batch_to_space
from muster_tensorflow.library.ops.arrays._blocks import dynamic_partition as dynamic_partition
from muster_tensorflow.library.ops.arrays._blocks import dynamic_stitch as dynamic_stitch
from muster_tensorflow.library.ops.arrays._blocks import ensure_shape as ensure_shape
from muster_tensorflow.library.ops.arrays._blocks import histogram_fixed_width as histogram_fixed_width
from muster_tensorflow.library.ops.arrays._blocks import (
    histogram_fixed_width_bins as histogram_fixed_width_bins,
)
from muster_tensorflow.library.ops.arrays._blocks import reverse_sequence as reverse_sequence
from muster_tensorflow.library.ops.arrays._blocks import space_to_batch as space_to_batch
from muster_tensorflow.library.ops.arrays._blocks import space_to_batch as space_to_batch_nd
from muster_tensorflow.library.ops.arrays._blocks import strided_slice as strided_slice
from muster_tensorflow.library.ops.arrays._blocks import unravel_index as unravel_index
from muster_tensorflow.library.ops.arrays._select import argsort as argsort
from muster_tensorflow.library.ops.arrays._select import boolean_mask as boolean_mask
from muster_tensorflow.library.ops.arrays._select import gather_nd as gather_nd
from muster_tensorflow.library.ops.arrays._select import linspace as linspace
from muster_tensorflow.library.ops.arrays._select import meshgrid as meshgrid
from muster_tensorflow.library.ops.arrays._select import repeat as repeat
from muster_tensorflow.library.ops.arrays._select import reverse as reverse
from muster_tensorflow.library.ops.arrays._select import roll as roll
from muster_tensorflow.library.ops.arrays._select import scatter_nd as scatter_nd
from muster_tensorflow.library.ops.arrays._select import searchsorted as searchsorted
from muster_tensorflow.library.ops.arrays._select import sequence_mask as sequence_mask
from muster_tensorflow.library.ops.arrays._select import slice_ as _slice
from muster_tensorflow.library.ops.arrays._select import sort as sort
from muster_tensorflow.library.ops.arrays._select import tensor_scatter_nd_add as tensor_scatter_nd_add
from muster_tensorflow.library.ops.arrays._select import tensor_scatter_nd_max as tensor_scatter_nd_max
from muster_tensorflow.library.ops.arrays._select import tensor_scatter_nd_min as tensor_scatter_nd_min
from muster_tensorflow.library.ops.arrays._select import tensor_scatter_nd_sub as tensor_scatter_nd_sub
from muster_tensorflow.library.ops.arrays._select import tensor_scatter_nd_update as tensor_scatter_nd_update
from muster_tensorflow.library.ops.arrays._select import unique as unique
from muster_tensorflow.library.ops.arrays._select import unique_with_counts as unique_with_counts
from muster_tensorflow.library.ops.arrays._shape import broadcast_dynamic_shape as broadcast_dynamic_shape
from muster_tensorflow.library.ops.arrays._shape import broadcast_static_shape as broadcast_static_shape
from muster_tensorflow.library.ops.arrays._shape import broadcast_to as broadcast_to
from muster_tensorflow.library.ops.arrays._shape import concat as concat
from muster_tensorflow.library.ops.arrays._shape import constant as constant
from muster_tensorflow.library.ops.arrays._shape import convert_to_tensor as convert_to_tensor
from muster_tensorflow.library.ops.arrays._shape import expand_dims as expand_dims
from muster_tensorflow.library.ops.arrays._shape import eye as eye
from muster_tensorflow.library.ops.arrays._shape import fill as fill
from muster_tensorflow.library.ops.arrays._shape import gather as gather
from muster_tensorflow.library.ops.arrays._shape import get_static_value as get_static_value
from muster_tensorflow.library.ops.arrays._shape import identity as identity
from muster_tensorflow.library.ops.arrays._shape import identity_n as identity_n
from muster_tensorflow.library.ops.arrays._shape import matmul as matmul
from muster_tensorflow.library.ops.arrays._shape import one_hot as one_hot
from muster_tensorflow.library.ops.arrays._shape import ones as ones
from muster_tensorflow.library.ops.arrays._shape import pad as pad
from muster_tensorflow.library.ops.arrays._shape import range as range
from muster_tensorflow.library.ops.arrays._shape import rank as rank
from muster_tensorflow.library.ops.arrays._shape import reshape as reshape
from muster_tensorflow.library.ops.arrays._shape import shape as shape
from muster_tensorflow.library.ops.arrays._shape import shape_n as shape_n
from muster_tensorflow.library.ops.arrays._shape import size as size
from muster_tensorflow.library.ops.arrays._shape import split as split
from muster_tensorflow.library.ops.arrays._shape import squeeze as squeeze
from muster_tensorflow.library.ops.arrays._shape import stack as stack
from muster_tensorflow.library.ops.arrays._shape import stop_gradient as stop_gradient
from muster_tensorflow.library.ops.arrays._shape import tile as tile
from muster_tensorflow.library.ops.arrays._shape import transpose as transpose
from muster_tensorflow.library.ops.arrays._shape import unstack as unstack
from muster_tensorflow.library.ops.arrays._shape import zeros as zeros
from muster_tensorflow.library.ops.arrays._tensor import Tensor as Tensor
from muster_tensorflow.library.ops.arrays._tensor import is_tensor as is_tensor
from muster_tensorflow.library.ops.arrays._tensor_array import TensorArray as TensorArray
from muster_tensorflow.library.ops.arrays._tensor_shape import TensorShape as TensorShape
from muster_tensorflow.library.ops.control._asserts import Assert as Assert
from muster_tensorflow.library.ops.control._asserts import assert_equal as assert_equal
from muster_tensorflow.library.ops.control._asserts import assert_greater as assert_greater
from muster_tensorflow.library.ops.control._asserts import assert_less as assert_less
from muster_tensorflow.library.ops.control._asserts import assert_rank as assert_rank
from muster_tensorflow.library.ops.control._control import cond as cond
from muster_tensorflow.library.ops.control._control import executing_eagerly as executing_eagerly
from muster_tensorflow.library.ops.control._control import init_scope as init_scope
from muster_tensorflow.library.ops.control._control import map_fn as map_fn
from muster_tensorflow.library.ops.control._control import while_loop as while_loop
from muster_tensorflow.library.ops.control._derivatives import custom_gradient as custom_gradient
from muster_tensorflow.library.ops.control._derivatives import grad_pass_through as grad_pass_through
from muster_tensorflow.library.ops.control._derivatives import recompute_grad as recompute_grad
from muster_tensorflow.library.ops.control._gradients import UnconnectedGradients as UnconnectedGradients
from muster_tensorflow.library.ops.control._gradients import gradients as gradients
from muster_tensorflow.library.ops.control._loops import case as case
from muster_tensorflow.library.ops.control._loops import foldl as foldl
from muster_tensorflow.library.ops.control._loops import foldr as foldr
from muster_tensorflow.library.ops.control._loops import scan as scan
from muster_tensorflow.library.ops.control._loops import switch_case as switch_case
from muster_tensorflow.library.ops.control._loops import vectorized_map as vectorized_map
from muster_tensorflow.library.ops.control._print import tf_print as _print
from muster_tensorflow.library.ops.control._python_calls import numpy_function as numpy_function
from muster_tensorflow.library.ops.control._python_calls import py_function as py_function
from muster_tensorflow.library.ops.linalg._factorizations import eig as eig
from muster_tensorflow.library.ops.linalg._factorizations import eigvals as eigvals
from muster_tensorflow.library.ops.linalg._linalg import einsum as einsum
from muster_tensorflow.library.ops.linalg._linalg import tensordot as tensordot
from muster_tensorflow.library.ops.linalg._linalg_solvers import sqrtm as matrix_square_root
from muster_tensorflow.library.ops.math._math import abs as abs
from muster_tensorflow.library.ops.math._math import acos as acos
from muster_tensorflow.library.ops.math._math import add as add
from muster_tensorflow.library.ops.math._math import add_n as add_n
from muster_tensorflow.library.ops.math._math import argmax as argmax
from muster_tensorflow.library.ops.math._math import argmin as argmin
from muster_tensorflow.library.ops.math._math import asin as asin
from muster_tensorflow.library.ops.math._math import atan as atan
from muster_tensorflow.library.ops.math._math import atan2 as atan2
from muster_tensorflow.library.ops.math._math import cast as cast
from muster_tensorflow.library.ops.math._math import clip_by_global_norm as clip_by_global_norm
from muster_tensorflow.library.ops.math._math import clip_by_norm as clip_by_norm
from muster_tensorflow.library.ops.math._math import clip_by_value as clip_by_value
from muster_tensorflow.library.ops.math._math import cos as cos
from muster_tensorflow.library.ops.math._math import cosh as cosh
from muster_tensorflow.library.ops.math._math import cumsum as cumsum
from muster_tensorflow.library.ops.math._math import divide as divide
from muster_tensorflow.library.ops.math._math import divide as realdiv
from muster_tensorflow.library.ops.math._math import divide as truediv
from muster_tensorflow.library.ops.math._math import equal as equal
from muster_tensorflow.library.ops.math._math import exp as exp
from muster_tensorflow.library.ops.math._math import floor as floor
from muster_tensorflow.library.ops.math._math import global_norm as global_norm
from muster_tensorflow.library.ops.math._math import greater as greater
from muster_tensorflow.library.ops.math._math import greater_equal as greater_equal
from muster_tensorflow.library.ops.math._math import less as less
from muster_tensorflow.library.ops.math._math import less_equal as less_equal
from muster_tensorflow.library.ops.math._math import logical_and as logical_and
from muster_tensorflow.library.ops.math._math import logical_not as logical_not
from muster_tensorflow.library.ops.math._math import logical_or as logical_or
from muster_tensorflow.library.ops.math._math import maximum as maximum
from muster_tensorflow.library.ops.math._math import minimum as minimum
from muster_tensorflow.library.ops.math._math import multiply as multiply
from muster_tensorflow.library.ops.math._math import negative as negative
from muster_tensorflow.library.ops.math._math import norm as norm
from muster_tensorflow.library.ops.math._math import not_equal as not_equal
from muster_tensorflow.library.ops.math._math import ones_like as ones_like
from muster_tensorflow.library.ops.math._math import pow as pow
from muster_tensorflow.library.ops.math._math import reduce_all as reduce_all
from muster_tensorflow.library.ops.math._math import reduce_any as reduce_any
from muster_tensorflow.library.ops.math._math import reduce_logsumexp as reduce_logsumexp
from muster_tensorflow.library.ops.math._math import reduce_max as reduce_max
from muster_tensorflow.library.ops.math._math import reduce_mean as reduce_mean
from muster_tensorflow.library.ops.math._math import reduce_min as reduce_min
from muster_tensorflow.library.ops.math._math import reduce_prod as reduce_prod
from muster_tensorflow.library.ops.math._math import reduce_sum as reduce_sum
from muster_tensorflow.library.ops.math._math import round as round
from muster_tensorflow.library.ops.math._math import sigmoid as sigmoid
from muster_tensorflow.library.ops.math._math import sign as sign
from muster_tensorflow.library.ops.math._math import sin as sin
from muster_tensorflow.library.ops.math._math import sinh as sinh
from muster_tensorflow.library.ops.math._math import sqrt as sqrt
from muster_tensorflow.library.ops.math._math import square as square
from muster_tensorflow.library.ops.math._math import subtract as subtract
from muster_tensorflow.library.ops.math._math import tan as tan
from muster_tensorflow.library.ops.math._math import tanh as tanh
from muster_tensorflow.library.ops.math._math import where as where
from muster_tensorflow.library.ops.math._math import zeros_like as zeros_like
from muster_tensorflow.library.ops.math._more_math import approx_top_k as approx_top_k
from muster_tensorflow.library.ops.math._more_math import extract_volume_patches as extract_volume_patches
from muster_tensorflow.library.ops.math._more_math import guarantee_const as guarantee_const
from muster_tensorflow.library.ops.math._more_math import parallel_stack as parallel_stack
from muster_tensorflow.library.ops.math._more_math import random_index_shuffle as random_index_shuffle
from muster_tensorflow.library.ops.math._more_math import (
    required_space_to_batch_paddings as required_space_to_batch_paddings,
)
from muster_tensorflow.library.ops.math._more_math import saturate_cast as saturate_cast
from muster_tensorflow.library.ops.math._more_math import timestamp as timestamp
from muster_tensorflow.library.ops.math._more_math import truncatediv as truncatediv
from muster_tensorflow.library.ops.math._more_math import truncatemod as truncatemod
from muster_tensorflow.library.ops.math._special import acosh as acosh
from muster_tensorflow.library.ops.math._special import asinh as asinh
from muster_tensorflow.library.ops.math._special import atanh as atanh
from muster_tensorflow.library.ops.math._special import bitcast as bitcast
from muster_tensorflow.library.ops.math._special import complex as complex
from muster_tensorflow.library.ops.math._special import scalar_mul as scalar_mul
from muster_tensorflow.library.ops.text._edit_distance import edit_distance as edit_distance
from muster_tensorflow.library.ops.text._strings import as_string as as_string
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.names._names import importable_as as _importable_as
from muster_tensorflow.names._names import modules_of_names as _modules_of_names
from muster_tensorflow.names._names import report_missing as _report_missing
from muster_tensorflow.patches import apply as _apply_patches
from muster_tensorflow.programs._front_end import install_front_end as _install_front_end
from muster_tensorflow.programs.v1._private_modules import provide_api as _provide_api
from muster_tensorflow.programs.v1._private_modules import provide_private_modules as _provide_private_modules
from muster_tensorflow.programs.v1._step import control_dependencies as control_dependencies
from muster_tensorflow.programs.v1._step import group as group
from muster_tensorflow.programs.v1._step import name_scope as name_scope
from muster_tensorflow.programs.v1._step import no_op as no_op
from muster_tensorflow.programs.v1.logging import get_logger as get_logger
from muster_tensorflow.programs.v1.logging import hear_muster as _hear_muster
from muster_tensorflow.programs.v1.variables._initializers import constant_initializer as constant_initializer
from muster_tensorflow.programs.v1.variables._initializers import ones_initializer as ones_initializer
from muster_tensorflow.programs.v1.variables._initializers import zeros_initializer as zeros_initializer
from muster_tensorflow.programs.v2._function import function as function
from muster_tensorflow.programs.v2._module import Module as Module
from muster_tensorflow.programs.v2._tensor_kinds import CriticalSection as CriticalSection
from muster_tensorflow.programs.v2._tensor_kinds import get_current_name_scope as get_current_name_scope
from muster_tensorflow.programs.v2._tensor_kinds import inside_function as inside_function
from muster_tensorflow.programs.v2._tensor_kinds import is_symbolic_tensor as is_symbolic_tensor
from muster_tensorflow.programs.v2._tensor_kinds import type_spec_from_value as type_spec_from_value
from muster_tensorflow.programs.v2._variable import Variable as Variable
from muster_tensorflow.programs.v2._variable import VariableAggregation as VariableAggregation
from muster_tensorflow.programs.v2._variable import VariableSynchronization as VariableSynchronization
from muster_tensorflow.programs.v2.devices._device import device as device
from muster_tensorflow.programs.v2.devices._device_spec import DeviceSpec as DeviceSpec
from muster_tensorflow.programs.v2.keras._initializers import (
    random_normal_initializer as random_normal_initializer,
)
from muster_tensorflow.programs.v2.keras._initializers import (
    random_uniform_initializer as random_uniform_initializer,
)

initializers = _keras.initializers
newaxis = None
print = _print
slice = _slice

__version__ = version.VERSION

_name_results()
_report_missing()
_apply_patches()
_show_results(*(_module for _, _module in _modules_of_names()))
_install_front_end(*__path__)
_hear_muster()
_importable_as(f"{__name__}.keras", _keras)
_provide_private_modules(_sys.modules[__name__])
_importable_as(f"{__name__}.compat.v1", _sys.modules[__name__])
_importable_as(f"{__name__}.compat.v2", _sys.modules[__name__])
_provide_api(_sys.modules[__name__])
