"""Heads for models that predict numbers: any, shares, or how often something happens."""

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.estimator._estimator_spec import DEFAULT_SIGNATURE, ExportOutput, PredictOutput, RegressionOutput
from muster.estimator.heads._class_heads import LOGITS, sigmoid_cross_entropy
from muster.estimator.heads._head import Metrics, chosen, mean
from muster.estimator.heads._labels import is_text, labels_like_logits, range_factor
from muster.estimator.heads._weighted_head import WeightedHead, losses_of
from muster.feature_column import Features, NumericColumn

PREDICTIONS = "predictions"
_AVERAGE_LOSS, _LABEL_MEAN, _PREDICTION_MEAN = "average_loss", "label/mean", "prediction/mean"


class RegressionHead(WeightedHead):
    """Predicts numbers, the logits themselves, and minimizes their squared errors.

    Args:
        label_dimension: How many numbers an example's label has.
        weight_column: As for `WeightedHead`; weights are for examples, or for single numbers.
        loss_reduction: As for `Head`.
        loss_fn: As for `WeightedHead`; returns shape (batch, label_dimension).
        inverse_link_fn: Called with logits of shape (batch, label_dimension), returns predictions of that
            shape; None predicts the logits.
        name: As for `Head`.

    Raises:
        TypeError: As for `WeightedHead`.
        ValueError: The dimension is not positive, or as for `WeightedHead`.

    Source: ``RegressionHead`` (tensorflow_estimator/python/estimator/head/regression_head.py).
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: str | NumericColumn | None = None,
        loss_reduction: str = "sum_over_batch_size",
        loss_fn: Callable[..., Any] | None = None,
        inverse_link_fn: Callable[[jax.Array], jax.Array] | None = None,
        name: str | None = None,
    ) -> None:
        whole = isinstance(label_dimension, numbers.Integral) and not isinstance(label_dimension, bool)
        if not whole or label_dimension < 1:
            raise ValueError(f"Invalid label_dimension {label_dimension}. It must be an integer >= 1.")
        super().__init__(int(label_dimension), weight_column, loss_reduction, loss_fn, name)
        self._inverse_link_fn = inverse_link_fn

    def predictions(self, logits: jax.Array, keys: Sequence[str] | None = None) -> dict[str, Any]:
        """Return ``predictions``: float32 of shape (batch, label_dimension); with a link, ``logits`` too."""
        logits = self.checked_logits(logits)
        if self._inverse_link_fn is None:
            return chosen({PREDICTIONS: logits}, keys)
        return chosen({PREDICTIONS: self._inverse_link_fn(logits), LOGITS: logits}, keys)

    def export_outputs(self, predictions: Mapping[str, Any]) -> dict[str, ExportOutput]:
        """Return the signatures ``regression``, which is the default, and ``predict``."""
        regression = RegressionOutput(predictions[PREDICTIONS])
        return {
            DEFAULT_SIGNATURE: regression,
            "regression": regression,
            "predict": PredictOutput(predictions),
        }

    def own_metrics(self) -> Metrics:
        """Return metrics for the weighted means of the losses, the labels and the predictions."""
        names = (_AVERAGE_LOSS, _LABEL_MEAN, _PREDICTION_MEAN)
        return {self.key(name): self.metric(name, mean) for name in names}

    def update_own_metrics(self, eval_metrics: Metrics, features: Features, logits: Any, labels: Any) -> None:
        """Add a batch to the metrics."""
        logits = self.checked_logits(logits)
        weights = jnp.broadcast_to(self.weights(features, logits), logits.shape)
        for name, values in (
            (_AVERAGE_LOSS, self.unweighted_loss(logits, labels, features)),
            (_LABEL_MEAN, _float_labels(labels, logits)),
            (_PREDICTION_MEAN, self.predictions(logits)[PREDICTIONS]),
        ):
            eval_metrics[self.key(name)].update_state(values, sample_weight=weights)

    def unweighted_loss(self, logits: jax.Array, labels: Any, features: Features) -> jax.Array:
        """Return the loss of each number: float32 of shape (batch, ..., label_dimension)."""
        labels = _float_labels(labels, logits)
        if self._loss_fn is not None:
            return losses_of(self._loss_fn, labels, logits, features, self.logits_dimension)
        return self.losses(labels, logits)

    def losses(self, labels: jax.Array, logits: jax.Array) -> jax.Array:
        """Return the squared errors; labels and result have the shape of the logits."""
        return jnp.square(logits - labels)

    def weight_shapes(self, logits: jax.Array) -> tuple[tuple[int, ...], ...]:
        """Return the shape of the logits: single numbers may have weights."""
        return (logits.shape,)


def _float_labels(labels: Any, logits: jax.Array) -> jax.Array:
    """Return labels as float32 in the shape of logits."""
    labels = labels_like_logits(labels, logits)
    if is_text(labels):
        raise ValueError(f"Labels must be numbers. Instead got {labels.dtype}.")
    return jnp.asarray(labels, "float32")


class LogisticRegressionHead(RegressionHead):
    """Predicts a number between 0 and 1, the sigmoid of the logit, and minimizes the cross entropy.

    Args:
        weight_column: As for `RegressionHead`.
        loss_reduction: As for `Head`.
        name: As for `Head`.

    Raises:
        TypeError: As for `RegressionHead`.
        ValueError: As for `RegressionHead`.

    Source: ``LogisticRegressionHead`` (tensorflow_estimator/python/estimator/head/regression_head.py).
    """

    def __init__(
        self,
        weight_column: str | NumericColumn | None = None,
        loss_reduction: str = "sum_over_batch_size",
        name: str | None = None,
    ) -> None:
        super().__init__(1, weight_column, loss_reduction, None, jax.nn.sigmoid, name)

    def losses(self, labels: jax.Array, logits: jax.Array) -> jax.Array:
        """Return the cross entropies; labels and result have the shape of the logits.

        Raises:
            DatasetError: A label is not between 0 and 1.
        """
        factor = range_factor(labels, 2, "Labels must be in range [0, 1]")
        return sigmoid_cross_entropy(labels, logits) * factor


class PoissonRegressionHead(RegressionHead):
    """Predicts counts, the exponentials of the logits, and minimizes their negative Poisson likelihood.

    Labels are counts, or other numbers that are not negative.

    Args:
        label_dimension: As for `RegressionHead`.
        weight_column: As for `RegressionHead`.
        loss_reduction: As for `Head`.
        compute_full_loss: Whether the loss has Stirling's approximation of the logarithm of the label's
            factorial, which does not depend on the model.
        name: As for `Head`.

    Raises:
        TypeError: As for `RegressionHead`.
        ValueError: As for `RegressionHead`.

    Source: ``PoissonRegressionHead`` (tensorflow_estimator/python/estimator/head/regression_head.py).
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: str | NumericColumn | None = None,
        loss_reduction: str = "sum_over_batch_size",
        compute_full_loss: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(label_dimension, weight_column, loss_reduction, None, jnp.exp, name)
        self._compute_full_loss = compute_full_loss

    def losses(self, labels: jax.Array, logits: jax.Array) -> jax.Array:
        """Return the negative logarithm of the likelihood; labels and result have the shape of the logits."""
        losses = jnp.exp(logits) - labels * logits
        if not self._compute_full_loss:
            return losses
        several = jnp.maximum(labels, 1)  # the approximation is for labels above 1, and 0 for others
        factorials = several * jnp.log(several) - several + 0.5 * jnp.log(2 * np.pi * several)
        return losses + jnp.where(labels > 1, factorials, 0.0)
