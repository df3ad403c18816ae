"""What ``tf.nn`` has for model functions. ``name`` is accepted everywhere and means nothing."""

from typing import Any

import jax
import jax.numpy as jnp

from muster.compat.ops._arrays import Array, ArrayLike, Axis, as_array, as_axis


def relu(features: ArrayLike, name: str | None = None) -> Array:
    """``max(x, 0)``."""
    return jax.nn.relu(as_array(features))


def relu6(features: ArrayLike, name: str | None = None) -> Array:
    """``min(max(x, 0), 6)``."""
    return jax.nn.relu6(as_array(features))


def elu(features: ArrayLike, name: str | None = None) -> Array:
    """``x`` above zero, ``exp(x) - 1`` below."""
    return jax.nn.elu(as_array(features))


def leaky_relu(features: ArrayLike, alpha: float = 0.2, name: str | None = None) -> Array:
    """``x`` above zero, ``alpha * x`` below."""
    return jax.nn.leaky_relu(as_array(features), alpha)


def gelu(features: ArrayLike, approximate: bool = False, name: str | None = None) -> Array:
    """``x`` times the probability that a standard normal value is below it."""
    return jax.nn.gelu(as_array(features), approximate)


def softplus(features: ArrayLike, name: str | None = None) -> Array:
    """``log(1 + exp(x))``."""
    return jax.nn.softplus(as_array(features))


def softmax(logits: ArrayLike, axis: int = -1, name: str | None = None) -> Array:
    """Probabilities: ``exp(x)`` divided by its sum along the axis."""
    return jax.nn.softmax(as_array(logits), axis)


def log_softmax(logits: ArrayLike, axis: int = -1, name: str | None = None) -> Array:
    """The logarithm of `softmax`."""
    return jax.nn.log_softmax(as_array(logits), axis)


def l2_loss(t: ArrayLike, name: str | None = None) -> Array:
    """Half the sum of the squares."""
    return jnp.sum(jnp.square(as_array(t))) / 2


def l2_normalize(x: ArrayLike, axis: Axis = None, epsilon: float = 1e-12, name: str | None = None) -> Array:
    """The values divided by their Euclidean norm along the axes."""
    value = as_array(x)
    total = jnp.sum(jnp.square(value), axis=as_axis(axis), keepdims=True)
    return value * jax.lax.rsqrt(jnp.maximum(total, epsilon))


def moments(x: ArrayLike, axes: Any, keepdims: bool = False, name: str | None = None) -> tuple[Array, Array]:
    """Mean and variance over axes."""
    value, axis = as_array(x), as_axis(axes)
    return jnp.mean(value, axis, keepdims=keepdims), jnp.var(value, axis, keepdims=keepdims)


def embedding_lookup(params: ArrayLike, ids: ArrayLike, name: str | None = None) -> Array:
    """The rows of a table: (rows, width) at ids of shape S gives (\\*S, width)."""
    return jnp.take(as_array(params), as_array(ids), axis=0)


def in_top_k(targets: ArrayLike, predictions: ArrayLike, k: int, name: str | None = None) -> Array:
    """Whether each target is among the ``k`` highest predictions; a tie counts for the target.

    Args:
        targets: indices, shape (batch,).
        predictions: scores, shape (batch, classes).
        k: how many.
        name: unused.
    """
    scores = as_array(predictions)
    own = jnp.take_along_axis(scores, as_array(targets)[:, None], axis=1)
    return jnp.sum(scores > own, axis=1) < k


def top_k(input: ArrayLike, k: int = 1, sorted: bool = True, name: str | None = None) -> tuple[Array, Array]:
    """The ``k`` largest values along the last axis, and where they are."""
    values, indices = jax.lax.top_k(as_array(input), k)
    return values, indices


def softmax_cross_entropy_with_logits(
    labels: ArrayLike, logits: ArrayLike, axis: int = -1, name: str | None = None
) -> Array:
    """The cross entropy of class probabilities and logits.

    Args:
        labels: probabilities, in the shape of the logits.
        logits: float, shape (…, classes).
        axis: that of the classes.
        name: unused.

    Returns:
        The shape of the logits without that axis: not reduced.

    Source: tensorflow/python/ops/nn_ops.py, ``softmax_cross_entropy_with_logits_v2``.
    """
    logits = as_array(logits)
    return -jnp.sum(as_array(labels, logits.dtype) * jax.nn.log_softmax(logits, axis), axis)


def sparse_softmax_cross_entropy_with_logits(
    labels: ArrayLike, logits: ArrayLike, name: str | None = None
) -> Array:
    """The cross entropy of class numbers and logits.

    Args:
        labels: integers below the number of classes, shape (…); others give NaN.
        logits: float, shape (…, classes).
        name: unused.

    Returns:
        The shape of the labels: not reduced.

    Source: tensorflow/python/ops/nn_ops.py, ``sparse_softmax_cross_entropy_with_logits``.
    """
    scores = jax.nn.log_softmax(as_array(logits))
    index = as_array(labels, "int32")[..., None]
    own = jnp.take_along_axis(scores, index, axis=-1, mode="fill")[..., 0]
    return -jnp.where(index[..., 0] >= 0, own, jnp.nan)


def sigmoid_cross_entropy_with_logits(labels: ArrayLike, logits: ArrayLike, name: str | None = None) -> Array:
    """The cross entropy of probabilities and logits, one by one; the shape of the logits.

    Source: tensorflow/python/ops/nn_impl.py, ``sigmoid_cross_entropy_with_logits``.
    """
    logits = as_array(logits)
    return jax.nn.softplus(logits) - logits * as_array(labels, logits.dtype)
