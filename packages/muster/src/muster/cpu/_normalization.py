"""Layer and batch normalization whose sums kernels compute, in one pass over the rows."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from muster.cpu._kernels import with_kernel


def _rows(shape: Sequence[int]) -> tuple[int, int]:
    return math.prod(shape[:-1]), shape[-1]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def layer_norm(epsilon: float, x: jax.Array, gamma: jax.Array, beta: jax.Array) -> jax.Array:
    """Normalize rows: subtract the mean, divide by the deviation, multiply by ``gamma``, add ``beta``.

    It can be differentiated twice, but not by ``jax.jvp``.

    Args:
        epsilon: What is added to the variance.
        x: ``[examples, ..., features]``, float32 as the others.
        gamma: ``[features]``.
        beta: ``[features]``.

    Returns:
        As ``x``.

    Source: keras/src/ops/nn.py, ``_layer_normalization``; results differ by rounding.
    """
    return _layer_forward(epsilon, x, gamma, beta)[0]


def _layer_forward(
    epsilon: float, x: jax.Array, gamma: jax.Array, beta: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    def plan(x: Sequence[int], *others: object) -> tuple[int, ...]:
        return *_rows(x), int(np.float32(epsilon).view(np.int32))

    def plain(x: jax.Array, gamma: jax.Array, beta: jax.Array) -> tuple[jax.Array, jax.Array]:
        mean = jnp.mean(x, -1, keepdims=True)
        scale = lax.rsqrt(jnp.var(x, -1, keepdims=True) + epsilon)
        return (x - mean) * scale * gamma + beta, jnp.concatenate([mean, scale], -1)

    axes = (0, None, None), (0, 0)
    result, statistics = with_kernel("layer_norm_forward", plan, plain, axes, x, gamma, beta)
    return result, (x, gamma, statistics)


def _layer_backward(
    epsilon: float, residuals: tuple[jax.Array, ...], gradient: jax.Array
) -> tuple[jax.Array, ...]:
    def plan(x: Sequence[int], *others: object) -> tuple[int, ...]:
        return _rows(x)

    def plain(
        x: jax.Array, gamma: jax.Array, statistics: jax.Array, gradient: jax.Array
    ) -> tuple[jax.Array, ...]:
        mean, scale = statistics[..., :1], statistics[..., 1:]
        normal, of_normal = (x - mean) * scale, gradient * gamma
        of_mean = jnp.mean(of_normal, -1, keepdims=True)
        of_scale = normal * jnp.mean(of_normal * normal, -1, keepdims=True)
        rows = range(x.ndim - 1)
        of_gamma, of_beta = jnp.sum(gradient * normal, rows), jnp.sum(gradient, rows)
        return scale * (of_normal - of_mean - of_scale), of_gamma, of_beta

    axes = (0, None, 0, 0), (0, None, None)
    return tuple(with_kernel("layer_norm_backward", plan, plain, axes, *residuals, gradient))


layer_norm.defvjp(_layer_forward, _layer_backward)


@jax.custom_vjp
def moments(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return mean and variance of each feature.

    They can be differentiated twice, but not by ``jax.jvp``.

    Args:
        x: ``[examples, ..., features]``, float32.

    Returns:
        Two arrays, ``[features]``.
    """

    def plain(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        rows = range(x.ndim - 1)
        return jnp.mean(x, rows), jnp.var(x, rows)

    mean, variance = with_kernel("moments", _rows, plain, None, x)
    return mean, variance


def _moments_forward(x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    mean, variance = moments(x)
    return (mean, variance), (x, mean)


def _moments_backward(
    residuals: tuple[jax.Array, jax.Array], gradients: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array]:
    x, mean = residuals
    count = _rows(x.shape)[0]
    of_mean, of_variance = gradients
    return (of_mean / count + (x - mean) * (of_variance * (2 / count)),)


moments.defvjp(_moments_forward, _moments_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def batch_norm(
    epsilon: float, x: jax.Array, mean: jax.Array, variance: jax.Array, offset: jax.Array, scale: jax.Array
) -> jax.Array:
    """Normalize features by a mean and a variance, multiply by ``scale``, add ``offset``.

    It can be differentiated twice, but not by ``jax.jvp``.

    Args:
        epsilon: What is added to the variance.
        x: ``[examples, ..., features]``, float32 as the others.
        mean: ``[features]``.
        variance: ``[features]``.
        offset: ``[features]``.
        scale: ``[features]``.

    Returns:
        As ``x``.

    Source: keras/src/backend/jax/nn.py, ``batch_normalization``.
    """
    factor = lax.rsqrt(variance + epsilon) * scale
    return x * factor + (offset - mean * factor)


def _batch_forward(epsilon: float, *operands: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    x, mean, variance, _, scale = operands
    return batch_norm(epsilon, *operands), (x, mean, variance, scale)


def _batch_backward(
    epsilon: float, residuals: tuple[jax.Array, ...], gradient: jax.Array
) -> tuple[jax.Array, ...]:
    x, mean, variance, scale = residuals

    def plain(x: jax.Array, gradient: jax.Array, mean: jax.Array) -> tuple[jax.Array, jax.Array]:
        rows = range(x.ndim - 1)
        return jnp.sum(gradient, rows), jnp.sum(gradient * (x - mean), rows)

    def plan(x: Sequence[int], *others: object) -> tuple[int, int]:
        return _rows(x)

    axes: Any = (0, 0, None), (None, None)
    total, by_distance = with_kernel("weighted_sums", plan, plain, axes, x, gradient, mean)
    part = lax.rsqrt(variance + epsilon)
    factor = part * scale
    of_variance = by_distance * factor * part * part * -0.5
    return gradient * factor, -total * factor, of_variance, total, by_distance * part


batch_norm.defvjp(_batch_forward, _batch_backward)
