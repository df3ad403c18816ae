"""Attention whose weights are never stored: oneDNN computes it, some queries of one head at a time."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.cpu._kernels import with_kernel

_NO_ATTENTION = -0.7 * float(np.finfo(np.float32).max)  # as in jax.nn.dot_product_attention


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def attention(
    scale: float, causal: bool, query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None
) -> jax.Array:
    """Compute attention: for each query the mean of the values, weighted by the softmax of its logits.

    The logits are products of the query and the keys. It can be differentiated twice, but not by ``jax.jvp``.

    Args:
        scale: What the logits are multiplied by.
        causal: Whether a query sees the sources up to its own place only.
        query: ``[batch, time, heads, features]``, float32 as all but the mask.
        key: ``[batch, sources, heads, features]``.
        value: As ``key``.
        mask: ``[batch or 1, heads or 1, time or 1, sources]``, bool: whether a query sees a source. None
            means that each sees all.

    Returns:
        ``[batch, time, heads, features]``.

    Source: jax/_src/nn/functions.py, ``dot_product_attention``; results differ in the order of additions.
    """
    return _with_residuals(scale, causal, query, key, value, mask)[0]


def _plain(
    scale: float, causal: bool, query: jax.Array, key: jax.Array, value: jax.Array, *added: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the result, the weights and the statistics of each query: largest logit, 1 by the sum."""
    logits = jnp.einsum("btnh,bsnh->bnts", query, key) * scale
    for each in added:
        logits = jnp.where(each == 0, logits, _NO_ATTENTION)
    if causal:
        logits = jnp.where(jnp.tril(jnp.ones(logits.shape[2:], bool)), logits, -jnp.inf)
    largest = jnp.max(logits, axis=-1, keepdims=True)
    powers = jnp.exp(logits - largest)
    part = 1 / jnp.sum(powers, axis=-1, keepdims=True)
    weights = powers * part
    return jnp.einsum("bnts,bsnh->btnh", weights, value), weights, jnp.concatenate([largest, part], axis=-1)


def _plan(
    scale: float, causal: bool, query: Sequence[int], key: Sequence[int], *others: Any
) -> tuple[int, ...]:
    bits = int(np.float32(scale).view(np.int32))
    batch, time, heads, features = query
    masks = others[-1][:3] if len(others) in (2, 5) else (0, 0, 0)
    return batch, time, key[1], heads, features, bits, int(causal), *masks


def _axes(operands: int, added: Sequence[jax.Array]) -> list[int | None]:
    """Return the batch axes of some operands, and of what is added to logits."""
    return [0] * operands + [0 if each.shape[0] > 1 else None for each in added]


def _with_residuals(
    scale: float, causal: bool, query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None
) -> tuple[jax.Array, tuple[Any, ...]]:
    if causal and mask is not None:  # a query that no source is left for sees all of them alike
        mask, causal = mask & jnp.tril(jnp.ones((query.shape[1], key.shape[1]), bool)), False
    added = () if mask is None else (jnp.where(mask, 0.0, _NO_ATTENTION),)

    def plain(*operands: jax.Array) -> tuple[jax.Array, ...]:
        result, _, statistics = _plain(scale, causal, *operands)
        return result, statistics

    operands = query, key, value, *added
    axes = _axes(3, added), (0, 0)
    plan = partial(_plan, scale, causal)
    result, statistics = with_kernel("attention_forward", plan, plain, axes, *operands)
    return result, (query, key, value, added, result, statistics)


def _backward(scale: float, causal: bool, residuals: tuple[Any, ...], gradient: jax.Array) -> tuple[Any, ...]:
    query, key, value, added, result, statistics = residuals
    causal = causal and not added  # else the masks say it

    def plain(
        query: jax.Array, key: jax.Array, value: jax.Array, *others: jax.Array
    ) -> tuple[jax.Array, ...]:
        result, gradient, _, *added = others
        _, weights, _ = _plain(scale, causal, query, key, value, *added)
        of_weights = jnp.einsum("btnh,bsnh->bnts", gradient, value)
        of_result = jnp.einsum("btnh,btnh->bnt", gradient, result)
        of_logits = weights * (of_weights - of_result[..., jnp.newaxis]) * scale
        for each in added:
            of_logits = jnp.where(each == 0, of_logits, 0)
        return (
            jnp.einsum("bnts,bsnh->btnh", of_logits, key),
            jnp.einsum("bnts,btnh->bsnh", of_logits, query),
            jnp.einsum("bnts,btnh->bsnh", weights, gradient),
        )

    operands = query, key, value, result, gradient, statistics, *added
    axes = _axes(6, added), (0, 0, 0)
    plan = partial(_plan, scale, causal)
    return (*with_kernel("attention_backward", plan, plain, axes, *operands), None)


attention.defvjp(_with_residuals, _backward)
