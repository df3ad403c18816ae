"""``tf.compat.v1``: TensorFlow 1's names, and through ``__getattr__`` all of TensorFlow 2's.

``import muster_tensorflow.compat.v1 as tf`` is for programs that were written for TensorFlow 1.
"""

import sys
from typing import Any

from muster.data import FixedLenFeature as FixedLenFeature
from muster.data import FixedLenSequenceFeature as FixedLenSequenceFeature
from muster.data import Placeholder as _Placeholder
from muster.data import SparseFeature as SparseFeature
from muster.data import VarLenFeature as VarLenFeature
from muster_tensorflow import lookup as lookup
from muster_tensorflow import train as train
from muster_tensorflow.compat.v1 import app as app
from muster_tensorflow.compat.v1 import data as data
from muster_tensorflow.compat.v1 import debugging as debugging
from muster_tensorflow.compat.v1 import distribute as distribute
from muster_tensorflow.compat.v1 import distributions as distributions
from muster_tensorflow.compat.v1 import estimator as estimator
from muster_tensorflow.compat.v1 import feature_column as feature_column
from muster_tensorflow.compat.v1 import flags as flags
from muster_tensorflow.compat.v1 import gfile as gfile
from muster_tensorflow.compat.v1 import image as image
from muster_tensorflow.compat.v1 import initializers as initializers
from muster_tensorflow.compat.v1 import io as io
from muster_tensorflow.compat.v1 import keras as keras
from muster_tensorflow.compat.v1 import layers as layers
from muster_tensorflow.compat.v1 import linalg as linalg
from muster_tensorflow.compat.v1 import logging as logging
from muster_tensorflow.compat.v1 import losses as losses
from muster_tensorflow.compat.v1 import manip as manip
from muster_tensorflow.compat.v1 import math as math
from muster_tensorflow.compat.v1 import metrics as metrics
from muster_tensorflow.compat.v1 import nn as nn
from muster_tensorflow.compat.v1 import profiler as profiler
from muster_tensorflow.compat.v1 import python_io as python_io
from muster_tensorflow.compat.v1 import random as random
from muster_tensorflow.compat.v1 import sets as sets
from muster_tensorflow.compat.v1 import sparse as sparse
from muster_tensorflow.compat.v1 import spectral as spectral
from muster_tensorflow.compat.v1 import strings as strings
from muster_tensorflow.compat.v1 import summary as summary
from muster_tensorflow.compat.v1.io import decode_raw as decode_raw
from muster_tensorflow.compat.v1.io import parse_example as parse_example
from muster_tensorflow.compat.v1.io import parse_single_example as parse_single_example
from muster_tensorflow.compat.v1.io import serialize_many_sparse as serialize_many_sparse
from muster_tensorflow.compat.v1.io import serialize_sparse as serialize_sparse
from muster_tensorflow.io import deserialize_many_sparse as deserialize_many_sparse
from muster_tensorflow.io import matching_files as matching_files
from muster_tensorflow.io import parse_single_sequence_example as parse_single_sequence_example
from muster_tensorflow.io import parse_tensor as parse_tensor
from muster_tensorflow.io import serialize_tensor as serialize_tensor
from muster_tensorflow.library.ops.arrays._array_shape import Dimension as Dimension
from muster_tensorflow.library.ops.arrays._array_shape import dimension_value as dimension_value
from muster_tensorflow.library.ops.arrays._blocks import batch_to_space as batch_to_space_nd
from muster_tensorflow.library.ops.arrays._blocks import space_to_batch as space_to_batch_nd
from muster_tensorflow.library.ops.arrays._segments import bincount as bincount
from muster_tensorflow.library.ops.arrays._segments import segment_max as segment_max
from muster_tensorflow.library.ops.arrays._segments import segment_mean as segment_mean
from muster_tensorflow.library.ops.arrays._segments import segment_min as segment_min
from muster_tensorflow.library.ops.arrays._segments import segment_prod as segment_prod
from muster_tensorflow.library.ops.arrays._segments import segment_sum as segment_sum
from muster_tensorflow.library.ops.arrays._segments import unsorted_segment_max as unsorted_segment_max
from muster_tensorflow.library.ops.arrays._segments import unsorted_segment_mean as unsorted_segment_mean
from muster_tensorflow.library.ops.arrays._segments import unsorted_segment_min as unsorted_segment_min
from muster_tensorflow.library.ops.arrays._segments import unsorted_segment_prod as unsorted_segment_prod
from muster_tensorflow.library.ops.arrays._segments import unsorted_segment_sqrt_n as unsorted_segment_sqrt_n
from muster_tensorflow.library.ops.arrays._segments import unsorted_segment_sum as unsorted_segment_sum
from muster_tensorflow.library.ops.arrays._select import linspace as lin_space
from muster_tensorflow.library.ops.arrays._select import reverse as reverse_v2
from muster_tensorflow.library.ops.arrays._select import tensor_scatter_nd_add as tensor_scatter_add
from muster_tensorflow.library.ops.arrays._select import tensor_scatter_nd_sub as tensor_scatter_sub
from muster_tensorflow.library.ops.arrays._select import tensor_scatter_nd_update as tensor_scatter_update
from muster_tensorflow.library.ops.arrays._sets import sparse_mask as sparse_mask
from muster_tensorflow.library.ops.arrays._sparse import fill_empty_rows as sparse_fill_empty_rows
from muster_tensorflow.library.ops.arrays._sparse import maximum as sparse_maximum
from muster_tensorflow.library.ops.arrays._sparse import minimum as sparse_minimum
from muster_tensorflow.library.ops.arrays._sparse import reorder as sparse_reorder
from muster_tensorflow.library.ops.arrays._sparse import reset_shape as sparse_reset_shape
from muster_tensorflow.library.ops.arrays._sparse import reshape as sparse_reshape
from muster_tensorflow.library.ops.arrays._sparse import retain as sparse_retain
from muster_tensorflow.library.ops.arrays._sparse import slice as sparse_slice
from muster_tensorflow.library.ops.arrays._sparse import softmax as sparse_softmax
from muster_tensorflow.library.ops.arrays._sparse import sparse_dense_matmul as sparse_tensor_dense_matmul
from muster_tensorflow.library.ops.arrays._sparse import to_dense as sparse_tensor_to_dense
from muster_tensorflow.library.ops.arrays._sparse import to_indicator as sparse_to_indicator
from muster_tensorflow.library.ops.arrays._sparse import transpose as sparse_transpose
from muster_tensorflow.library.ops.control._asserts import assert_integer as assert_integer
from muster_tensorflow.library.ops.control._asserts import is_numeric_tensor as is_numeric_tensor
from muster_tensorflow.library.ops.control._control import (
    executing_eagerly_outside_functions as executing_eagerly_outside_functions,
)
from muster_tensorflow.library.ops.control._python_calls import numpy_function as py_func
from muster_tensorflow.library.ops.images._image_random import random_crop as random_crop
from muster_tensorflow.library.ops.linalg._diagonals import diag as matrix_diag
from muster_tensorflow.library.ops.linalg._diagonals import diag_part as matrix_diag_part
from muster_tensorflow.library.ops.linalg._diagonals import set_diag as matrix_set_diag
from muster_tensorflow.library.ops.linalg._linalg import band_part as matrix_band_part
from muster_tensorflow.library.ops.linalg._linalg import cholesky as cholesky
from muster_tensorflow.library.ops.linalg._linalg import det as matrix_determinant
from muster_tensorflow.library.ops.linalg._linalg import inv as matrix_inverse
from muster_tensorflow.library.ops.linalg._linalg import solve as matrix_solve
from muster_tensorflow.library.ops.linalg._linalg import trace as trace
from muster_tensorflow.library.ops.linalg._linalg_solvers import cholesky_solve as cholesky_solve
from muster_tensorflow.library.ops.linalg._linalg_solvers import cross as cross
from muster_tensorflow.library.ops.linalg._linalg_solvers import eigh as self_adjoint_eig
from muster_tensorflow.library.ops.linalg._linalg_solvers import eigvalsh as self_adjoint_eigvals
from muster_tensorflow.library.ops.linalg._linalg_solvers import lstsq as matrix_solve_ls
from muster_tensorflow.library.ops.linalg._linalg_solvers import matrix_transpose as matrix_transpose
from muster_tensorflow.library.ops.linalg._linalg_solvers import qr as qr
from muster_tensorflow.library.ops.linalg._linalg_solvers import sqrtm as matrix_square_root
from muster_tensorflow.library.ops.linalg._linalg_solvers import svd as svd
from muster_tensorflow.library.ops.linalg._linalg_solvers import tensor_diag as diag
from muster_tensorflow.library.ops.linalg._linalg_solvers import tensor_diag_part as diag_part
from muster_tensorflow.library.ops.linalg._linalg_solvers import triangular_solve as matrix_triangular_solve
from muster_tensorflow.library.ops.math._math import accumulate_n as accumulate_n
from muster_tensorflow.library.ops.math._math import ceil as ceil
from muster_tensorflow.library.ops.math._math import cumprod as cumprod
from muster_tensorflow.library.ops.math._math import divide as realdiv
from muster_tensorflow.library.ops.math._math import divide_no_nan as div_no_nan
from muster_tensorflow.library.ops.math._math import erf as erf
from muster_tensorflow.library.ops.math._math import expm1 as expm1
from muster_tensorflow.library.ops.math._math import floordiv as floor_div
from muster_tensorflow.library.ops.math._math import floordiv as floordiv
from muster_tensorflow.library.ops.math._math import floormod as floormod
from muster_tensorflow.library.ops.math._math import floormod as mod
from muster_tensorflow.library.ops.math._math import is_finite as is_finite
from muster_tensorflow.library.ops.math._math import is_inf as is_inf
from muster_tensorflow.library.ops.math._math import is_nan as is_nan
from muster_tensorflow.library.ops.math._math import lgamma as lgamma
from muster_tensorflow.library.ops.math._math import log as log
from muster_tensorflow.library.ops.math._math import log1p as log1p
from muster_tensorflow.library.ops.math._math import log_sigmoid as log_sigmoid
from muster_tensorflow.library.ops.math._math import logical_xor as logical_xor
from muster_tensorflow.library.ops.math._math import reciprocal as reciprocal
from muster_tensorflow.library.ops.math._math import rsqrt as rsqrt
from muster_tensorflow.library.ops.math._math import squared_difference as squared_difference
from muster_tensorflow.library.ops.math._math import where as where_v2
from muster_tensorflow.library.ops.math._signal import fft as fft
from muster_tensorflow.library.ops.math._signal import fft2d as fft2d
from muster_tensorflow.library.ops.math._signal import fft3d as fft3d
from muster_tensorflow.library.ops.math._signal import ifft as ifft
from muster_tensorflow.library.ops.math._signal import ifft2d as ifft2d
from muster_tensorflow.library.ops.math._signal import ifft3d as ifft3d
from muster_tensorflow.library.ops.math._special import angle as angle
from muster_tensorflow.library.ops.math._special import betainc as betainc
from muster_tensorflow.library.ops.math._special import conj as conj
from muster_tensorflow.library.ops.math._special import digamma as digamma
from muster_tensorflow.library.ops.math._special import erfc as erfc
from muster_tensorflow.library.ops.math._special import igamma as igamma
from muster_tensorflow.library.ops.math._special import igammac as igammac
from muster_tensorflow.library.ops.math._special import imag as imag
from muster_tensorflow.library.ops.math._special import invert_permutation as invert_permutation
from muster_tensorflow.library.ops.math._special import is_non_decreasing as is_non_decreasing
from muster_tensorflow.library.ops.math._special import is_strictly_increasing as is_strictly_increasing
from muster_tensorflow.library.ops.math._special import lbeta as lbeta
from muster_tensorflow.library.ops.math._special import polygamma as polygamma
from muster_tensorflow.library.ops.math._special import real as real
from muster_tensorflow.library.ops.math._special import rint as rint
from muster_tensorflow.library.ops.math._special import zeta as zeta
from muster_tensorflow.library.ops.random._fixed_seeds import get_seed as get_seed
from muster_tensorflow.library.ops.random._generators import set_seed as _set_seed
from muster_tensorflow.library.ops.random._random import gamma as random_gamma
from muster_tensorflow.library.ops.random._random import multinomial as multinomial
from muster_tensorflow.library.ops.random._random import normal as random_normal
from muster_tensorflow.library.ops.random._random import shuffle as random_shuffle
from muster_tensorflow.library.ops.random._random import truncated_normal as truncated_normal
from muster_tensorflow.library.ops.random._random import uniform as random_uniform
from muster_tensorflow.library.ops.text._more_strings import decode_base64 as decode_base64
from muster_tensorflow.library.ops.text._more_strings import decode_compressed as decode_compressed
from muster_tensorflow.library.ops.text._more_strings import encode_base64 as encode_base64
from muster_tensorflow.library.ops.text._strings import as_string as as_string
from muster_tensorflow.library.ops.text._strings import join as string_join
from muster_tensorflow.library.ops.text._strings import length as string_length
from muster_tensorflow.library.ops.text._strings import regex_replace as regex_replace
from muster_tensorflow.library.ops.text._strings import strip as string_strip
from muster_tensorflow.library.ops.text._strings import to_hash_bucket_fast as string_to_hash_bucket_fast
from muster_tensorflow.library.ops.text._strings import to_hash_bucket_strong as string_to_hash_bucket_strong
from muster_tensorflow.names._names import missing as _missing
from muster_tensorflow.programs.v1._collections import GraphKeys as GraphKeys
from muster_tensorflow.programs.v1._collections import add_to_collection as add_to_collection
from muster_tensorflow.programs.v1._collections import add_to_collections as add_to_collections
from muster_tensorflow.programs.v1._step import assign as assign
from muster_tensorflow.programs.v1._step import assign_add as assign_add
from muster_tensorflow.programs.v1._step import assign_sub as assign_sub
from muster_tensorflow.programs.v1._step import disable_eager_execution as disable_eager_execution
from muster_tensorflow.programs.v1._step import disable_v2_behavior as disable_v2_behavior
from muster_tensorflow.programs.v1._step import do_nothing as disable_resource_variables
from muster_tensorflow.programs.v1._step import do_nothing as disable_tensor_equality
from muster_tensorflow.programs.v1._step import do_nothing as disable_v2_tensorshape
from muster_tensorflow.programs.v1._step import do_nothing as enable_resource_variables
from muster_tensorflow.programs.v1._step import do_nothing as enable_tensor_equality
from muster_tensorflow.programs.v1._step import do_nothing as enable_v2_behavior
from muster_tensorflow.programs.v1._step import do_nothing as enable_v2_tensorshape
from muster_tensorflow.programs.v1._step import do_nothing as reset_default_graph
from muster_tensorflow.programs.v1._step import enable_eager_execution as enable_eager_execution
from muster_tensorflow.programs.v1._step import get_collection as get_collection
from muster_tensorflow.programs.v1._step import get_collection_ref as get_collection_ref
from muster_tensorflow.programs.v1._step import get_local_variable as get_local_variable
from muster_tensorflow.programs.v1._step import global_variables as all_variables
from muster_tensorflow.programs.v1._step import global_variables as global_variables
from muster_tensorflow.programs.v1._step import initializer_op as global_variables_initializer
from muster_tensorflow.programs.v1._step import initializer_op as initialize_all_tables
from muster_tensorflow.programs.v1._step import initializer_op as initialize_all_variables
from muster_tensorflow.programs.v1._step import initializer_op as initialize_local_variables
from muster_tensorflow.programs.v1._step import initializer_op as initialize_variables
from muster_tensorflow.programs.v1._step import initializer_op as local_variables_initializer
from muster_tensorflow.programs.v1._step import initializer_op as tables_initializer
from muster_tensorflow.programs.v1._step import initializer_op as variables_initializer
from muster_tensorflow.programs.v1._step import local_variables as local_variables
from muster_tensorflow.programs.v1._step import model_variables as model_variables
from muster_tensorflow.programs.v1._step import print_ as Print
from muster_tensorflow.programs.v1._step import trainable_variables as trainable_variables
from muster_tensorflow.programs.v1._step import tuple_ as tuple
from muster_tensorflow.programs.v1._summary import HistogramProto as HistogramProto
from muster_tensorflow.programs.v1._summary import Summary as Summary
from muster_tensorflow.programs.v1._text import string_split as string_split
from muster_tensorflow.programs.v1.input._input import placeholder_with_default as placeholder_with_default
from muster_tensorflow.programs.v1.input._input import read_file as read_file
from muster_tensorflow.programs.v1.input._input import write_file as write_file
from muster_tensorflow.programs.v1.input._queues import FixedLengthRecordReader as FixedLengthRecordReader
from muster_tensorflow.programs.v1.input._queues import IdentityReader as IdentityReader
from muster_tensorflow.programs.v1.input._queues import ReaderBase as ReaderBase
from muster_tensorflow.programs.v1.input._queues import TextLineReader as TextLineReader
from muster_tensorflow.programs.v1.input._queues import TFRecordReader as TFRecordReader
from muster_tensorflow.programs.v1.input._queues import WholeFileReader as WholeFileReader
from muster_tensorflow.programs.v1.operations._assertions import assert_ as Assert
from muster_tensorflow.programs.v1.operations._assertions import assert_equal as assert_equal
from muster_tensorflow.programs.v1.operations._assertions import assert_greater as assert_greater
from muster_tensorflow.programs.v1.operations._assertions import assert_greater_equal as assert_greater_equal
from muster_tensorflow.programs.v1.operations._assertions import assert_less as assert_less
from muster_tensorflow.programs.v1.operations._assertions import assert_less_equal as assert_less_equal
from muster_tensorflow.programs.v1.operations._assertions import assert_near as assert_near
from muster_tensorflow.programs.v1.operations._assertions import assert_negative as assert_negative
from muster_tensorflow.programs.v1.operations._assertions import assert_non_negative as assert_non_negative
from muster_tensorflow.programs.v1.operations._assertions import assert_non_positive as assert_non_positive
from muster_tensorflow.programs.v1.operations._assertions import assert_none_equal as assert_none_equal
from muster_tensorflow.programs.v1.operations._assertions import assert_positive as assert_positive
from muster_tensorflow.programs.v1.operations._assertions import assert_rank as assert_rank
from muster_tensorflow.programs.v1.operations._assertions import assert_rank_at_least as assert_rank_at_least
from muster_tensorflow.programs.v1.operations._assertions import assert_rank_in as assert_rank_in
from muster_tensorflow.programs.v1.operations._assertions import assert_scalar as assert_scalar
from muster_tensorflow.programs.v1.operations._assertions import assert_type as assert_type
from muster_tensorflow.programs.v1.operations._assertions import check_numerics as check_numerics
from muster_tensorflow.programs.v1.operations._assertions import (
    verify_tensor_all_finite as verify_tensor_all_finite,
)
from muster_tensorflow.programs.v1.operations._old_arguments import argmax as argmax
from muster_tensorflow.programs.v1.operations._old_arguments import argmin as argmin
from muster_tensorflow.programs.v1.operations._old_arguments import boolean_mask as boolean_mask
from muster_tensorflow.programs.v1.operations._old_arguments import cond as cond
from muster_tensorflow.programs.v1.operations._old_arguments import confusion_matrix as confusion_matrix
from muster_tensorflow.programs.v1.operations._old_arguments import decode_csv as decode_csv
from muster_tensorflow.programs.v1.operations._old_arguments import div as div
from muster_tensorflow.programs.v1.operations._old_arguments import gather as gather
from muster_tensorflow.programs.v1.operations._old_arguments import gather_nd as gather_nd
from muster_tensorflow.programs.v1.operations._old_arguments import norm as norm
from muster_tensorflow.programs.v1.operations._old_arguments import pad as pad
from muster_tensorflow.programs.v1.operations._old_arguments import shape as shape
from muster_tensorflow.programs.v1.operations._old_arguments import substr as substr
from muster_tensorflow.programs.v1.operations._old_arguments import to_bfloat16 as to_bfloat16
from muster_tensorflow.programs.v1.operations._old_arguments import to_double as to_double
from muster_tensorflow.programs.v1.operations._old_arguments import to_float as to_float
from muster_tensorflow.programs.v1.operations._old_arguments import to_int32 as to_int32
from muster_tensorflow.programs.v1.operations._old_arguments import to_int64 as to_int64
from muster_tensorflow.programs.v1.operations._old_arguments import transpose as transpose
from muster_tensorflow.programs.v1.operations._old_arguments import where as where
from muster_tensorflow.programs.v1.operations._old_arguments import while_loop as while_loop
from muster_tensorflow.programs.v1.operations._old_operations import arg_max as arg_max
from muster_tensorflow.programs.v1.operations._old_operations import arg_min as arg_min
from muster_tensorflow.programs.v1.operations._old_operations import batch_gather as batch_gather
from muster_tensorflow.programs.v1.operations._old_operations import (
    clip_by_average_norm as clip_by_average_norm,
)
from muster_tensorflow.programs.v1.operations._old_operations import (
    convert_to_tensor_or_indexed_slices as convert_to_tensor_or_indexed_slices,
)
from muster_tensorflow.programs.v1.operations._old_operations import (
    convert_to_tensor_or_sparse_tensor as convert_to_tensor_or_sparse_tensor,
)
from muster_tensorflow.programs.v1.operations._old_operations import (
    extract_image_patches as extract_image_patches,
)
from muster_tensorflow.programs.v1.operations._old_operations import reduce_join as reduce_join
from muster_tensorflow.programs.v1.operations._old_operations import scatter_add as scatter_add
from muster_tensorflow.programs.v1.operations._old_operations import scatter_div as scatter_div
from muster_tensorflow.programs.v1.operations._old_operations import scatter_max as scatter_max
from muster_tensorflow.programs.v1.operations._old_operations import scatter_min as scatter_min
from muster_tensorflow.programs.v1.operations._old_operations import scatter_mul as scatter_mul
from muster_tensorflow.programs.v1.operations._old_operations import scatter_nd_add as scatter_nd_add
from muster_tensorflow.programs.v1.operations._old_operations import scatter_nd_sub as scatter_nd_sub
from muster_tensorflow.programs.v1.operations._old_operations import scatter_nd_update as scatter_nd_update
from muster_tensorflow.programs.v1.operations._old_operations import scatter_sub as scatter_sub
from muster_tensorflow.programs.v1.operations._old_operations import scatter_update as scatter_update
from muster_tensorflow.programs.v1.operations._old_operations import setdiff1d as setdiff1d
from muster_tensorflow.programs.v1.operations._old_operations import sparse_to_dense as sparse_to_dense
from muster_tensorflow.programs.v1.operations._old_operations import to_complex64 as to_complex64
from muster_tensorflow.programs.v1.operations._old_operations import to_complex128 as to_complex128
from muster_tensorflow.programs.v1.operations._old_parameters import batch_to_space as batch_to_space
from muster_tensorflow.programs.v1.operations._old_parameters import constant as constant
from muster_tensorflow.programs.v1.operations._old_parameters import convert_to_tensor as convert_to_tensor
from muster_tensorflow.programs.v1.operations._old_parameters import count_nonzero as count_nonzero
from muster_tensorflow.programs.v1.operations._old_parameters import depth_to_space as depth_to_space
from muster_tensorflow.programs.v1.operations._old_parameters import expand_dims as expand_dims
from muster_tensorflow.programs.v1.operations._old_parameters import ones_like as ones_like
from muster_tensorflow.programs.v1.operations._old_parameters import random_poisson as random_poisson
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_all as reduce_all
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_any as reduce_any
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_logsumexp as reduce_logsumexp
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_max as reduce_max
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_mean as reduce_mean
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_min as reduce_min
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_prod as reduce_prod
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_sum as reduce_sum
from muster_tensorflow.programs.v1.operations._old_parameters import size as size
from muster_tensorflow.programs.v1.operations._old_parameters import space_to_batch as space_to_batch
from muster_tensorflow.programs.v1.operations._old_parameters import space_to_depth as space_to_depth
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_add as sparse_add
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_concat as sparse_concat
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_reduce_max as sparse_reduce_max
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_reduce_sum as sparse_reduce_sum
from muster_tensorflow.programs.v1.operations._old_parameters import (
    sparse_segment_mean as sparse_segment_mean,
)
from muster_tensorflow.programs.v1.operations._old_parameters import (
    sparse_segment_sqrt_n as sparse_segment_sqrt_n,
)
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_segment_sum as sparse_segment_sum
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_split as sparse_split
from muster_tensorflow.programs.v1.operations._old_parameters import squeeze as squeeze
from muster_tensorflow.programs.v1.operations._old_parameters import to_hash_bucket as string_to_hash_bucket
from muster_tensorflow.programs.v1.operations._old_parameters import to_number as string_to_number
from muster_tensorflow.programs.v1.operations._old_parameters import zeros_like as zeros_like
from muster_tensorflow.programs.v1.rnn import reverse_sequence as reverse_sequence
from muster_tensorflow.programs.v1.sessions._graph import Graph as Graph
from muster_tensorflow.programs.v1.sessions._graph import colocate_with as colocate_with
from muster_tensorflow.programs.v1.sessions._graph import get_default_graph as get_default_graph
from muster_tensorflow.programs.v1.sessions._session import Session as InteractiveSession
from muster_tensorflow.programs.v1.sessions._session import Session as Session
from muster_tensorflow.programs.v1.sessions._session_config import ConfigProto as ConfigProto
from muster_tensorflow.programs.v1.sessions._session_config import GPUOptions as GPUOptions
from muster_tensorflow.programs.v1.sessions._session_config import GraphOptions as GraphOptions
from muster_tensorflow.programs.v1.sessions._session_config import OptimizerOptions as OptimizerOptions
from muster_tensorflow.programs.v1.sessions._session_config import RunOptions as RunOptions
from muster_tensorflow.programs.v1.variables._initializers import constant_initializer as constant_initializer
from muster_tensorflow.programs.v1.variables._initializers import (
    glorot_normal_initializer as glorot_normal_initializer,
)
from muster_tensorflow.programs.v1.variables._initializers import (
    glorot_uniform_initializer as glorot_uniform_initializer,
)
from muster_tensorflow.programs.v1.variables._initializers import ones_initializer as ones_initializer
from muster_tensorflow.programs.v1.variables._initializers import (
    orthogonal_initializer as orthogonal_initializer,
)
from muster_tensorflow.programs.v1.variables._initializers import (
    random_normal_initializer as random_normal_initializer,
)
from muster_tensorflow.programs.v1.variables._initializers import (
    random_uniform_initializer as random_uniform_initializer,
)
from muster_tensorflow.programs.v1.variables._initializers import (
    truncated_normal_initializer as truncated_normal_initializer,
)
from muster_tensorflow.programs.v1.variables._initializers import (
    uniform_unit_scaling_initializer as uniform_unit_scaling_initializer,
)
from muster_tensorflow.programs.v1.variables._initializers import (
    variance_scaling_initializer as variance_scaling_initializer,
)
from muster_tensorflow.programs.v1.variables._initializers import zeros_initializer as zeros_initializer
from muster_tensorflow.programs.v1.variables._partitioners import (
    fixed_size_partitioner as fixed_size_partitioner,
)
from muster_tensorflow.programs.v1.variables._partitioners import (
    min_max_variable_partitioner as min_max_variable_partitioner,
)
from muster_tensorflow.programs.v1.variables._partitioners import (
    variable_axis_size_partitioner as variable_axis_size_partitioner,
)
from muster_tensorflow.programs.v1.variables._tracked_variables import make_template as make_template
from muster_tensorflow.programs.v1.variables._variables import AUTO_REUSE as AUTO_REUSE
from muster_tensorflow.programs.v1.variables._variables import VariableScope as VariableScope
from muster_tensorflow.programs.v1.variables._variables import get_variable as get_variable
from muster_tensorflow.programs.v1.variables._variables import get_variable_scope as get_variable_scope
from muster_tensorflow.programs.v1.variables._variables import variable_scope as variable_scope
from muster_tensorflow.version import COMPILER_VERSION as COMPILER_VERSION
from muster_tensorflow.version import GIT_VERSION as GIT_VERSION
from muster_tensorflow.version import GRAPH_DEF_VERSION as GRAPH_DEF_VERSION
from muster_tensorflow.version import GRAPH_DEF_VERSION_MIN_CONSUMER as GRAPH_DEF_VERSION_MIN_CONSUMER
from muster_tensorflow.version import GRAPH_DEF_VERSION_MIN_PRODUCER as GRAPH_DEF_VERSION_MIN_PRODUCER
from muster_tensorflow.version import VERSION as VERSION

placeholder = _Placeholder
set_random_seed = _set_seed


def __getattr__(name: str) -> Any:
    # Not imported above, since it imports this module.
    try:
        return getattr(sys.modules["muster_tensorflow"], name)
    except AttributeError:
        raise _missing("tf.compat.v1", name) from None
