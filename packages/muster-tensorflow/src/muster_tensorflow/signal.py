"""``tf.signal``."""

from muster_tensorflow.library.ops.math._more_signal import idct as idct
from muster_tensorflow.library.ops.math._more_signal import inverse_mdct as inverse_mdct
from muster_tensorflow.library.ops.math._more_signal import inverse_stft_window_fn as inverse_stft_window_fn
from muster_tensorflow.library.ops.math._more_signal import (
    kaiser_bessel_derived_window as kaiser_bessel_derived_window,
)
from muster_tensorflow.library.ops.math._more_signal import kaiser_window as kaiser_window
from muster_tensorflow.library.ops.math._more_signal import mdct as mdct
from muster_tensorflow.library.ops.math._more_signal import vorbis_window as vorbis_window
from muster_tensorflow.library.ops.math._signal import dct as dct
from muster_tensorflow.library.ops.math._signal import fft as fft
from muster_tensorflow.library.ops.math._signal import fft2d as fft2d
from muster_tensorflow.library.ops.math._signal import fft3d as fft3d
from muster_tensorflow.library.ops.math._signal import fftshift as fftshift
from muster_tensorflow.library.ops.math._signal import frame as frame
from muster_tensorflow.library.ops.math._signal import hamming_window as hamming_window
from muster_tensorflow.library.ops.math._signal import hann_window as hann_window
from muster_tensorflow.library.ops.math._signal import ifft as ifft
from muster_tensorflow.library.ops.math._signal import ifft2d as ifft2d
from muster_tensorflow.library.ops.math._signal import ifft3d as ifft3d
from muster_tensorflow.library.ops.math._signal import ifftshift as ifftshift
from muster_tensorflow.library.ops.math._signal import inverse_stft as inverse_stft
from muster_tensorflow.library.ops.math._signal import irfft as irfft
from muster_tensorflow.library.ops.math._signal import irfft2d as irfft2d
from muster_tensorflow.library.ops.math._signal import irfft3d as irfft3d
from muster_tensorflow.library.ops.math._signal import (
    linear_to_mel_weight_matrix as linear_to_mel_weight_matrix,
)
from muster_tensorflow.library.ops.math._signal import (
    mfccs_from_log_mel_spectrograms as mfccs_from_log_mel_spectrograms,
)
from muster_tensorflow.library.ops.math._signal import overlap_and_add as overlap_and_add
from muster_tensorflow.library.ops.math._signal import rfft as rfft
from muster_tensorflow.library.ops.math._signal import rfft2d as rfft2d
from muster_tensorflow.library.ops.math._signal import rfft3d as rfft3d
from muster_tensorflow.library.ops.math._signal import stft as stft
