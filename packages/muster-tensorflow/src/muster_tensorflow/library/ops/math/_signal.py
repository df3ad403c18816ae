"""``tf.signal``: Fourier transforms, frames and windows."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.fft
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array
from muster_tensorflow.library.ops._operation import operation


def _transform(name: str, axes: int) -> Callable[..., Array]:
    function = getattr(jnp.fft, name if axes == 1 else f"{name}n")
    label = name if axes == 1 else f"{name}{axes}d"

    def transform(input: ArrayLike, name: str | None = None) -> Array:
        value = jnp.asarray(as_array(input))
        return function(value) if axes == 1 else function(value, axes=tuple(range(-axes, 0)))  # type: ignore[no-any-return]

    transform.__name__ = transform.__qualname__ = label
    transform.__doc__ = f"Return ``numpy.fft.{name}`` along the last {axes} axes."
    return operation(transform)


fft = _transform("fft", 1)
ifft = _transform("ifft", 1)
fft2d = _transform("fft", 2)
ifft2d = _transform("ifft", 2)
fft3d = _transform("fft", 3)
ifft3d = _transform("ifft", 3)


def _real_transform(name: str, axes: int) -> Callable[..., Array]:
    function = getattr(jnp.fft, f"{name}n")
    label = name if axes == 1 else f"{name}{axes}d"

    def transform(
        input_tensor: ArrayLike, fft_length: Sequence[int] | None = None, name: str | None = None
    ) -> Array:
        sizes = None if fft_length is None else [int(each) for each in np.ravel(np.asarray(fft_length))]
        return function(jnp.asarray(as_array(input_tensor)), sizes, tuple(range(-axes, 0)))  # type: ignore[no-any-return]

    transform.__name__ = transform.__qualname__ = label
    transform.__doc__ = f"Return ``numpy.fft.{name}`` along the last {axes} axes, of the lengths given."
    return operation(transform)


rfft = _real_transform("rfft", 1)
irfft = _real_transform("irfft", 1)
rfft2d = _real_transform("rfft", 2)
irfft2d = _real_transform("irfft", 2)
rfft3d = _real_transform("rfft", 3)
irfft3d = _real_transform("irfft", 3)


def _shift(name: str) -> Callable[..., Array]:
    def shift(x: ArrayLike, axes: int | Sequence[int] | None = None, name: str | None = None) -> Array:
        return getattr(jnp.fft, label)(jnp.asarray(as_array(x)), axes)  # type: ignore[no-any-return]

    label = shift.__name__ = shift.__qualname__ = name
    shift.__doc__ = f"Return ``numpy.fft.{name}``."
    return operation(shift)


fftshift = _shift("fftshift")
ifftshift = _shift("ifftshift")


def _window(name: str, first: float) -> Callable[..., Array]:
    def window(
        window_length: int, periodic: bool = True, dtype: DTypeLike = np.float32, name: str | None = None
    ) -> Array:
        length = int(window_length)
        if length == 1:
            return np.ones(1, dtype)
        over = length if periodic and length % 2 == 0 else length - 1  # as TensorFlow's
        return (first - (1 - first) * np.cos(2 * np.pi * np.arange(length) / over)).astype(dtype)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"Return a {name.partition('_')[0].capitalize()} window."
    return operation(window)


hann_window = _window("hann_window", 0.5)
hamming_window = _window("hamming_window", 0.54)


@operation
def frame(
    signal: ArrayLike,
    frame_length: int,
    frame_step: int,
    pad_end: bool = False,
    pad_value: float = 0,
    axis: int = -1,
    name: str | None = None,
) -> Array:
    """Return overlapping parts of a signal, each ``frame_step`` after the one before, in two axes for one."""
    values = jnp.moveaxis(jnp.asarray(as_array(signal)), axis, -1)
    length, size, step = values.shape[-1], int(frame_length), int(frame_step)
    count = -(-length // step) if pad_end else max(0, 1 + (length - size) // step)
    missing = max(0, (count - 1) * step + size - length)
    padded = jnp.pad(values, [*[(0, 0)] * (values.ndim - 1), (0, missing)], constant_values=pad_value)
    frames = padded[..., np.arange(count)[:, None] * step + np.arange(size)]
    last = axis % values.ndim
    return jnp.moveaxis(frames, (-2, -1), (last, last + 1))


@operation
def overlap_and_add(signal: ArrayLike, frame_step: int, name: str | None = None) -> Array:
    """Add overlapping frames, of shape (…, frames, length), to signals."""
    frames = jnp.asarray(as_array(signal))
    count, length = frames.shape[-2:]
    total = jnp.zeros((*frames.shape[:-2], (count - 1) * int(frame_step) + length), frames.dtype)
    return total.at[..., np.arange(count)[:, None] * int(frame_step) + np.arange(length)].add(frames)


Window = Callable[..., Array]


@operation
def stft(
    signals: ArrayLike,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Window | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Array:
    """Return the Fourier transforms of windows of real signals: (…, samples) gives (…, frames, bins).

    Source: tensorflow/python/ops/signal/spectral_ops.py, ``stft``.
    """
    size = int(frame_length)
    parts = frame(signals, size, frame_step, pad_end)
    if window_fn is not None:
        parts = parts * as_array(window_fn(size, dtype=np.float32))
    return rfft(parts, [_power_of_two(size) if fft_length is None else int(fft_length)])


@operation
def inverse_stft(
    stfts: ArrayLike,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Window | None = hann_window,
    name: str | None = None,
) -> Array:
    """Return signals of the Fourier transforms of their windows."""
    size = int(frame_length)
    parts: Any = irfft(stfts, [_power_of_two(size) if fft_length is None else int(fft_length)])[..., :size]
    missing = size - parts.shape[-1]
    parts = jnp.pad(parts, [*[(0, 0)] * (parts.ndim - 1), (0, missing)])
    if window_fn is not None:
        parts = parts * as_array(window_fn(size, dtype=np.float32))
    return overlap_and_add(parts, frame_step)


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _cosines(type: int, size: int) -> np.ndarray[Any, Any]:
    """Return the matrix of a cosine transform, (size, size): values times it are the transform."""
    n, k = np.arange(size)[:, None], np.arange(size)
    match type:
        case 1:
            matrix = 2 * np.cos(np.pi * n * k / (size - 1))
            matrix[[0, -1]] /= 2
        case 2:
            matrix = 2 * np.cos(np.pi * (n + 0.5) * k / size)
        case 3:
            matrix = 2 * np.cos(np.pi * n * (k + 0.5) / size)
            matrix[0] /= 2
        case 4:
            matrix = 2 * np.cos(np.pi * (n + 0.5) * (k + 0.5) / size)
        case _:
            raise ValueError(f"The types of cosine transforms are 1 to 4, got {type!r}.")
    return matrix


def cosine_transform(values: jax.Array, type: int, norm: str | None) -> jax.Array:
    """Return the cosine transform of a type, 1 to 4, along the last axis."""
    size = values.shape[-1]
    matrix = _cosines(type, size)
    if norm == "ortho":
        if type == 1:
            raise ValueError("Normalization is not there for the cosine transform of type 1.")
        matrix = matrix * np.sqrt(0.5 / size)
        if type == 2:
            matrix[:, 0] *= np.sqrt(0.5)
        elif type == 3:
            matrix[0] *= np.sqrt(2)
    elif norm is not None:
        raise ValueError(f"norm is None or 'ortho', got {norm!r}.")
    return jnp.matmul(values, matrix.astype(values.dtype), precision=jax.lax.Precision.HIGHEST)


@operation
def dct(
    input: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Array:
    """Return the discrete cosine transform of a type, 1 to 4, of ``n`` values of the last axis."""
    values = jnp.asarray(as_array(input))
    if type == 2:
        return jax.scipy.fft.dct(values, n=n, axis=axis, norm=norm)
    if axis != -1:
        raise ValueError(f"axis is -1, as in TensorFlow, got {axis!r}.")
    if n is not None:
        values = jnp.pad(values[..., :n], [*[(0, 0)] * (values.ndim - 1), (0, max(n - values.shape[-1], 0))])
    return cosine_transform(values, type, norm)


@operation
def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: int = 129,
    sample_rate: float = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: DTypeLike = np.float32,
    name: str | None = None,
) -> Array:
    """Return the matrix, (spectrogram bins, mel bins), that turns spectrograms into mel spectrograms.

    Source: tensorflow/python/ops/signal/mel_ops.py, ``linear_to_mel_weight_matrix``.
    """
    frequencies = np.linspace(0.0, sample_rate / 2, num_spectrogram_bins)[1:]
    lower, upper = _mel(np.array([lower_edge_hertz, upper_edge_hertz]))
    edges = np.linspace(lower, upper, num_mel_bins + 2)
    mels = _mel(frequencies)[:, None]
    rising = (mels - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mels) / (edges[2:] - edges[1:-1])
    weights = np.maximum(0, np.minimum(rising, falling))
    return np.pad(weights, [(1, 0), (0, 0)]).astype(dtype)


def _mel(hertz: Any) -> Any:
    return 1127.0 * np.log1p(hertz / 700.0)


@operation
def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: ArrayLike, name: str | None = None) -> Array:
    """Return the mel frequency cepstral coefficients of logarithmic mel spectrograms."""
    values = jnp.asarray(as_array(log_mel_spectrograms))
    return dct(values) / np.sqrt(2.0 * values.shape[-1]).astype(np.float32)  # type: ignore[no-any-return]
