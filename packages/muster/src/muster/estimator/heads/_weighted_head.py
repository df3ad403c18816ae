"""The base class of heads with optional example weights and a custom loss."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp

from muster._ratios import ratio
from muster.estimator._model_fn import argument_names
from muster.estimator.heads._head import MEAN, OVER_WEIGHTED, OVER_WEIGHTS, Head
from muster.feature_column import Features, NumericColumn, numeric_column


class WeightedHead(Head):
    """A head for one kind of label, with a loss for each example.

    Args:
        logits_dimension: As for `Head`.
        weight_column: The key or numeric column of the examples' weights; None weighs all alike.
        loss_reduction: As for `Head`.
        loss_fn: Called with ``labels``, ``logits`` and, if it names them, ``features``; returns the loss of
            each example. None takes the head's own.
        name: As for `Head`.

    Raises:
        TypeError: The weight column is neither a key nor a numeric column.
        ValueError: The loss_fn lacks an argument, or as for `Head`.
    """

    def __init__(
        self,
        logits_dimension: int,
        weight_column: str | NumericColumn | None,
        loss_reduction: str,
        loss_fn: Callable[..., Any] | None,
        name: str | None,
    ) -> None:
        super().__init__(logits_dimension, loss_reduction, name)
        if isinstance(weight_column, str):
            weight_column = numeric_column(weight_column)
        if not (weight_column is None or isinstance(weight_column, NumericColumn)):
            raise TypeError(
                f"Weight column must be either a string or NumericColumn. Given type: {type(weight_column)}."
            )
        self._weight_column = weight_column
        self._loss_fn = _checked_loss_fn(loss_fn)

    @property
    def feature_keys(self) -> frozenset[str]:
        """The keys of the features that the head reads."""
        return frozenset(() if self._weight_column is None else (self._weight_column.key,))

    def weighted_by(self, weight_column: NumericColumn) -> Self:
        """Return a copy of the head that reads other weights."""
        head = copy.copy(self)
        head._weight_column = weight_column
        return head

    @abstractmethod
    def unweighted_loss(self, logits: jax.Array, labels: Any, features: Features) -> jax.Array:
        """Return the loss of each example: float32 of shape (batch, ..., 1) or that of the logits.

        Args:
            logits: As `checked_logits` returns them.
            labels: The labels of the batch, as numbers.
            features: The features of the batch, for a ``loss_fn``.

        Raises:
            ValueError: There are no labels, or they have a wrong shape or are out of range.
        """

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Features | None = None,
        mode: str | None = None,
        regularization_losses: Sequence[jax.Array] | None = None,
    ) -> jax.Array:
        """Return the sum of the examples' losses, each times its weight, or its mean; see `Head.loss`."""
        logits, features = self.checked_logits(logits), {} if features is None else features
        losses = self.unweighted_loss(logits, labels, features)
        weights = jnp.broadcast_to(self.weights(features, logits), losses.shape)
        loss = jnp.sum(losses * weights)
        if self.loss_reduction == MEAN:  # as in TensorFlow: not by the sum of the weights
            loss = loss / losses.size
        elif self.loss_reduction == OVER_WEIGHTS:
            loss = ratio(loss, weights.sum())
        elif self.loss_reduction == OVER_WEIGHTED:
            loss = ratio(loss, jnp.sum(weights != 0))
        return loss + sum(regularization_losses or ())

    def weights(self, features: Features, logits: jax.Array) -> jax.Array:
        """Return the weights of a batch: float32 of shape (), (batch, ..., 1) or that of the logits.

        Raises:
            ValueError: They are missing, or have another shape.
        """
        if self._weight_column is None:
            return jnp.ones((), "float32")
        weights: jax.Array = self._weight_column.values(features)
        if weights.shape not in ((*logits.shape[:-1], 1), *self.weight_shapes(logits)):
            raise ValueError(
                "weights shape must be [D0, D1, ... DN], [D0, D1, ... DN, 1] or, for regression, "
                f"[D0, D1, ... DN, logits_dimension], logits_shape: {logits.shape}. weights_shape: "
                f"{weights.shape}."
            )
        return weights

    def weight_shapes(self, logits: jax.Array) -> tuple[tuple[int, ...], ...]:
        """Return the shapes that weights may have besides one for each example."""
        return ()


def losses_of(
    loss_fn: Callable[..., Any], labels: Any, logits: jax.Array, features: Features, last: int
) -> jax.Array:
    """Call a head's ``loss_fn``, and return the losses: shape (batch, ..., last).

    Raises:
        ValueError: It returns another shape.
    """
    extra = {"features": features} if "features" in argument_names(loss_fn) else {}
    losses = jnp.asarray(loss_fn(labels=labels, logits=logits, **extra))
    if losses.shape != (*logits.shape[:-1], last):
        raise ValueError(
            f"('loss_fn must return Tensor of shape [D0, D1, ... DN, {last}]. ', 'logits_shape: ', "
            f"{logits.shape}, 'loss_shape: ', {losses.shape})"
        )
    return losses


def _checked_loss_fn(loss_fn: Callable[..., Any] | None) -> Callable[..., Any] | None:
    if loss_fn is None:
        return None
    if not callable(loss_fn):
        raise ValueError(f"loss_fn must be a function of labels and logits, given: {loss_fn!r}.")
    names = argument_names(loss_fn)
    if missing := [name for name in ("labels", "logits") if name not in names]:
        raise ValueError(f"loss_fn must contain argument: {missing[0]}. Given arguments: {names}")
    return loss_fn
