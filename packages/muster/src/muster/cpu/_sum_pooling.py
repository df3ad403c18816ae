"""Sums over windows: ``lax.reduce_window_sum_p``, for average pooling and its gradient.

XLA's CPU compiler sums each window in a separate loop, and from three by three elements on the loop costs
more than the additions. Here slices of the array are added, one dimension after the other.
"""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

MAX_ADDITIONS = 64
"""Above so many additions the program would be large, and its compilation slow."""

Sizes = tuple[int, ...]


def sum_pooling(
    operand: jax.core.ShapedArray,
    *,
    window_dimensions: Sizes,
    window_strides: Sizes,
    padding: Sequence[tuple[int, int]],
    base_dilation: Sizes,
    window_dilation: Sizes,
) -> Callable[[jax.Array], jax.Array] | None:
    """Choose how to compute ``reduce_window_sum``; see ``Chooser``.

    Args:
        operand: The aval of the pooled array.
        window_dimensions: One entry for each dimension, as in all further arguments.
        window_strides: The steps between windows.
        padding: The zeros before and after the array.
        base_dilation: The spacing of elements.
        window_dilation: The spacing of a window's elements.
    """
    wide = [size for size in window_dimensions if size > 1]
    if (
        operand.dtype != jnp.float32
        or any(d != 1 for d in (*base_dilation, *window_dilation))
        or any(side < 0 for sides in padding for side in sides)
        or 0 in operand.shape
        or not (len(wide) > 2 or sum(size > 2 for size in wide) == 2)
        or sum(wide) > MAX_ADDITIONS
    ):
        return None
    padded = [size + sum(sides) for size, sides in zip(operand.shape, padding, strict=True)]
    if any(size < w for size, w in zip(padded, window_dimensions, strict=True)):
        return None
    around_one = all(
        size == 2 * w - 1 for size, w in zip(operand.shape, window_dimensions, strict=True) if w > 1
    )
    if around_one and all(s == 1 for s in window_strides) and not any(map(any, padding)):
        # The gradient of a window over the entire image: XLA sees that it is one number, repeated.
        return None
    return partial(_sums, window=window_dimensions, strides=window_strides, padding=padding)


def _sums(
    operand: jax.Array, *, window: Sizes, strides: Sizes, padding: Sequence[tuple[int, int]]
) -> jax.Array:
    found = lax.pad(operand, jnp.zeros((), operand.dtype), [(low, high, 0) for low, high in padding])
    for dim, (w, stride) in enumerate(zip(window, strides, strict=True)):
        reach = (found.shape[dim] - w) // stride * stride + 1
        first, *others = (lax.slice_in_dim(found, i, i + reach, stride, dim) for i in range(w))
        found = sum(others, start=first)
    return found
