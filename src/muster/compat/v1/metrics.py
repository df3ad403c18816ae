"""The metrics of ``tf.compat.v1.metrics``: pairs ``(value, update_op)`` over Keras metrics.

The first of a pair is the Keras metric, which an ``EstimatorSpec`` takes, too; the second is its value once
this batch is counted. Both are exact over batches of any sizes, because a metric adds up before it divides.
Arguments follow tensorflow/python/ops/metrics_impl.py.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax.numpy as jnp

from muster._keras import keras
from muster.compat.ops._arrays import Array, ArrayLike, as_array
from muster.compat.v1._naming import named_after

Pair: TypeAlias = tuple[Any, Array]


def _averaged(values_of: Callable[[Array, Array], Array]) -> Callable[..., Pair]:
    """The metric that is the mean of what a function says of each label and its prediction."""

    def average(
        labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike = None, name: str = values_of.__name__
    ) -> Pair:
        return _mean(values_of(*_alike(labels, predictions)), weights, name)

    return named_after(values_of, average)


@_averaged
def accuracy(labels: Array, predictions: Array) -> Array:
    """How often predictions equal labels.

    Args:
        labels: of any shape and dtype.
        predictions: of the same shape, or with one more axis of size 1.
        weights: of a shape that fits into theirs; 0 leaves a value out.
        name: of the metric's variables.
    """
    return predictions == labels.astype(predictions.dtype)


@_averaged
def mean_absolute_error(labels: Array, predictions: Array) -> Array:
    """The mean of ``|predictions - labels|``; arguments as for `accuracy`."""
    return abs(predictions - labels)


@_averaged
def mean_squared_error(labels: Array, predictions: Array) -> Array:
    """The mean of ``(predictions - labels) ** 2``; arguments as for `accuracy`."""
    return jnp.square(predictions - labels)


def mean(values: ArrayLike, weights: ArrayLike = None, name: str = "mean") -> Pair:
    """The weighted mean of values of any shape."""
    return _mean(as_array(values), weights, name)


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


def _counted(function: str, metric: Callable[..., Any], doc: str) -> Callable[..., Pair]:
    """The metric that asks of labels and predictions only whether they are 0."""

    def count(
        labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike = None, name: str = function
    ) -> Pair:
        labels, predictions = as_array(labels).astype(bool), as_array(predictions).astype(bool)
        return _compared(metric(name=name), labels, predictions, weights)

    count.__name__ = count.__qualname__ = function
    count.__doc__ = doc
    return count


precision = _counted(
    "precision", keras.metrics.Precision, "Of the predictions that are not 0, the part whose label is not 0."
)
recall = _counted(
    "recall", keras.metrics.Recall, "Of the labels that are not 0, the part whose prediction is not 0."
)
true_positives = _counted(
    "true_positives",
    keras.metrics.TruePositives,
    "The weight of the predictions that are not 0 whose label is not 0.",
)
true_negatives = _counted(
    "true_negatives",
    keras.metrics.TrueNegatives,
    "The weight of the predictions that are 0 whose label is 0.",
)
false_positives = _counted(
    "false_positives",
    keras.metrics.FalsePositives,
    "The weight of the predictions that are not 0 whose label is 0.",
)
false_negatives = _counted(
    "false_negatives",
    keras.metrics.FalseNegatives,
    "The weight of the predictions that are 0 whose label is not 0.",
)


def _mean(values: Array, weights: ArrayLike, name: str) -> Pair:
    metric = keras.metrics.Mean(name=name)
    values = jnp.asarray(values, "float32")
    metric.update_state(values.ravel(), _flat_weights(weights, values.shape))
    return metric, metric.result()


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
