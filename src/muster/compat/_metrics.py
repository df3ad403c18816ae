"""The metrics of ``tf.compat.v1.metrics``: pairs ``(value, update_op)`` over Keras metrics.

The first of a pair is the Keras metric, which an ``EstimatorSpec`` takes, too; the second is its value once
this batch is counted. Both are exact over batches of any sizes, because a metric adds up before it divides.
Arguments follow tensorflow/python/ops/metrics_impl.py.
"""

from typing import Any, TypeAlias

import jax.numpy as jnp

from muster._keras import keras
from muster.compat._arrays import Array, ArrayLike, as_array

Pair: TypeAlias = tuple[Any, Array]


def accuracy(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike = None, name: str = "accuracy"
) -> Pair:
    """How often predictions equal labels.

    Args:
        labels: of any shape and dtype.
        predictions: of the same shape, or with one more axis of size 1.
        weights: of a shape that fits into theirs; 0 leaves a value out.
        name: of the metric's variables.
    """
    labels, predictions = _alike(labels, predictions)
    return _mean(predictions == labels.astype(predictions.dtype), weights, name)


def mean(values: ArrayLike, weights: ArrayLike = None, name: str = "mean") -> Pair:
    """The weighted mean of values of any shape."""
    return _mean(as_array(values), weights, name)


def mean_absolute_error(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike = None, name: str = "mean_absolute_error"
) -> Pair:
    """The mean of ``|predictions - labels|``."""
    labels, predictions = _alike(labels, predictions)
    return _mean(abs(predictions - labels), weights, name)


def mean_squared_error(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike = None, name: str = "mean_squared_error"
) -> Pair:
    """The mean of ``(predictions - labels) ** 2``."""
    labels, predictions = _alike(labels, predictions)
    return _mean(jnp.square(predictions - labels), weights, name)


def root_mean_squared_error(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike = None,
    name: str = "root_mean_squared_error",
) -> Pair:
    """The root of the mean of ``(predictions - labels) ** 2``."""
    return _compared(keras.metrics.RootMeanSquaredError(name=name), labels, predictions, weights)


def auc(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike = None,
    num_thresholds: int = 200,
    curve: str = "ROC",
    name: str = "auc",
    summation_method: str = "trapezoidal",
) -> Pair:
    """The area under the ROC or the precision-recall curve, by thresholds.

    Args:
        labels: 0 and 1, or booleans.
        predictions: in [0, 1], of the same shape.
        weights: of a shape that fits into theirs.
        num_thresholds: how many points the curve has.
        curve: ``"ROC"`` or ``"PR"``.
        name: of the metric's variables.
        summation_method: ``"trapezoidal"``, ``"careful_interpolation"``, ``"minoring"`` or ``"majoring"``.

    Raises:
        ValueError: for trapezoids under the precision-recall curve, which Keras refuses as misleading.
    """
    if curve == "PR" and summation_method == "trapezoidal":
        raise ValueError(
            "The trapezoidal rule overestimates the area under a precision-recall curve and is not offered: "
            "give summation_method='careful_interpolation'."
        )
    method = {"trapezoidal": "interpolation", "careful_interpolation": "interpolation"}
    metric = keras.metrics.AUC(
        num_thresholds, curve, method.get(summation_method, summation_method), name=name
    )
    return _compared(metric, labels, predictions, weights)


def precision(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike = None, name: str = "precision"
) -> Pair:
    """Of the predictions that are not 0, the part whose label is not 0."""
    return _counted(keras.metrics.Precision(name=name), labels, predictions, weights)


def recall(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike = None, name: str = "recall"
) -> Pair:
    """Of the labels that are not 0, the part whose prediction is not 0."""
    return _counted(keras.metrics.Recall(name=name), labels, predictions, weights)


def true_positives(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike = None, name: str = "true_positives"
) -> Pair:
    """The weight of the predictions that are not 0 whose label is not 0."""
    return _counted(keras.metrics.TruePositives(name=name), labels, predictions, weights)


def true_negatives(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike = None, name: str = "true_negatives"
) -> Pair:
    """The weight of the predictions that are 0 whose label is 0."""
    return _counted(keras.metrics.TrueNegatives(name=name), labels, predictions, weights)


def false_positives(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike = None, name: str = "false_positives"
) -> Pair:
    """The weight of the predictions that are not 0 whose label is 0."""
    return _counted(keras.metrics.FalsePositives(name=name), labels, predictions, weights)


def false_negatives(
    labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike = None, name: str = "false_negatives"
) -> Pair:
    """The weight of the predictions that are 0 whose label is not 0."""
    return _counted(keras.metrics.FalseNegatives(name=name), labels, predictions, weights)


def _mean(values: Array, weights: ArrayLike, name: str) -> Pair:
    metric = keras.metrics.Mean(name=name)
    values = jnp.asarray(values, "float32")
    metric.update_state(values.ravel(), _flat_weights(weights, values.shape))
    return metric, metric.result()


def _counted(metric: Any, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike) -> Pair:
    return _compared(metric, as_array(labels).astype(bool), as_array(predictions).astype(bool), weights)


def _compared(metric: Any, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike) -> Pair:
    """Update a Keras metric value by value, so that weights count for single values."""
    labels, predictions = _alike(labels, predictions)
    flat = _flat_weights(weights, predictions.shape)
    metric.update_state(
        jnp.asarray(labels, "float32").ravel(), jnp.asarray(predictions, "float32").ravel(), flat
    )
    return metric, metric.result()


def _alike(labels: ArrayLike, predictions: ArrayLike) -> tuple[Array, Array]:
    """Labels and predictions in one shape: one of them may have a last axis of size 1 more."""
    labels, predictions = as_array(labels), as_array(predictions)
    if labels.ndim == predictions.ndim + 1 and labels.shape[-1] == 1:
        labels = labels.squeeze(-1)
    elif predictions.ndim == labels.ndim + 1 and predictions.shape[-1] == 1:
        predictions = predictions.squeeze(-1)
    if labels.shape != predictions.shape:
        raise ValueError(
            f"Labels of shape {labels.shape} and predictions of shape {predictions.shape} cannot be "
            "compared: bring them into one shape."
        )
    return labels, predictions


def _flat_weights(weights: ArrayLike, shape: tuple[int, ...]) -> Array | None:
    return None if weights is None else jnp.broadcast_to(as_array(weights), shape).ravel()
