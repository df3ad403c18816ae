"""More of ``tf.signal``: cosine transforms of all types, windows, and transforms of overlapping blocks.

Source: tensorflow/python/ops/signal/.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.math._signal import cosine_transform, frame, hann_window, overlap_and_add

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


@operation
def idct(
    input: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Array:
    """Return the cosine transform, along the last axis, that undoes the one of a type but for a factor.

    Args:
        input: The values.
        type: 1 to 4.
        n: Unused, as in TensorFlow.
        axis: -1.
        norm: ``"ortho"`` for the inverse itself; None for one without a factor.
        name: Unused.
    """
    if axis != -1:
        raise ValueError(f"axis is -1, as in TensorFlow, got {axis!r}.")
    return cosine_transform(jnp.asarray(as_array(input)), _INVERSE.get(type, type), norm)


@operation
def vorbis_window(window_length: int, dtype: DTypeLike = np.float32, name: str | None = None) -> Array:
    """Return Vorbis' window, whose squares overlap to 1."""
    places = (np.arange(int(window_length)) + 0.5) * np.pi / int(window_length)
    return np.sin(np.pi / 2 * np.sin(places) ** 2).astype(dtype)


@operation
def kaiser_window(
    window_length: int, beta: float = 12.0, dtype: DTypeLike = np.float32, name: str | None = None
) -> Array:
    """Return Kaiser's window."""
    return np.kaiser(int(window_length), float(beta)).astype(dtype)


@operation
def kaiser_bessel_derived_window(
    window_length: int, beta: float = 12.0, dtype: DTypeLike = np.float32, name: str | None = None
) -> Array:
    """Return the window that is derived of Kaiser's, whose squares overlap to 1."""
    half = int(window_length) // 2
    sums = np.cumsum(np.kaiser(half + 1, float(beta)))
    side = np.sqrt(sums[:-1] / sums[-1])
    return np.concatenate([side, side[::-1]]).astype(dtype)


def inverse_stft_window_fn(
    frame_step: int, forward_window_fn: Callable[..., Array] = hann_window, name: str | None = None
) -> Callable[..., Array]:
    """Return a function that makes the window for ``inverse_stft`` that restores a signal.

    Args:
        frame_step: The step from one frame to the next.
        forward_window_fn: Makes the window that ``stft`` took.
        name: Unused.
    """
    step = int(frame_step)

    def inverse_window(frame_length: int, dtype: DTypeLike = np.float32) -> Array:
        length = int(frame_length)
        window: Any = np.asarray(as_array(forward_window_fn(length, dtype=dtype)))
        overlaps = -(-length // step)
        squares = np.pad(window**2, (0, overlaps * step - length)).reshape(overlaps, step).sum(0)
        return (window / np.tile(squares, overlaps)[:length]).astype(dtype)  # type: ignore[no-any-return]

    return inverse_window


@operation
def mdct(
    signals: ArrayLike,
    frame_length: int,
    window_fn: Callable[..., Array] | None = vorbis_window,
    pad_end: bool = False,
    norm: str | None = None,
    name: str | None = None,
) -> Array:
    """Return the modified cosine transforms of overlapping blocks: (…, blocks, frame_length / 2).

    Args:
        signals: Shape (…, samples).
        frame_length: The length of blocks, of which 4 is a factor; each starts half of it after another.
        window_fn: Makes the window for the blocks; None is half of the root of 2.
        pad_end: Whether zeros are added for a last block.
        norm: ``"ortho"`` or None.
        name: Unused.
    """
    length = int(frame_length)
    half = length // 2
    frames: Any = frame(signals, length, half, pad_end)
    window = np.sqrt(0.5) if window_fn is None else as_array(window_fn(length, dtype=np.float32))
    a, b, c, d = jnp.split(frames * window, 4, axis=-1)
    folded = jnp.concatenate([-c[..., ::-1] - d, a - b[..., ::-1]], -1)
    return cosine_transform(folded, 4, norm)


@operation
def inverse_mdct(
    mdcts: ArrayLike,
    window_fn: Callable[..., Array] | None = vorbis_window,
    norm: str | None = None,
    name: str | None = None,
) -> Array:
    """Return the signals of which `mdct` returns the transforms, but for half a block at both ends."""
    values = jnp.asarray(as_array(mdcts))
    half = values.shape[-1]
    unfolded = cosine_transform(values, 4, norm)
    if norm is None:
        unfolded = unfolded * (0.5 / half)
    first, second = jnp.split(unfolded, 2, axis=-1)
    blocks = jnp.concatenate([second, -second[..., ::-1], -first[..., ::-1], -first], -1)
    window = np.sqrt(0.5) if window_fn is None else as_array(window_fn(2 * half, dtype=np.float32))
    return overlap_and_add(blocks * window, half)
