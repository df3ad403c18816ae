"""The losses of ``tf.compat.v1.losses``: one number for a batch.

The default reduction divides the weighted sum by the number of weights that are not 0. Losses are not
collected, but for penalties of variables and of layers' outputs, which a model_fn adds to its loss itself.
Arguments follow tensorflow/python/ops/losses/losses_impl.py and util.py.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from muster.compat.ops import _nn
from muster.compat.ops._arrays import Array, ArrayLike, as_array
from muster.compat.v1._naming import named_after
from muster.program import penalties, trainable_variables


class Reduction:
    """How a loss becomes one number."""

    NONE = "none"
    SUM = "weighted_sum"
    MEAN = "weighted_mean"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    SUM_OVER_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"


def compute_weighted_loss(
    losses: ArrayLike,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: Any = None,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Array:
    """Weight losses and reduce them.

    Args:
        losses: of any shape.
        weights: a number, or of a shape that fits into that of the losses.
        scope: unused.
        loss_collection: unused.
        reduction: one of those in `Reduction`.

    Raises:
        ValueError: if there is no such reduction.
    """
    values = as_array(losses)
    factors = jnp.broadcast_to(as_array(weights), values.shape).astype(values.dtype)
    weighted = values * factors
    match reduction:
        case Reduction.NONE:
            return weighted
        case Reduction.SUM:
            return jnp.sum(weighted)
        case Reduction.MEAN:
            return _ratio(jnp.sum(weighted), jnp.sum(factors))
        case Reduction.SUM_OVER_BATCH_SIZE:
            return jnp.sum(weighted) / values.size
        case Reduction.SUM_BY_NONZERO_WEIGHTS:
            return _ratio(jnp.sum(weighted), jnp.sum(factors != 0))
    raise ValueError(f"Invalid Reduction Key {reduction}. Give one of tf.compat.v1.losses.Reduction.")


def sparse_softmax_cross_entropy(
    labels: ArrayLike,
    logits: ArrayLike,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: Any = None,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Array:
    """The cross entropy of class numbers, of shape (batch,) or (batch, 1), and logits (batch, classes)."""
    labels, logits = as_array(labels), as_array(logits)
    if labels.ndim == logits.ndim and labels.shape[-1] == 1:
        labels = labels.squeeze(-1)
    losses = _nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    weights = as_array(weights)
    if weights.ndim == losses.ndim + 1 and weights.shape[-1] == 1:
        weights = weights.squeeze(-1)
    return compute_weighted_loss(losses, weights, reduction=reduction)


def _loss(values_of: Callable[..., Array]) -> Callable[..., Array]:
    """The loss that weighs and reduces the values of a function.

    Its arguments are the function's, with ``weights`` after the first two, and then all others of
    `compute_weighted_loss`.
    """
    own = list(inspect.signature(values_of).parameters.values())
    _, weights, *others = inspect.signature(compute_weighted_loss).parameters.values()
    signature = inspect.Signature([*own[:2], weights, *own[2:], *others])

    def loss(*args: Any, **kwargs: Any) -> Array:
        given = signature.bind(*args, **kwargs).arguments
        values = values_of(**{each.name: given.pop(each.name) for each in own if each.name in given})
        return compute_weighted_loss(values, **given)

    loss.__signature__ = signature  # type: ignore[attr-defined]  # what help() shows
    return named_after(values_of, loss)


@_loss
def softmax_cross_entropy(onehot_labels: ArrayLike, logits: ArrayLike, label_smoothing: float = 0.0) -> Array:
    """The cross entropy of class probabilities and logits, both of shape (batch, classes)."""
    logits = as_array(logits)
    labels = as_array(onehot_labels, logits.dtype)
    smooth = labels * (1 - label_smoothing) + label_smoothing / labels.shape[-1]
    return _nn.softmax_cross_entropy_with_logits(smooth, logits)


@_loss
def sigmoid_cross_entropy(
    multi_class_labels: ArrayLike, logits: ArrayLike, label_smoothing: float = 0.0
) -> Array:
    """The cross entropy of probabilities and logits, one by one."""
    logits = as_array(logits)
    smooth = as_array(multi_class_labels, logits.dtype) * (1 - label_smoothing) + label_smoothing / 2
    return _nn.sigmoid_cross_entropy_with_logits(smooth, logits)


@_loss
def mean_squared_error(labels: ArrayLike, predictions: ArrayLike) -> Array:
    """The mean of ``(predictions - labels) ** 2``."""
    labels, predictions = _same_shape(labels, predictions)
    return jnp.square(predictions - labels)


@_loss
def absolute_difference(labels: ArrayLike, predictions: ArrayLike) -> Array:
    """The mean of ``|predictions - labels|``."""
    labels, predictions = _same_shape(labels, predictions)
    return jnp.abs(predictions - labels)


def get_regularization_losses(scope: str | None = None) -> list[Array]:
    """The penalties of what the model_fn has built so far, such as by ``kernel_regularizer``.

    Args:
        scope: a regular expression; only what has a path that starts with a match counts. None takes all.

    Returns:
        A float array of shape () for each trainable variable that has a regularizer, and for each call of a
        layer of ``tf.compat.v1.layers`` with an ``activity_regularizer``.

    Raises:
        TraceError: outside of a model_fn.
    """
    of_variables = [(v.path, v.regularizer(v)) for v in trainable_variables() if v.regularizer is not None]
    found = [*of_variables, *penalties()]
    return [value for path, value in found if scope is None or re.match(scope, path)]


def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Array:
    """The sum of `get_regularization_losses`, shape (); 0.0 if there are none.

    Args:
        scope: as there.
        name: unused.
    """
    return sum(get_regularization_losses(scope), start=jnp.float32(0))


def _same_shape(labels: ArrayLike, predictions: ArrayLike) -> tuple[Array, Array]:
    predictions = jnp.asarray(as_array(predictions))
    labels = jnp.asarray(as_array(labels), predictions.dtype)
    if labels.shape != predictions.shape:
        # Broadcasting (batch,) against (batch, 1) would compare every example with every other.
        raise ValueError(
            f"Labels of shape {labels.shape} and predictions of shape {predictions.shape} must have one."
        )
    return labels, predictions


def _ratio(total: Array, count: Array) -> Array:
    """The ratio; 0 where nothing was counted."""
    return jnp.where(count == 0, 0.0, total / jnp.where(count == 0, 1, count))
