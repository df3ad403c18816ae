"""``tf.signal``."""

from muster.compat.ops._signal import dct as dct
from muster.compat.ops._signal import fft as fft
from muster.compat.ops._signal import fft2d as fft2d
from muster.compat.ops._signal import fft3d as fft3d
from muster.compat.ops._signal import fftshift as fftshift
from muster.compat.ops._signal import frame as frame
from muster.compat.ops._signal import hamming_window as hamming_window
from muster.compat.ops._signal import hann_window as hann_window
from muster.compat.ops._signal import ifft as ifft
from muster.compat.ops._signal import ifft2d as ifft2d
from muster.compat.ops._signal import ifft3d as ifft3d
from muster.compat.ops._signal import ifftshift as ifftshift
from muster.compat.ops._signal import inverse_stft as inverse_stft
from muster.compat.ops._signal import irfft as irfft
from muster.compat.ops._signal import irfft2d as irfft2d
from muster.compat.ops._signal import linear_to_mel_weight_matrix as linear_to_mel_weight_matrix
from muster.compat.ops._signal import mfccs_from_log_mel_spectrograms as mfccs_from_log_mel_spectrograms
from muster.compat.ops._signal import overlap_and_add as overlap_and_add
from muster.compat.ops._signal import rfft as rfft
from muster.compat.ops._signal import rfft2d as rfft2d
from muster.compat.ops._signal import stft as stft
