"""``tf.contrib.metrics.f1_score``."""

from typing import Any

import jax
import jax.numpy as jnp

from muster import keras
from muster_tensorflow.library.ops._arrays import ArrayLike
from muster_tensorflow.programs.v1.metrics import Pair, flat_weights, same_shape


class _BestF1(keras.metrics.Metric):  # type: ignore[misc]  # keras is untyped
    """The best F1 score at any of some thresholds."""

    def __init__(self, thresholds: list[float], name: str) -> None:
        super().__init__(name=name)
        self._precision = keras.metrics.Precision(thresholds=thresholds, name="precision")
        self._recall = keras.metrics.Recall(thresholds=thresholds, name="recall")

    def update_state(self, labels: Any, predictions: Any, weights: Any = None) -> None:
        """Count a batch."""
        self._precision.update_state(labels, predictions, weights)
        self._recall.update_state(labels, predictions, weights)

    def result(self) -> jax.Array:
        """Return the score."""
        precision, recall = jnp.asarray(self._precision.result()), jnp.asarray(self._recall.result())
        return jnp.max(2 * precision * recall / jnp.maximum(precision + recall, 1e-7))

    def reset_state(self) -> None:
        """Count from zero."""
        self._precision.reset_state()
        self._recall.reset_state()


def f1_score(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "f1",
) -> Pair:
    """Return the best F1 score of probabilities at any of some thresholds.

    Source: tensorflow/contrib/metrics/python/metrics/classification.py, ``f1_score``.
    """
    labels, predictions = same_shape(labels, predictions)
    inner = [(number + 1) / (num_thresholds - 1) for number in range(num_thresholds - 2)]
    metric = _BestF1([0.0, *inner, 1.0], name)
    metric.update_state(
        jnp.asarray(labels, "float32").ravel(),
        jnp.asarray(predictions, "float32").ravel(),
        flat_weights(weights, predictions.shape),
    )
    return metric, metric.result()
