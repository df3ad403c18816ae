"""``tf.compat.v1.spectral``: the older name of ``tf.signal`` for its transforms."""

from muster_tensorflow.library.ops.math._more_signal import idct as idct
from muster_tensorflow.library.ops.math._signal import dct as dct
from muster_tensorflow.library.ops.math._signal import fft as fft
from muster_tensorflow.library.ops.math._signal import fft2d as fft2d
from muster_tensorflow.library.ops.math._signal import fft3d as fft3d
from muster_tensorflow.library.ops.math._signal import ifft as ifft
from muster_tensorflow.library.ops.math._signal import ifft2d as ifft2d
from muster_tensorflow.library.ops.math._signal import ifft3d as ifft3d
from muster_tensorflow.library.ops.math._signal import irfft as irfft
from muster_tensorflow.library.ops.math._signal import irfft2d as irfft2d
from muster_tensorflow.library.ops.math._signal import irfft3d as irfft3d
from muster_tensorflow.library.ops.math._signal import rfft as rfft
from muster_tensorflow.library.ops.math._signal import rfft2d as rfft2d
from muster_tensorflow.library.ops.math._signal import rfft3d as rfft3d
