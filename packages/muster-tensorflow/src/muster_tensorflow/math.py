"""``tf.math``."""

from muster_tensorflow.library.ops.arrays._segments import bincount as bincount
from muster_tensorflow.library.ops.arrays._segments import confusion_matrix as confusion_matrix
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
from muster_tensorflow.library.ops.math import _host_special as _host_special
from muster_tensorflow.library.ops.math._math import abs as abs
from muster_tensorflow.library.ops.math._math import accumulate_n as accumulate_n
from muster_tensorflow.library.ops.math._math import acos as acos
from muster_tensorflow.library.ops.math._math import add as add
from muster_tensorflow.library.ops.math._math import add_n as add_n
from muster_tensorflow.library.ops.math._math import argmax as argmax
from muster_tensorflow.library.ops.math._math import argmin as argmin
from muster_tensorflow.library.ops.math._math import asin as asin
from muster_tensorflow.library.ops.math._math import atan as atan
from muster_tensorflow.library.ops.math._math import atan2 as atan2
from muster_tensorflow.library.ops.math._math import ceil as ceil
from muster_tensorflow.library.ops.math._math import cos as cos
from muster_tensorflow.library.ops.math._math import cosh as cosh
from muster_tensorflow.library.ops.math._math import count_nonzero as count_nonzero
from muster_tensorflow.library.ops.math._math import cumprod as cumprod
from muster_tensorflow.library.ops.math._math import cumsum as cumsum
from muster_tensorflow.library.ops.math._math import divide as divide
from muster_tensorflow.library.ops.math._math import divide as truediv
from muster_tensorflow.library.ops.math._math import divide_no_nan as divide_no_nan
from muster_tensorflow.library.ops.math._math import equal as equal
from muster_tensorflow.library.ops.math._math import erf as erf
from muster_tensorflow.library.ops.math._math import exp as exp
from muster_tensorflow.library.ops.math._math import expm1 as expm1
from muster_tensorflow.library.ops.math._math import floor as floor
from muster_tensorflow.library.ops.math._math import floordiv as floordiv
from muster_tensorflow.library.ops.math._math import floormod as floormod
from muster_tensorflow.library.ops.math._math import floormod as mod
from muster_tensorflow.library.ops.math._math import greater as greater
from muster_tensorflow.library.ops.math._math import greater_equal as greater_equal
from muster_tensorflow.library.ops.math._math import is_finite as is_finite
from muster_tensorflow.library.ops.math._math import is_inf as is_inf
from muster_tensorflow.library.ops.math._math import is_nan as is_nan
from muster_tensorflow.library.ops.math._math import less as less
from muster_tensorflow.library.ops.math._math import less_equal as less_equal
from muster_tensorflow.library.ops.math._math import lgamma as lgamma
from muster_tensorflow.library.ops.math._math import log as log
from muster_tensorflow.library.ops.math._math import log1p as log1p
from muster_tensorflow.library.ops.math._math import log_sigmoid as log_sigmoid
from muster_tensorflow.library.ops.math._math import logical_and as logical_and
from muster_tensorflow.library.ops.math._math import logical_not as logical_not
from muster_tensorflow.library.ops.math._math import logical_or as logical_or
from muster_tensorflow.library.ops.math._math import logical_xor as logical_xor
from muster_tensorflow.library.ops.math._math import maximum as maximum
from muster_tensorflow.library.ops.math._math import minimum as minimum
from muster_tensorflow.library.ops.math._math import multiply as multiply
from muster_tensorflow.library.ops.math._math import multiply_no_nan as multiply_no_nan
from muster_tensorflow.library.ops.math._math import negative as negative
from muster_tensorflow.library.ops.math._math import not_equal as not_equal
from muster_tensorflow.library.ops.math._math import pow as pow
from muster_tensorflow.library.ops.math._math import reciprocal as reciprocal
from muster_tensorflow.library.ops.math._math import reduce_all as reduce_all
from muster_tensorflow.library.ops.math._math import reduce_any as reduce_any
from muster_tensorflow.library.ops.math._math import reduce_logsumexp as reduce_logsumexp
from muster_tensorflow.library.ops.math._math import reduce_max as reduce_max
from muster_tensorflow.library.ops.math._math import reduce_mean as reduce_mean
from muster_tensorflow.library.ops.math._math import reduce_min as reduce_min
from muster_tensorflow.library.ops.math._math import reduce_prod as reduce_prod
from muster_tensorflow.library.ops.math._math import reduce_std as reduce_std
from muster_tensorflow.library.ops.math._math import reduce_sum as reduce_sum
from muster_tensorflow.library.ops.math._math import reduce_variance as reduce_variance
from muster_tensorflow.library.ops.math._math import round as round
from muster_tensorflow.library.ops.math._math import rsqrt as rsqrt
from muster_tensorflow.library.ops.math._math import sigmoid as sigmoid
from muster_tensorflow.library.ops.math._math import sign as sign
from muster_tensorflow.library.ops.math._math import sin as sin
from muster_tensorflow.library.ops.math._math import sinh as sinh
from muster_tensorflow.library.ops.math._math import sqrt as sqrt
from muster_tensorflow.library.ops.math._math import square as square
from muster_tensorflow.library.ops.math._math import squared_difference as squared_difference
from muster_tensorflow.library.ops.math._math import subtract as subtract
from muster_tensorflow.library.ops.math._math import tan as tan
from muster_tensorflow.library.ops.math._math import tanh as tanh
from muster_tensorflow.library.ops.math._more_math import approx_max_k as approx_max_k
from muster_tensorflow.library.ops.math._more_math import approx_min_k as approx_min_k
from muster_tensorflow.library.ops.math._more_math import reciprocal_no_nan as reciprocal_no_nan
from muster_tensorflow.library.ops.math._more_math import sobol_sample as sobol_sample
from muster_tensorflow.library.ops.math._special import acosh as acosh
from muster_tensorflow.library.ops.math._special import angle as angle
from muster_tensorflow.library.ops.math._special import asinh as asinh
from muster_tensorflow.library.ops.math._special import atanh as atanh
from muster_tensorflow.library.ops.math._special import bessel_i0 as bessel_i0
from muster_tensorflow.library.ops.math._special import bessel_i0e as bessel_i0e
from muster_tensorflow.library.ops.math._special import bessel_i1 as bessel_i1
from muster_tensorflow.library.ops.math._special import bessel_i1e as bessel_i1e
from muster_tensorflow.library.ops.math._special import betainc as betainc
from muster_tensorflow.library.ops.math._special import conj as conj
from muster_tensorflow.library.ops.math._special import cumulative_logsumexp as cumulative_logsumexp
from muster_tensorflow.library.ops.math._special import digamma as digamma
from muster_tensorflow.library.ops.math._special import erfc as erfc
from muster_tensorflow.library.ops.math._special import erfcinv as erfcinv
from muster_tensorflow.library.ops.math._special import erfinv as erfinv
from muster_tensorflow.library.ops.math._special import expint as _expint
from muster_tensorflow.library.ops.math._special import igamma as igamma
from muster_tensorflow.library.ops.math._special import igammac as igammac
from muster_tensorflow.library.ops.math._special import imag as imag
from muster_tensorflow.library.ops.math._special import invert_permutation as invert_permutation
from muster_tensorflow.library.ops.math._special import is_non_decreasing as is_non_decreasing
from muster_tensorflow.library.ops.math._special import is_strictly_increasing as is_strictly_increasing
from muster_tensorflow.library.ops.math._special import lbeta as lbeta
from muster_tensorflow.library.ops.math._special import ndtri as ndtri
from muster_tensorflow.library.ops.math._special import nextafter as nextafter
from muster_tensorflow.library.ops.math._special import polygamma as polygamma
from muster_tensorflow.library.ops.math._special import polyval as polyval
from muster_tensorflow.library.ops.math._special import real as real
from muster_tensorflow.library.ops.math._special import reduce_euclidean_norm as reduce_euclidean_norm
from muster_tensorflow.library.ops.math._special import rint as rint
from muster_tensorflow.library.ops.math._special import scalar_mul as scalar_mul
from muster_tensorflow.library.ops.math._special import xdivy as xdivy
from muster_tensorflow.library.ops.math._special import xlog1py as xlog1py
from muster_tensorflow.library.ops.math._special import xlogy as xlogy
from muster_tensorflow.library.ops.math._special import zeta as zeta
from muster_tensorflow.library.ops.nn._nn import in_top_k as in_top_k
from muster_tensorflow.library.ops.nn._nn import l2_normalize as l2_normalize
from muster_tensorflow.library.ops.nn._nn import log_softmax as log_softmax
from muster_tensorflow.library.ops.nn._nn import softmax as softmax
from muster_tensorflow.library.ops.nn._nn import softplus as softplus
from muster_tensorflow.library.ops.nn._nn import softsign as softsign
from muster_tensorflow.library.ops.nn._nn import top_k as top_k
from muster_tensorflow.library.ops.nn._nn import zero_fraction as zero_fraction
from muster_tensorflow.names._names import Names as _Names

special = _Names(
    "tf.math.special",
    bessel_i0=bessel_i0,
    bessel_i0e=bessel_i0e,
    bessel_i1=bessel_i1,
    bessel_i1e=bessel_i1e,
    bessel_j0=_host_special.bessel_j0,
    bessel_j1=_host_special.bessel_j1,
    bessel_k0=_host_special.bessel_k0,
    bessel_k0e=_host_special.bessel_k0e,
    bessel_k1=_host_special.bessel_k1,
    bessel_k1e=_host_special.bessel_k1e,
    bessel_y0=_host_special.bessel_y0,
    bessel_y1=_host_special.bessel_y1,
    dawsn=_host_special.dawsn,
    expint=_expint,
    fresnel_cos=_host_special.fresnel_cos,
    fresnel_sin=_host_special.fresnel_sin,
    spence=_host_special.spence,
)
