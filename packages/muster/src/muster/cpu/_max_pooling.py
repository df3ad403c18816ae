"""The gradient of max pooling: ``lax.select_and_scatter_add_p``.

XLA's CPU compiler finds the selected elements as four-dimensional indices and scatters one at a time, which
takes longer than the rest of a small network. Here every step is arithmetic on arrays.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive

from muster.cpu._convolution_shapes import Sizes, interleave

MAX_POSITIONS = 32
"""Above so many positions in a window the program would be large, and its compilation slow."""

UNROLLED = 16
"""LLVM unrolls inner loops of fewer rounds, and does not vectorize them then if they are as short as the
choice of an element. So with fewer features the choice is computed within the loops that use it."""

Padding = Sequence[tuple[int, int]]


def max_pooling_gradient(
    source: jax.core.ShapedArray,
    operand: jax.core.ShapedArray,
    *,
    select_prim: Primitive,
    window_dimensions: Sizes,
    window_strides: Sizes,
    padding: Padding,
) -> Callable[[jax.Array, jax.Array], jax.Array] | None:
    """Choose how to compute ``select_and_scatter_add``; see ``Chooser``.

    Args:
        source: The aval of the gradient with respect to the result, which has an element per window.
        operand: The aval of the pooled array, of the same dtype.
        select_prim: ``lax.ge_p`` for the maximum, ``lax.le_p`` for the minimum.
        window_dimensions: One entry for each dimension, as in all further arguments.
        window_strides: The steps between windows.
        padding: The elements before and after the array.
    """
    if (
        operand.dtype not in (jnp.float32, jnp.float64, jnp.float16, jnp.bfloat16)
        or max(math.prod(window_dimensions), math.prod(window_strides)) > MAX_POSITIONS
        or any(side < 0 for sides in padding for side in sides)
        or 0 in (*source.shape, *operand.shape)
    ):
        return None
    return partial(
        _gradient, select=select_prim.bind, worst=-jnp.inf if select_prim is lax.ge_p else jnp.inf,
        window=tuple(window_dimensions), strides=tuple(window_strides), padding=tuple(padding),
    )  # fmt: skip


def _gradient(
    source: jax.Array,
    operand: jax.Array,
    *,
    select: Callable[..., jax.Array],
    worst: float,
    window: Sizes,
    strides: Sizes,
    padding: Padding,
) -> jax.Array:
    dtype = operand.dtype
    padded = lax.pad(operand, jnp.array(worst, dtype), [(low, high, 0) for low, high in padding])
    chosen = _chosen(padded, source.shape, select, window, strides)

    # Along one dimension, element q * stride + phase lies in the windows q, q - 1, ... at the positions
    # phase, phase + stride, ... So ``reach - 1`` windows that select nothing are added.
    reach = tuple(-(-w // s) for w, s in zip(window, strides, strict=True))
    groups = tuple(
        max(-(-size // s), count + r - 1)
        for size, s, count, r in zip(padded.shape, strides, source.shape, reach, strict=True)
    )
    around = [(r - 1, g - count, 0) for r, g, count in zip(reach, groups, source.shape, strict=True)]
    numbers = {position: number for number, position in enumerate(itertools.product(*map(range, window)))}
    none = jnp.array(len(numbers), jnp.int32)
    chosen, source = lax.pad(chosen, none, around), lax.pad(source, jnp.zeros((), dtype), around)
    if operand.shape[-1] >= UNROLLED:
        # Without the barrier XLA computes the choice anew for each of its uses.
        chosen, source = lax.optimization_barrier((chosen, source))

    def of_phase(phase: Sizes) -> jax.Array:
        total = None
        for back in itertools.product(*map(range, reach)):
            position = tuple(p + b * s for p, b, s in zip(phase, back, strides, strict=True))
            if position not in numbers:
                continue
            start = [r - 1 - b for r, b in zip(reach, back, strict=True)]
            stop = [a + g for a, g in zip(start, groups, strict=True)]
            here = lax.slice(chosen, start, stop) == numbers[position]
            part = lax.slice(source, start, stop)
            part = lax.select(here, part, lax.full_like(part, 0))
            total = part if total is None else total + part
        return lax.full_like(source, 0, shape=groups) if total is None else total

    phases = {phase: of_phase(phase) for phase in itertools.product(*map(range, strides))}
    start = [low for low, _ in padding]
    stop = [low + size for low, size in zip(start, operand.shape, strict=True)]
    return lax.slice(interleave(phases, strides), start, stop)


def _chosen(
    padded: jax.Array, counts: Sizes, select: Callable[..., jax.Array], window: Sizes, strides: Sizes
) -> jax.Array:
    """Return the row-major position that each window selects, int32.

    As in XLA, the selected element stays unless its comparison with the next is false: the first of equal
    elements is selected, and a NaN is always replaced.
    """

    def at(position: Sizes) -> jax.Array:
        stop = [p + (count - 1) * s + 1 for p, count, s in zip(position, counts, strides, strict=True)]
        return lax.slice(padded, position, stop, strides)

    first, *others = itertools.product(*map(range, window))
    held = at(first)
    chosen = lax.full_like(held, 0, jnp.int32)
    for number, position in enumerate(others, 1):
        here = at(position)
        keep = select(held, here)
        chosen = lax.select(keep, chosen, lax.full_like(chosen, number))
        held = lax.select(keep, held, here)
    return chosen
