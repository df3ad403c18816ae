"""``tf.compat.v1.losses``: losses reduced to one number per batch.

The default reduction divides the weighted sum by the number of weights other than 0. `get_losses` returns the
losses of a model_fn so far, `get_regularization_losses` the penalties, and `get_total_loss` the sum of both.
Arguments follow tensorflow/python/ops/losses/losses_impl.py and util.py.
"""

import functools
import inspect
import re
from collections.abc import Callable

import jax
import jax.numpy as jnp

from muster.extend import penalties, ratio
from muster.program import trainable_variables
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array
from muster_tensorflow.library.ops._value_names import name_value, numbered, path_of
from muster_tensorflow.library.ops.arrays._chosen import mask_as_weights
from muster_tensorflow.library.ops.nn._nn import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from muster_tensorflow.programs.v1._collections import GraphKeys, get_losses, note_loss


class Reduction:
    """Ways to reduce the losses of a batch; NONE returns them weighted, in their shape."""

    NONE = "none"
    SUM = "weighted_sum"
    MEAN = "weighted_mean"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    SUM_OVER_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Return all ways."""
        return (
            cls.NONE,
            cls.SUM,
            cls.MEAN,
            cls.SUM_OVER_BATCH_SIZE,
            cls.SUM_OVER_NONZERO_WEIGHTS,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )

    @classmethod
    def validate(cls, key: str) -> None:
        """Check that there is such a way.

        Raises:
            ValueError: There is none.
        """
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key: {key}. Give one of {cls.all()}.")


@mask_as_weights
def compute_weighted_loss(
    losses: ArrayLike,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> jax.Array:
    """Multiply losses by weights, and reduce them.

    Args:
        losses: Losses of any shape.
        weights: A number, or an array that broadcasts to the losses.
        scope: What hooks call the loss, followed by ``/value``.
        loss_collection: The collection that the loss is added to; None for none.
        reduction: One of those in `Reduction`.

    Raises:
        ValueError: There is no such reduction, or the weights do not broadcast to the losses.
    """
    values, factors = jnp.asarray(as_array(losses)), as_array(weights)
    if not jnp.issubdtype(values.dtype, jnp.floating):
        values = values.astype(jnp.float32)
    if factors.ndim > values.ndim or any(
        mine not in (1, theirs) for mine, theirs in zip(factors.shape[::-1], values.shape[::-1], strict=False)
    ):
        raise ValueError(f"weights of shape {factors.shape} cannot be broadcast to losses of {values.shape}.")
    factors = jnp.broadcast_to(factors, values.shape).astype(values.dtype)
    loss = _reduced(values * factors, factors, reduction)
    name = f"{numbered(scope or 'weighted_loss')}/value"
    name_value(name, loss)
    note_loss(path_of(name) or name, loss, loss_collection)
    return loss


def _reduced(weighted: jax.Array, factors: jax.Array, reduction: str) -> jax.Array:
    match reduction:
        case Reduction.NONE:
            return weighted
        case Reduction.SUM:
            return jnp.sum(weighted)
        case Reduction.MEAN:
            return ratio(jnp.sum(weighted), jnp.sum(factors))
        case Reduction.SUM_OVER_BATCH_SIZE:
            return jnp.sum(weighted) / weighted.size
        case Reduction.SUM_BY_NONZERO_WEIGHTS:
            return ratio(jnp.sum(weighted), jnp.sum(factors != 0))
    raise ValueError(f"Invalid Reduction Key {reduction}. Give one of tf.compat.v1.losses.Reduction.")


@mask_as_weights
def sparse_softmax_cross_entropy(
    labels: ArrayLike,
    logits: ArrayLike,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> jax.Array:
    """Reduce the softmax cross entropy of integer labels and logits.

    Args:
        labels: Class indices, shape (batch,) or (batch, 1).
        logits: Float, shape (batch, classes).
        weights: A number, or an array of shape (batch,) or (batch, 1).
        scope: What hooks call the loss, followed by ``/value``.
        loss_collection: The collection that the loss is added to; None for none.
        reduction: One of those in `Reduction`.
    """
    labels, logits = as_array(labels), as_array(logits)
    if labels.ndim == logits.ndim and labels.shape[-1] == 1:
        labels = labels.squeeze(-1)
    losses = sparse_softmax_cross_entropy_with_logits(labels, logits)
    weights = as_array(weights)
    if weights.ndim == losses.ndim + 1 and weights.shape[-1] == 1:
        weights = weights.squeeze(-1)
    return compute_weighted_loss(
        losses, weights, scope or "sparse_softmax_cross_entropy_loss", loss_collection, reduction
    )


def _loss(values_of: Callable[..., Array]) -> Callable[..., jax.Array]:
    """Make a loss of a function: weight and reduce the function's values.

    The loss takes the function's arguments, with ``weights`` after the first two, and then the other
    arguments of `compute_weighted_loss`.
    """
    first, second, *rest = inspect.signature(values_of).parameters.values()
    _, weights, *others = inspect.signature(compute_weighted_loss).parameters.values()
    signature = inspect.Signature([first, second, weights, *rest, *others])

    @functools.wraps(values_of)
    def loss(*args: ArrayLike, **kwargs: ArrayLike) -> jax.Array:
        arguments = signature.bind(*args, **kwargs).arguments
        names = [each.name for each in (first, second, *rest) if each.name in arguments]
        values = values_of(**{name: arguments.pop(name) for name in names})
        arguments.setdefault("scope", _scope_of(values_of.__name__))
        return compute_weighted_loss(values, **arguments)

    loss.__signature__ = signature  # type: ignore[attr-defined]  # what help() shows
    return mask_as_weights(loss)


def _scope_of(name: str) -> str:
    """Return the name of a loss in TensorFlow's graphs, such as ``softmax_cross_entropy_loss``."""
    bare = ("mean_squared_error", "absolute_difference")
    return name if name in bare or name.endswith("_loss") else f"{name}_loss"


@_loss
def softmax_cross_entropy(
    onehot_labels: ArrayLike, logits: ArrayLike, label_smoothing: float = 0.0
) -> jax.Array:
    """Reduce the softmax cross entropy of class probabilities and logits, both of shape (batch, classes).

    Gradients treat the probabilities as constants.
    """
    logits = as_array(logits)
    labels = jax.lax.stop_gradient(as_array(onehot_labels, logits.dtype))
    smooth = labels * (1 - label_smoothing) + label_smoothing / labels.shape[-1]
    return softmax_cross_entropy_with_logits(smooth, logits)


@_loss
def sigmoid_cross_entropy(
    multi_class_labels: ArrayLike, logits: ArrayLike, label_smoothing: float = 0.0
) -> jax.Array:
    """Reduce the binary cross entropy of each label in [0, 1] and its logit, both of one shape."""
    logits = as_array(logits)
    smooth = as_array(multi_class_labels, logits.dtype) * (1 - label_smoothing) + label_smoothing / 2
    return sigmoid_cross_entropy_with_logits(smooth, logits)


@_loss
def mean_squared_error(labels: ArrayLike, predictions: ArrayLike) -> jax.Array:
    """Reduce ``(predictions - labels) ** 2``, by default to the mean squared error."""
    labels, predictions = _same_shape(labels, predictions)
    return jnp.square(predictions - labels)


@_loss
def absolute_difference(labels: ArrayLike, predictions: ArrayLike) -> jax.Array:
    """Reduce ``|predictions - labels|``, by default to the mean absolute error."""
    labels, predictions = _same_shape(labels, predictions)
    return jnp.abs(predictions - labels)


@_loss
def hinge_loss(labels: ArrayLike, logits: ArrayLike) -> jax.Array:
    """Reduce ``max(0, 1 - logits)`` of labels 1, and ``max(0, 1 + logits)`` of labels 0."""
    labels, logits = _same_shape(labels, logits)
    return jax.nn.relu(1 - (2 * labels - 1) * logits)


@_loss
def log_loss(labels: ArrayLike, predictions: ArrayLike, epsilon: float = 1e-7) -> jax.Array:
    """Reduce the binary cross entropy of labels and probabilities, to which ``epsilon`` is added."""
    labels, predictions = _same_shape(labels, predictions)
    other = (1 - labels) * jnp.log(1 - predictions + epsilon)
    return -labels * jnp.log(predictions + epsilon) - other


@_loss
def huber_loss(labels: ArrayLike, predictions: ArrayLike, delta: float = 1.0) -> jax.Array:
    """Reduce half the squares of errors up to ``delta``, which beyond it go on as a straight line."""
    labels, predictions = _same_shape(labels, predictions)
    error = jnp.abs(predictions - labels)
    near = jnp.minimum(error, delta)
    return 0.5 * near * near + delta * (error - near)


def cosine_distance(
    labels: ArrayLike,
    predictions: ArrayLike,
    axis: int | None = None,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
    dim: int | None = None,
) -> jax.Array:
    """Reduce one minus the product of vectors, which have the length 1, summed along an axis.

    Args:
        labels: Vectors, float.
        predictions: Vectors, of the same shape.
        axis: The axis of their components, which stays with the size 1.
        weights: A number, or an array that broadcasts to the losses.
        scope: What hooks call the loss, followed by ``/value``.
        loss_collection: The collection that the loss is added to; None for none.
        reduction: One of those in `Reduction`.
        dim: The old name of ``axis``.

    Raises:
        ValueError: There is no axis.
    """
    along = dim if axis is None else axis
    if along is None:
        raise ValueError("You must specify 'axis'.")
    labels, predictions = _same_shape(labels, predictions)
    losses = 1 - jnp.sum(labels * predictions, along, keepdims=True)
    return compute_weighted_loss(losses, weights, scope or "cosine_distance_loss", loss_collection, reduction)


def get_regularization_losses(scope: str | None = None) -> list[jax.Array]:
    """Return the regularization losses of the variables and layers that the model_fn has created so far.

    Args:
        scope: A regular expression that the start of a variable's or layer's path must match; None takes all.

    Returns:
        A float array of shape () for each trainable variable that has a regularizer, and for each call of a
        layer of ``tf.compat.v1.layers`` with an ``activity_regularizer``.

    Raises:
        TraceError: No model_fn is being traced.
    """
    of_variables = [(v.path, v.regularizer(v)) for v in trainable_variables() if v.regularizer is not None]
    found = [*of_variables, *penalties()]
    return [value for path, value in found if scope is None or re.match(scope, path)]


def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> jax.Array:
    """Return the sum of `get_regularization_losses`, shape (); 0.0 if there are none.

    Args:
        scope: As in `get_regularization_losses`.
        name: Unused.
    """
    return sum(get_regularization_losses(scope), start=jnp.float32(0))


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> jax.Array:
    """Return the sum of the losses that `get_losses` returns, and of the penalties, shape ().

    Args:
        add_regularization_losses: Whether to add `get_regularization_losses`.
        name: What hooks call it.
        scope: As in `get_losses`.

    Raises:
        TraceError: No model_fn is being traced.
    """
    losses = get_losses(scope)
    if add_regularization_losses:
        losses += get_regularization_losses(scope)
    total: jax.Array = sum(losses, start=jnp.float32(0))
    name_value(name, total)
    return total


def mean_pairwise_squared_error(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
) -> jax.Array:
    """Compare, in each example, the differences of all pairs of predictions with those of the labels.

    Args:
        labels: Float, shape (batch, …).
        predictions: Of the same shape.
        weights: A number, or one for each example.
        scope: What hooks call the loss, followed by ``/value``.
        loss_collection: The collection that the loss is added to; None for none.

    Source: tensorflow/python/ops/losses/losses_impl.py, ``mean_pairwise_squared_error``.
    """
    labels, predictions = _same_shape(labels, predictions)
    errors = (predictions - labels).reshape(labels.shape[0], -1)
    count = errors.shape[1]
    pairs = max(count - 1, 1)
    losses = 2 * jnp.sum(errors**2, 1) / pairs - 2 * jnp.sum(errors, 1) ** 2 / (count * pairs)
    factors = jnp.broadcast_to(jnp.asarray(as_array(weights)).reshape(-1), losses.shape)
    return compute_weighted_loss(
        losses, factors, scope or "mean_pairwise_squared_error", loss_collection, Reduction.SUM
    )


def _same_shape(labels: ArrayLike, predictions: ArrayLike) -> tuple[jax.Array, jax.Array]:
    predictions = jnp.asarray(as_array(predictions))
    labels = jnp.asarray(as_array(labels), predictions.dtype)
    if labels.shape != predictions.shape:
        # Broadcasting (batch,) against (batch, 1) would compare every example with every other.
        raise ValueError(
            f"Labels and predictions must have one shape, got {labels.shape} and {predictions.shape}. "
            "Reshape one of them in the model_fn, as by tf.reshape(labels, predictions.shape)."
        )
    return labels, predictions
