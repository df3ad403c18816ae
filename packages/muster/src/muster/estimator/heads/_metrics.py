"""Metrics of heads, under TensorFlow's names."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from muster._keras import keras

Metrics = dict[str, keras.metrics.Metric]


class AccuracyBaseline(keras.metrics.Mean):  # type: ignore[misc]
    """The accuracy of always answering the more frequent of two classes: of labels, which are 0 or 1."""

    def result(self) -> jax.Array:
        """Return the larger share of the two classes; 0 if there were no labels, or none with a weight."""
        share = super().result()
        return jnp.where(self.count > 0, jnp.maximum(share, 1 - share), 0.0)


def mean(name: str) -> keras.metrics.Metric:
    """Return a mean."""
    return keras.metrics.Mean(name=name, dtype="float32")


def area_under_curve(curve: str) -> Callable[[str], keras.metrics.Metric]:
    """Return what makes a metric for the area under the ROC or PR curve, computed at 200 thresholds."""
    return lambda name: keras.metrics.AUC(curve=curve, name=name, dtype="float32")


def at_threshold(kind: str, threshold: float) -> Callable[[str], keras.metrics.Metric]:
    """Return what makes an accuracy, precision or recall of which probabilities exceed a threshold."""
    match kind:
        case "accuracy":
            return lambda name: keras.metrics.BinaryAccuracy(name, "float32", threshold)
        case "precision":
            return lambda name: keras.metrics.Precision(threshold, name=name, dtype="float32")
        case _:
            return lambda name: keras.metrics.Recall(threshold, name=name, dtype="float32")


def threshold_key(kind: str, threshold: float) -> str:
    """Return TensorFlow's name of such a metric."""
    return f"{kind}/positive_threshold_{threshold:g}"


def update_flat(metric: keras.metrics.Metric, labels: Any, values: Any, weights: jax.Array) -> None:
    """Add labels and values of one shape to a metric that compares them, each with its weight."""
    weights = jnp.broadcast_to(weights, values.shape)
    metric.update_state(
        jnp.asarray(labels, "float32").ravel(), jnp.asarray(values).ravel(), sample_weight=weights.ravel()
    )
