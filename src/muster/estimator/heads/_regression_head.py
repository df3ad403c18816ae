"""A head for models that predict numbers."""

import numbers
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from muster._keras import keras
from muster.estimator._estimator_spec import DEFAULT_SIGNATURE, ExportOutput, PredictOutput, RegressionOutput
from muster.estimator.heads._head import Head, labels_like_logits
from muster.feature_column import Features, NumericColumn

PREDICTIONS = "predictions"
_AVERAGE_LOSS, _LABEL_MEAN, _PREDICTION_MEAN = "average_loss", "label/mean", "prediction/mean"


class RegressionHead(Head):
    """Predicts the logits themselves, and minimizes their squared errors.

    Args:
        label_dimension: How many numbers an example's label has.
        weight_column: As for `Head`; weights are for examples, or for single numbers.
        loss_reduction: As for `Head`.

    Raises:
        TypeError: As for `Head`.
        ValueError: The dimension is not positive, or as for `Head`.

    Source: ``RegressionHead`` (tensorflow_estimator/python/estimator/head/regression_head.py).
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: str | NumericColumn | None = None,
        loss_reduction: str = "sum_over_batch_size",
    ) -> None:
        whole = isinstance(label_dimension, numbers.Integral) and not isinstance(label_dimension, bool)
        if not whole or label_dimension < 1:
            raise ValueError(f"Invalid label_dimension {label_dimension}. It must be an integer >= 1.")
        super().__init__(int(label_dimension), weight_column, loss_reduction)

    def predictions(self, logits: jax.Array) -> dict[str, jax.Array]:
        """Return ``predictions``: float32 of shape (batch, label_dimension)."""
        return {PREDICTIONS: self.checked_logits(logits)}

    def export_outputs(self, predictions: Mapping[str, jax.Array]) -> dict[str, ExportOutput]:
        """Return the signatures ``regression``, which is the default, and ``predict``."""
        regression = RegressionOutput(predictions[PREDICTIONS])
        return {
            DEFAULT_SIGNATURE: regression,
            "regression": regression,
            "predict": PredictOutput(predictions),
        }

    def metrics(self) -> dict[str, Any]:
        """Return metrics for the weighted means of the losses, the labels and the predictions."""
        return {
            name: keras.metrics.Mean(name=name.replace("/", "_"), dtype="float32")
            for name in (_AVERAGE_LOSS, _LABEL_MEAN, _PREDICTION_MEAN)
        }

    def update_metrics(
        self, eval_metrics: Mapping[str, Any], features: Features, logits: jax.Array, labels: Any
    ) -> None:
        """Add a batch to the metrics."""
        logits = self.checked_logits(logits)
        weights = jnp.broadcast_to(self.weights(features, logits), logits.shape)
        for name, values in (
            (_AVERAGE_LOSS, self.unweighted_loss(logits, labels)),
            (_LABEL_MEAN, labels_like_logits(labels, logits)),
            (_PREDICTION_MEAN, self.predictions(logits)[PREDICTIONS]),
        ):
            eval_metrics[name].update_state(values, sample_weight=weights)

    def unweighted_loss(self, logits: jax.Array, labels: Any) -> jax.Array:
        """Return the squared errors: float32 of shape (batch, label_dimension)."""
        return jnp.square(logits - labels_like_logits(labels, logits))
