"""``tf.math``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._names import missing_from as _missing_from
from muster.compat.ops._elementwise import abs as abs
from muster.compat.ops._elementwise import add as add
from muster.compat.ops._elementwise import add_n as add_n
from muster.compat.ops._elementwise import ceil as ceil
from muster.compat.ops._elementwise import cos as cos
from muster.compat.ops._elementwise import divide as divide
from muster.compat.ops._elementwise import equal as equal
from muster.compat.ops._elementwise import exp as exp
from muster.compat.ops._elementwise import expm1 as expm1
from muster.compat.ops._elementwise import floor as floor
from muster.compat.ops._elementwise import floordiv as floordiv
from muster.compat.ops._elementwise import floormod as floormod
from muster.compat.ops._elementwise import greater as greater
from muster.compat.ops._elementwise import greater_equal as greater_equal
from muster.compat.ops._elementwise import is_finite as is_finite
from muster.compat.ops._elementwise import is_inf as is_inf
from muster.compat.ops._elementwise import is_nan as is_nan
from muster.compat.ops._elementwise import less as less
from muster.compat.ops._elementwise import less_equal as less_equal
from muster.compat.ops._elementwise import log as log
from muster.compat.ops._elementwise import log1p as log1p
from muster.compat.ops._elementwise import logical_and as logical_and
from muster.compat.ops._elementwise import logical_not as logical_not
from muster.compat.ops._elementwise import logical_or as logical_or
from muster.compat.ops._elementwise import maximum as maximum
from muster.compat.ops._elementwise import minimum as minimum
from muster.compat.ops._elementwise import multiply as multiply
from muster.compat.ops._elementwise import negative as negative
from muster.compat.ops._elementwise import not_equal as not_equal
from muster.compat.ops._elementwise import pow as pow
from muster.compat.ops._elementwise import reciprocal as reciprocal
from muster.compat.ops._elementwise import round as round
from muster.compat.ops._elementwise import rsqrt as rsqrt
from muster.compat.ops._elementwise import sigmoid as sigmoid
from muster.compat.ops._elementwise import sign as sign
from muster.compat.ops._elementwise import sin as sin
from muster.compat.ops._elementwise import sqrt as sqrt
from muster.compat.ops._elementwise import square as square
from muster.compat.ops._elementwise import squared_difference as squared_difference
from muster.compat.ops._elementwise import subtract as subtract
from muster.compat.ops._elementwise import tanh as tanh
from muster.compat.ops._nn import in_top_k as in_top_k
from muster.compat.ops._nn import l2_normalize as l2_normalize
from muster.compat.ops._nn import log_softmax as log_softmax
from muster.compat.ops._nn import softmax as softmax
from muster.compat.ops._nn import softplus as softplus
from muster.compat.ops._nn import top_k as top_k
from muster.compat.ops._reduce import argmax as argmax
from muster.compat.ops._reduce import argmin as argmin
from muster.compat.ops._reduce import cumsum as cumsum
from muster.compat.ops._reduce import reduce_all as reduce_all
from muster.compat.ops._reduce import reduce_any as reduce_any
from muster.compat.ops._reduce import reduce_logsumexp as reduce_logsumexp
from muster.compat.ops._reduce import reduce_max as reduce_max
from muster.compat.ops._reduce import reduce_mean as reduce_mean
from muster.compat.ops._reduce import reduce_min as reduce_min
from muster.compat.ops._reduce import reduce_prod as reduce_prod
from muster.compat.ops._reduce import reduce_std as reduce_std
from muster.compat.ops._reduce import reduce_sum as reduce_sum
from muster.compat.ops._reduce import reduce_variance as reduce_variance

if not _TYPE_CHECKING:  # so that type checkers also report missing names
    __getattr__ = _missing_from("tf.math")
