"""``tf.dtypes``."""

import numpy as _np
from ml_dtypes import bfloat16 as _bfloat16

from muster_tensorflow.library.ops._arrays import as_dtype as as_dtype
from muster_tensorflow.library.ops.math._math import cast as cast
from muster_tensorflow.library.ops.math._more_math import saturate_cast as saturate_cast
from muster_tensorflow.library.ops.math._special import complex as complex

DType = _np.dtype
bool = _np.dtype("bool")
uint8 = _np.dtype("uint8")
uint16 = _np.dtype("uint16")
uint32 = _np.dtype("uint32")
uint64 = _np.dtype("uint64")
int8 = _np.dtype("int8")
int16 = _np.dtype("int16")
int32 = _np.dtype("int32")
int64 = _np.dtype("int64")
float16 = half = _np.dtype("float16")
bfloat16 = _np.dtype(_bfloat16)
float32 = _np.dtype("float32")
float64 = double = _np.dtype("float64")
complex64 = _np.dtype("complex64")
complex128 = _np.dtype("complex128")
string = _np.dtype(str)
