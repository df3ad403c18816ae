"""Depthwise convolutions, in which each feature has a kernel of its own, and their gradients.

XLA's CPU compiler computes them one element at a time, or by a library that was made for many features a
group. Here shifted images are multiplied with the kernel's positions and added, in loops over features.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from muster.cpu._convolution_shapes import Convolution, Sizes, interleave, pad

MAX_POSITIONS = 49
"""Above so many positions in a kernel the program would be large, and its compilation slow."""
TERMS = 8
"""So many blocks of a batch are multiplied and added in one loop for a kernel's gradient. The rest is added
by a library, which is fast, but needs the products in memory: they are this many times smaller."""
MAX_TERMS = 100
"""A kernel's gradient multiplies at most so many blocks, those of all of its positions together: more would
make its program large."""

Operands = Callable[[jax.Array, jax.Array], jax.Array]


def depthwise(
    conv: Convolution,
    dilation: Sizes,
    lhs: jax.core.ShapedArray,
    rhs: jax.core.ShapedArray,
    feature_groups: int,
    batch_groups: int,
) -> Operands | None:
    """Choose how to compute a convolution with groups; see ``Chooser``.

    Args:
        conv: The convolution. Its strides are one where the input is dilated.
        dilation: That of the input, one entry for each spatial dimension.
        lhs: The aval of the images; in the gradient of a kernel with batch and feature exchanged.
        rhs: The aval of the kernel, or of the gradient of the result.
        feature_groups: As many as features, else JAX's way is kept.
        batch_groups: Likewise, in the gradient of a kernel.
    """
    last, dilated = lhs.ndim - 1, any(d > 1 for d in dilation)
    features = rhs.shape[conv.rhs_spec[0]]
    if (
        feature_groups == features == lhs.shape[conv.lhs_spec[1]]
        and conv.lhs_spec == conv.out_spec
        and conv.lhs_spec[1] == last
        and math.prod(conv.window) <= MAX_POSITIONS
        and not (dilated and any(s > 1 for s in conv.strides))
    ):
        return partial(_dilated_input, conv, dilation) if dilated else partial(_convolution, conv)
    if (
        batch_groups == features == lhs.shape[conv.lhs_spec[0]]
        and conv.lhs_spec == conv.rhs_spec
        and conv.lhs_spec[0] == last
        and math.prod(conv.positions) <= MAX_POSITIONS
        and not dilated
    ):
        return partial(_kernel_gradient, conv)
    return None


def _at_positions(conv: Convolution, rhs: jax.Array) -> dict[Sizes, jax.Array]:
    """Return the factors of all features at each position of a kernel."""
    kernel = lax.transpose(rhs, (*conv.rhs_spec[2:], *conv.rhs_spec[:2]))
    return {w: kernel[*w, :, 0] for w in itertools.product(*map(range, conv.window))}


def _sum(terms: Iterable[jax.Array]) -> jax.Array:
    return functools.reduce(lax.add, terms)


def _convolution(conv: Convolution, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    # Without the barriers each of the products would compute what the images come from, and the margin, and
    # each of the results' uses the products.
    lhs = lax.optimization_barrier(conv.padded(lhs))
    kernel = _at_positions(conv, rhs)
    found: jax.Array = lax.optimization_barrier(_sum(conv.at_window(lhs, w) * kernel[w] for w in kernel))
    return found


def _dilated_input(conv: Convolution, dilation: Sizes, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Compute the gradient of a strided convolution's input: the positions of each phase by themselves.

    With zeros between its elements the input's element ``q`` is at ``q * d``. So at ``r + m * d`` the result
    has the products of the positions ``w`` of the kernel for which ``r + w - low`` is a multiple of ``d``.
    """
    kernel = _at_positions(conv, rhs)
    counts = tuple(-(-size // d) for size, d in zip(conv.positions, dilation, strict=True))

    def first(phase: Sizes, w: Sizes) -> list[int] | None:
        """Return the input's element that the phase's first position multiplies with the kernel at w."""
        places = [
            r + i * by - low for r, i, by, (low, _) in zip(phase, w, conv.dilation, conv.padding, strict=True)
        ]
        if any(place % d for place, d in zip(places, dilation, strict=True)):
            return None
        return [place // d for place, d in zip(places, dilation, strict=True)]

    phases = list(itertools.product(*map(range, dilation)))
    starts = {(phase, w): first(phase, w) for phase in phases for w in kernel}
    there = [start for start in starts.values() if start is not None]
    around = {
        dim: (-min(0, *(start[i] for start in there)),
              max(0, *(start[i] + counts[i] - lhs.shape[dim] for start in there)))
        for i, dim in enumerate(conv.lhs_spec[2:])
    }  # fmt: skip
    padded = lax.optimization_barrier(pad(lhs, around))
    before = [low for low, _ in around.values()]
    none = jnp.zeros((lhs.shape[conv.lhs_spec[0]], *counts, lhs.shape[conv.lhs_spec[1]]), lhs.dtype)
    found = {}
    for phase in phases:
        terms = [
            conv.strided(padded, [a + b for a, b in zip(start, before, strict=True)], counts, (1,) * len(w))
            * kernel[w]
            for w in kernel
            if (start := starts[phase, w]) is not None
        ]
        found[0, *phase, 0] = _sum(terms) if terms else none
    whole = interleave(found, (1, *dilation, 1))
    result: jax.Array = lax.optimization_barrier(whole[:, *map(slice, conv.positions)])
    return result


def _kernel_gradient(conv: Convolution, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Compute the gradient of a kernel: for each of its positions a sum over batch and image.

    Blocks of the batch are added to each other first, features last.
    """
    batch, positions = lhs.shape[0], list(itertools.product(*map(range, conv.positions)))
    terms = max(1, min(TERMS, MAX_TERMS // len(positions), batch))
    rest = {0: (0, -batch % terms)}
    lhs, rhs = lax.optimization_barrier((pad(conv.padded(lhs), rest), pad(rhs, rest)))
    blocks = [(a, b) for a, b in zip(jnp.split(lhs, terms), jnp.split(rhs, terms), strict=True)]

    def at(position: Sizes) -> jax.Array:
        products = _sum(conv.at_output(a, position) * b for a, b in blocks)
        rows = products.reshape(-1, products.shape[-1])
        return lax.dot(jnp.ones((1, rows.shape[0]), rows.dtype), rows, precision=lax.Precision.HIGHEST)

    found = jnp.stack([at(position) for position in positions], -1)
    return conv.result(found.reshape(*found.shape[:2], *conv.positions))
