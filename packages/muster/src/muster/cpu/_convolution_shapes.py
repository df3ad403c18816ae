"""The dimensions of a convolution, and slices of its operands."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

Sizes = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """``out[b, o, p] = sum over i, w of lhs[b, i, p * stride + w * dilation] * rhs[o, i, w]``.

    The specs say at which dimension batch, feature and each spatial dimension are: of ``lhs``; output
    feature, input feature and window of ``rhs``; batch, feature and positions of the result.
    """

    lhs_spec: Sizes
    rhs_spec: Sizes
    out_spec: Sizes
    window: Sizes
    positions: Sizes
    strides: Sizes
    dilation: Sizes
    padding: Sequence[tuple[int, int]]
    precision: lax.PrecisionLike

    def padded(self, lhs: jax.Array) -> jax.Array:
        return pad(lhs, dict(zip(self.lhs_spec[2:], self.padding, strict=True)))

    def strided(self, lhs: jax.Array, starts: Sequence[int], counts: Sizes, steps: Sizes) -> jax.Array:
        """Return the elements of padded ``lhs`` at ``start, start + step, ...`` of each spatial dimension."""
        start, stop, step = [0] * lhs.ndim, list(lhs.shape), [1] * lhs.ndim
        for dim, a, count, by in zip(self.lhs_spec[2:], starts, counts, steps, strict=True):
            start[dim], stop[dim], step[dim] = a, a + (count - 1) * by + 1, by
        return lax.slice(lhs, start, stop, step)

    def at_window(self, lhs: jax.Array, w: Sizes) -> jax.Array:
        """Return the inputs under the window's position ``w``, one for each output position."""
        starts = [i * by for i, by in zip(w, self.dilation, strict=True)]
        return self.strided(lhs, starts, self.positions, self.strides)

    def at_output(self, lhs: jax.Array, p: Sizes) -> jax.Array:
        """Return the inputs under the window of the output at ``p``."""
        starts = [i * by for i, by in zip(p, self.strides, strict=True)]
        return self.strided(lhs, starts, self.window, self.dilation)

    def row_starts(self, dim: int) -> list[int]:
        """Return the output position at which each row of the window is over the first input."""
        return [self.padding[dim][0] - i * self.dilation[dim] for i in range(self.window[dim])]

    def result(self, found: jax.Array) -> jax.Array:
        """Transpose batch, feature and positions to the dimensions of the result."""
        return lax.transpose(found, [self.out_spec.index(dim) for dim in range(found.ndim)])


def pad(x: jax.Array, padding: dict[int, tuple[int, int]]) -> jax.Array:
    """Put zeros before and after the given dimensions, or cut off where a number is negative."""
    if not any(map(any, padding.values())):
        return x
    return lax.pad(x, jnp.zeros((), x.dtype), [(*padding.get(dim, (0, 0)), 0) for dim in range(x.ndim)])


def interleave(parts: dict[Sizes, jax.Array], strides: Sizes) -> jax.Array:
    """Put ``parts[phase]`` at ``phase``, ``phase + stride``, ... of every dimension."""
    for dim in reversed(range(len(strides))):
        outer = {phase[:dim] for phase in parts}
        parts = {phase: _merge([parts[*phase, i] for i in range(strides[dim])], dim) for phase in outer}
    return parts[()]


def _merge(parts: list[jax.Array], dim: int) -> jax.Array:
    if len(parts) == 1:
        return parts[0]
    shape = list(parts[0].shape)
    shape[dim] *= len(parts)
    return jnp.stack(parts, dim + 1).reshape(shape)
