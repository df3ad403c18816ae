"""``tf.compat.v1.metrics``: pairs ``(value, update_op)`` over Keras metrics.

``value`` is the Keras metric, which an ``EstimatorSpec`` takes; ``update_op`` is the metric's result, shape
(), including this batch. Results are exact for batches of different sizes: sums are kept, not means.
Arguments follow tensorflow/python/ops/metrics_impl.py.
"""

import logging
from collections.abc import Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from muster import keras
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array
from muster_tensorflow.library.ops.arrays._chosen import mask_as_weights
from muster_tensorflow.library.ops.math._math import abs as absolute
from muster_tensorflow.library.ops.math._math import cast, equal
from muster_tensorflow.programs.v1._collections import GraphKeys
from muster_tensorflow.programs.v2._variable import (
    Variable,
    VariableAggregation,
    VariableSynchronization,
    created_in,
)

_log = logging.getLogger(__name__)

Pair: TypeAlias = tuple[keras.Metric, jax.Array]


class _Area(keras.metrics.AUC):  # type: ignore[misc]
    """The area under a curve of sums to which TensorFlow 1 adds a little, where Keras leaves out zeros.

    So the area is 1 where there are no positive labels.

    Source: tensorflow/python/ops/metrics_impl.py, ``compute_auc``.
    """

    def result(self) -> jax.Array:
        """Return the area."""
        tp, fn = jnp.asarray(self.true_positives.value), jnp.asarray(self.false_negatives.value)
        tn, fp = jnp.asarray(self.true_negatives.value), jnp.asarray(self.false_positives.value)
        recall = (tp + _LITTLE) / (tp + fn + _LITTLE)
        if self.curve.value == "ROC":
            x, y = fp / (fp + tn + _LITTLE), recall
        else:
            x, y = recall, (tp + _LITTLE) / (tp + fp + _LITTLE)
        pairs = y[:-1], y[1:]
        match self.summation_method.value:
            case "minoring":
                heights = jnp.minimum(*pairs)
            case "majoring":
                heights = jnp.maximum(*pairs)
            case _:
                heights = (pairs[0] + pairs[1]) / 2
        return jnp.sum((x[:-1] - x[1:]) * heights)


_LITTLE = 1e-6


def metric_variable(
    shape: Sequence[int], dtype: DTypeLike, validate_shape: bool = True, name: str | None = None
) -> keras.Variable:
    """Return a variable of zeros for a metric of one's own: each evaluation begins it anew.

    Args:
        shape: Its shape.
        dtype: Its dtype.
        validate_shape: Unused.
        name: Its name.

    Source: tensorflow/python/ops/metrics_impl.py, ``metric_variable``.
    """
    with created_in([GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES]):
        return Variable(
            np.zeros(shape, np.dtype(dtype)),
            trainable=False,
            name=name,
            synchronization=VariableSynchronization.ON_READ,
            aggregation=VariableAggregation.SUM,
        )


@mask_as_weights
def accuracy(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "accuracy",
) -> Pair:
    """Return how often predictions equal labels, whose dtype they get: 0.7 is 0 for labels of integers.

    Args:
        labels: Labels of any shape and dtype.
        predictions: Predictions of the same shape, or with one more axis of size 1.
        weights: Weights that broadcast to the labels; 0 leaves a value out.
        metrics_collections: Unused.
        updates_collections: Unused.
        name: The prefix of the metric's variables.
    """
    labels, predictions = same_shape(labels, predictions)
    return mean(equal(cast(predictions, labels.dtype), labels), weights, name=name)


@mask_as_weights
def mean_absolute_error(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "mean_absolute_error",
) -> Pair:
    """Return the mean of ``|predictions - labels|``; arguments as for `accuracy`."""
    labels, predictions = same_shape(labels, predictions)
    return mean(absolute(predictions - labels), weights, name=name)


@mask_as_weights
def mean_squared_error(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "mean_squared_error",
) -> Pair:
    """Return the mean of ``(predictions - labels) ** 2``; arguments as for `accuracy`."""
    labels, predictions = same_shape(labels, predictions)
    return mean(jnp.square(predictions - labels), weights, name=name)


@mask_as_weights
def mean(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "mean",
) -> Pair:
    """Return the weighted mean of values of any shape."""
    metric = keras.metrics.Mean(name=name)
    values = jnp.asarray(as_array(values), "float32")
    metric.update_state(values.ravel(), flat_weights(weights, values.shape))
    return metric, metric.result()


@mask_as_weights
def root_mean_squared_error(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "root_mean_squared_error",
) -> Pair:
    """Return the root of the mean of ``(predictions - labels) ** 2``; arguments as for `accuracy`."""
    return _compared(keras.metrics.RootMeanSquaredError(name=name), labels, predictions, weights)


@mask_as_weights
def auc(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: object = None,
    updates_collections: object = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Sequence[float] | None = None,
) -> Pair:
    """Return the area under the ROC or the precision-recall curve, computed at thresholds.

    Args:
        labels: 0 and 1, or booleans.
        predictions: Numbers in [0, 1], of the same shape.
        weights: Weights that broadcast to the labels.
        num_thresholds: The number of points on the curve.
        metrics_collections: Unused.
        updates_collections: Unused.
        curve: ``"ROC"`` or ``"PR"``.
        name: The prefix of the metric's variables; None is ``"auc"``.
        summation_method: ``"trapezoidal"``, ``"careful_interpolation"``, ``"minoring"`` or ``"majoring"``.
            The first is wrong for the curve ``"PR"``, which takes the second.
        thresholds: The points between the first and the last one; None for points at equal distances.
    """
    if curve == "PR" and summation_method == "trapezoidal":
        _log.warning(
            "The trapezoidal rule overestimates the area under a precision-recall curve: %s is computed with "
            "summation_method='careful_interpolation'.",
            name or "auc",
        )
    method = {"trapezoidal": "interpolation", "careful_interpolation": "interpolation"}
    metric = (keras.metrics.AUC if summation_method in method and curve == "PR" else _Area)(
        num_thresholds,
        curve,
        method.get(summation_method, summation_method),
        name=name or "auc",
        thresholds=None if thresholds is None else list(thresholds),
    )
    return _compared(metric, labels, predictions, weights)


@mask_as_weights
def precision(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "precision",
) -> Pair:
    """Return the fraction of nonzero predictions whose label is nonzero; arguments as for `accuracy`."""
    return _counted(keras.metrics.Precision(name=name), labels, predictions, weights)


@mask_as_weights
def recall(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "recall",
) -> Pair:
    """Return the fraction of nonzero labels whose prediction is nonzero; arguments as for `accuracy`."""
    return _counted(keras.metrics.Recall(name=name), labels, predictions, weights)


@mask_as_weights
def true_positives(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "true_positives",
) -> Pair:
    """Sum the weights of nonzero predictions whose label is nonzero; arguments as for `accuracy`."""
    return _counted(keras.metrics.TruePositives(name=name), labels, predictions, weights)


@mask_as_weights
def true_negatives(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "true_negatives",
) -> Pair:
    """Sum the weights of zero predictions whose label is zero; arguments as for `accuracy`."""
    return _counted(keras.metrics.TrueNegatives(name=name), labels, predictions, weights)


@mask_as_weights
def false_positives(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "false_positives",
) -> Pair:
    """Sum the weights of nonzero predictions whose label is zero; arguments as for `accuracy`."""
    return _counted(keras.metrics.FalsePositives(name=name), labels, predictions, weights)


@mask_as_weights
def false_negatives(
    labels: ArrayLike,
    predictions: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "false_negatives",
) -> Pair:
    """Sum the weights of zero predictions whose label is nonzero; arguments as for `accuracy`."""
    return _counted(keras.metrics.FalseNegatives(name=name), labels, predictions, weights)


def _counted(
    metric: keras.Metric, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None
) -> Pair:
    """Update a Keras metric with booleans: whether labels and predictions are nonzero."""
    return _compared(metric, as_array(labels).astype(bool), as_array(predictions).astype(bool), weights)


def _compared(
    metric: keras.Metric, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None
) -> Pair:
    """Update a Keras metric value by value, so that weights count for single values."""
    labels, predictions = same_shape(labels, predictions)
    flat = flat_weights(weights, predictions.shape)
    metric.update_state(
        jnp.asarray(labels, "float32").ravel(), jnp.asarray(predictions, "float32").ravel(), flat
    )
    return metric, metric.result()


def same_shape(labels: ArrayLike, predictions: ArrayLike) -> tuple[Array, Array]:
    """Bring labels and predictions into one shape: drop a last axis of size 1 that only one of them has."""
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


def flat_weights(weights: ArrayLike | None, shape: tuple[int, ...]) -> jax.Array | None:
    """Return a weight for each value of a shape; see `spread_weights`."""
    return None if weights is None else spread_weights(weights, shape).ravel()


def spread_weights(weights: ArrayLike, shape: tuple[int, ...]) -> jax.Array:
    """Broadcast weights to a shape; they may lack its last axis, or have one more, of size 1.

    Source: ``_remove_squeezable_dimensions`` (tensorflow/python/ops/metrics_impl.py).
    """
    given = as_array(weights)
    if given.ndim == len(shape) + 1 and given.shape[-1] == 1:
        given = given.squeeze(-1)
    elif given.ndim and given.ndim == len(shape) - 1:
        given = given[..., None]
    return jnp.broadcast_to(given, shape)
