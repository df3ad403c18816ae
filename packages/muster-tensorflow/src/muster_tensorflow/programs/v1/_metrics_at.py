"""Metrics of ``tf.compat.v1.metrics`` at ranks, at thresholds and of classes: pairs as in `metrics`.

Arguments follow tensorflow/python/ops/metrics_impl.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster import keras
from muster.program import synchronize_metrics
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.library.ops.arrays._chosen import mask_as_weights
from muster_tensorflow.library.ops.arrays._segments import confusion_matrix
from muster_tensorflow.library.ops.math._math import cast
from muster_tensorflow.programs.v1.metrics import Pair, flat_weights, mean, same_shape, spread_weights


class _Ratio(keras.metrics.Metric):  # type: ignore[misc]  # keras is untyped
    """The ratio of two sums; of vectors, the mean of the ratios, where a sum is 0 counting as 0.

    Args:
        name: The prefix of its variables.
        size: The length of the vectors; None for numbers.
        only_counted: Whether ratios of a sum that is 0 are left out of the mean.
    """

    def __init__(self, name: str, size: int | None = None, only_counted: bool = False) -> None:
        super().__init__(name=name)
        self._only_counted = only_counted
        shape = () if size is None else (size,)
        self._top = self.add_weight(shape=shape, initializer="zeros", name="total")
        self._bottom = self.add_weight(shape=shape, initializer="zeros", name="count")

    def update_state(self, top: jax.Array, bottom: jax.Array) -> None:
        """Add to both sums."""
        self._top.assign_add(top)
        self._bottom.assign_add(bottom)

    def result(self) -> jax.Array:
        """Return the ratio."""
        bottom = jnp.asarray(self._bottom.value)
        ratios = jnp.where(bottom > 0, self._top.value / jnp.where(bottom > 0, bottom, 1), 0.0)
        if self._only_counted:
            return ratios.sum() / jnp.maximum((bottom > 0).sum(), 1)
        return jnp.mean(ratios)


class _MeanOfArrays(keras.metrics.Metric):  # type: ignore[misc]
    """The mean of arrays of one shape, each of whose elements counts by its weight."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        super().__init__(name=name)
        self._total = self.add_weight(shape=shape, initializer="zeros", name="total_tensor")
        self._count = self.add_weight(shape=shape, initializer="zeros", name="count_tensor")

    def update_state(self, values: jax.Array, weights: jax.Array) -> None:
        """Add an array."""
        self._total.assign_add(values * weights)
        self._count.assign_add(weights)

    def result(self) -> jax.Array:
        """Return the mean; 0 where nothing counts."""
        count = jnp.asarray(self._count.value)
        return jnp.where(count > 0, self._total.value / jnp.where(count > 0, count, 1), 0.0)


class _MeanDistance(keras.metrics.Mean):  # type: ignore[misc]
    """One minus the mean, which is 1 where nothing counts."""

    def result(self) -> jax.Array:
        """Return it."""
        return jnp.asarray(1 - super().result())


class _SumOfArrays(keras.metrics.Metric):  # type: ignore[misc]
    """The sum of arrays of one shape."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        super().__init__(name=name)
        self._total = self.add_weight(shape=shape, initializer="zeros", name=f"total_{name}")

    def update_state(self, values: jax.Array) -> None:
        """Add an array."""
        self._total.assign_add(values)

    def result(self) -> jax.Array:
        """Return the sum."""
        return jnp.asarray(self._total.value)


def _pair(metric: keras.Metric, *args: Any) -> Pair:
    metric.update_state(*args)
    return metric, metric.result()


@mask_as_weights
def mean_iou(
    labels: ArrayLike,
    predictions: ArrayLike,
    num_classes: int,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "mean_iou",
) -> Pair:
    """Return the mean over classes of intersection over union; arguments as for `accuracy`."""
    labels, predictions = same_shape(labels, predictions)
    flat = flat_weights(weights, labels.shape)
    factors = jnp.ones(labels.size) if flat is None else flat
    wanted, found = (jax.nn.one_hot(jnp.ravel(each), num_classes) for each in (labels, predictions))
    both, either = (
        (combined * factors[:, None]).sum(0) for combined in (wanted * found, jnp.maximum(wanted, found))
    )
    return _pair(_Ratio(name, num_classes, only_counted=True), both, either)


@mask_as_weights
def mean_per_class_accuracy(
    labels: ArrayLike,
    predictions: ArrayLike,
    num_classes: int,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "mean_accuracy",
) -> Pair:
    """Return the mean over classes of the accuracy on their examples; arguments as for `accuracy`."""
    labels, predictions = same_shape(labels, predictions)
    flat = flat_weights(weights, labels.shape)
    kinds = jax.nn.one_hot(jnp.ravel(labels), num_classes)
    kinds = kinds if flat is None else kinds * flat[:, None]
    right = jnp.ravel(jnp.asarray(labels) == cast(predictions, labels.dtype)).astype("float32")
    return _pair(_Ratio(name, num_classes), (kinds * right[:, None]).sum(0), kinds.sum(0))


@mask_as_weights
def streaming_confusion_matrix(
    labels: ArrayLike, predictions: ArrayLike, num_classes: int, weights: ArrayLike | None = None
) -> tuple[jax.Array, jax.Array]:
    """Count predictions by class for labels by class over all batches, and on all replicas.

    Both results include this batch, as float32 of shape (num_classes, num_classes): programs compute
    metrics of each of them.
    Source: tensorflow/python/ops/metrics_impl.py, ``_streaming_confusion_matrix``.
    """
    labels, predictions = same_shape(labels, predictions)
    rows, columns = (jnp.ravel(each).astype("int32") for each in (labels, predictions))
    counts = confusion_matrix(rows, columns, num_classes, flat_weights(weights, labels.shape), "float32")
    metric = _SumOfArrays("confusion_matrix", counts.shape)
    metric.update_state(counts)
    synchronize_metrics()
    return metric.result(), metric.result()


def mean_tensor(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "mean",
) -> Pair:
    """Return the mean of arrays, element by element."""
    array = jnp.asarray(as_array(values), "float32")
    factors = spread_weights(jnp.float32(1) if weights is None else weights, array.shape)
    return _pair(_MeanOfArrays(name, array.shape), array, factors)


@mask_as_weights
def mean_relative_error(
    labels: ArrayLike,
    predictions: ArrayLike,
    normalizer: ArrayLike,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "mean_relative_error",
) -> Pair:
    """Return the mean of ``|labels - predictions| / normalizer``; 0 where that is 0."""
    labels, predictions = same_shape(labels, predictions)
    by = jnp.asarray(as_array(normalizer))
    errors = jnp.where(by == 0, 0.0, jnp.abs(jnp.asarray(labels) - predictions) / jnp.where(by == 0, 1, by))
    return mean(errors, weights, name=name)


def mean_cosine_distance(
    labels: ArrayLike,
    predictions: ArrayLike,
    dim: int,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "mean_cosine_distance",
) -> Pair:
    """Return the mean of one minus the product of vectors of the length 1 along an axis."""
    labels, predictions = same_shape(labels, predictions)
    products = jnp.sum(jnp.asarray(labels, "float32") * predictions, dim, keepdims=True)
    factors = flat_weights(weights, products.shape)
    return _pair(_MeanDistance(name=name), products.ravel(), factors)


@mask_as_weights
def percentage_below(
    values: ArrayLike,
    threshold: float,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "percentage_below_threshold",
) -> Pair:
    """Return the fraction of values below a threshold."""
    return mean(jnp.asarray(as_array(values)) < threshold, weights, name=name)


class _AtSpecificity(keras.metrics.SensitivityAtSpecificity):  # type: ignore[misc]
    """The sensitivity at the threshold whose specificity is the closest one, the first of several.

    Source: tensorflow/python/ops/metrics_impl.py, ``compute_sensitivity_at_specificity``.
    """

    def result(self) -> jax.Array:
        """Return the sensitivity; 0 if there are no positive labels."""
        tp, fn, tn, fp = _counts(self)
        closest = jnp.argmin(jnp.abs(tn / (tn + fp + _EPSILON) - self.specificity))
        return tp[closest] / (tp[closest] + fn[closest] + _EPSILON)


class _AtSensitivity(keras.metrics.SpecificityAtSensitivity):  # type: ignore[misc]
    """The specificity at the threshold whose sensitivity is the closest one, the last of several.

    Source: tensorflow/python/ops/metrics_impl.py, ``compute_specificity_at_sensitivity``.
    """

    def result(self) -> jax.Array:
        """Return the specificity; 0 if there are no negative labels."""
        tp, fn, tn, fp = _counts(self)
        distances = jnp.abs(tp / (tp + fn + _EPSILON) - self.sensitivity)
        closest = len(distances) - 1 - jnp.argmin(distances[::-1])
        return tn[closest] / (tn[closest] + fp[closest] + _EPSILON)


_EPSILON = 1e-7


def _counts(metric: Any) -> list[jax.Array]:
    """Return the true and false positives and negatives at each threshold: tp, fn, tn, fp."""
    found = metric.true_positives, metric.false_negatives, metric.true_negatives, metric.false_positives
    return [jnp.asarray(each.value) for each in found]


def _at_thresholds(metric: Any, name: str, what: str) -> Callable[..., Pair]:
    class OfList(metric):  # type: ignore[misc]
        """Returns a vector of one threshold, too, for which Keras' metric returns a number."""

        def result(self) -> jax.Array:
            return jnp.atleast_1d(super().result())

    def at_thresholds(
        labels: ArrayLike,
        predictions: ArrayLike,
        thresholds: Sequence[float],
        weights: ArrayLike | None = None,
        metrics_collections: object = None,
        updates_collections: object = None,
        name: str = name,
    ) -> Pair:
        return _flat(OfList(thresholds=list(thresholds), name=name), labels, predictions, weights)

    at_thresholds.__name__ = at_thresholds.__qualname__ = name
    at_thresholds.__doc__ = f"Return {what} of probabilities above each of some thresholds, in a vector."
    return at_thresholds


precision_at_thresholds = _at_thresholds(keras.metrics.Precision, "precision_at_thresholds", "the precision")
recall_at_thresholds = _at_thresholds(keras.metrics.Recall, "recall_at_thresholds", "the recall")
true_positives_at_thresholds = _at_thresholds(
    keras.metrics.TruePositives, "true_positives_at_thresholds", "the number of true positives"
)
true_negatives_at_thresholds = _at_thresholds(
    keras.metrics.TrueNegatives, "true_negatives_at_thresholds", "the number of true negatives"
)
false_positives_at_thresholds = _at_thresholds(
    keras.metrics.FalsePositives, "false_positives_at_thresholds", "the number of false positives"
)
false_negatives_at_thresholds = _at_thresholds(
    keras.metrics.FalseNegatives, "false_negatives_at_thresholds", "the number of false negatives"
)


def sensitivity_at_specificity(
    labels: ArrayLike,
    predictions: ArrayLike,
    specificity: float,
    weights: ArrayLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "sensitivity_at_specificity",
) -> Pair:
    """Return the sensitivity at the threshold whose specificity is the closest one."""
    metric = _AtSpecificity(specificity, num_thresholds, name=name)
    return _flat(metric, labels, predictions, weights)


def specificity_at_sensitivity(
    labels: ArrayLike,
    predictions: ArrayLike,
    sensitivity: float,
    weights: ArrayLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "specificity_at_sensitivity",
) -> Pair:
    """Return the specificity at the threshold whose sensitivity is the closest one."""
    metric = _AtSensitivity(sensitivity, num_thresholds, name=name)
    return _flat(metric, labels, predictions, weights)


def _flat(metric: keras.Metric, labels: ArrayLike, predictions: ArrayLike, weights: ArrayLike | None) -> Pair:
    labels, predictions = same_shape(labels, predictions)
    flat = flat_weights(weights, predictions.shape)
    return _pair(
        metric, jnp.asarray(labels, "float32").ravel(), jnp.asarray(predictions, "float32").ravel(), flat
    )


def precision_at_k(
    labels: ArrayLike,
    predictions: ArrayLike,
    k: int,
    class_id: int | None = None,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "precision_at_k",
) -> Pair:
    """Return the fraction of the k likeliest classes that are among the labels.

    Args:
        labels: Class indices of shape (batch,) or (batch, labels); indices below 0 do not count.
        predictions: Scores of shape (batch, classes).
        k: How many classes count as predicted.
        class_id: The only class to look at; None for all.
        weights: A number, or one for each example.
        metrics_collections: Unused.
        updates_collections: Unused.
        name: The prefix of the metric's variables.
    """
    return precision_at_top_k(labels, _top(predictions, k), k, class_id, weights, name=name)


def precision_at_top_k(
    labels: ArrayLike,
    predictions_idx: ArrayLike,
    k: int | None = None,
    class_id: int | None = None,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "precision_at_top_k",
) -> Pair:
    """Return the fraction of predicted classes that are among the labels.

    Args:
        labels: As for `precision_at_k`.
        predictions_idx: Class indices of shape (batch, k), all of which count.
        k: Unused.
        class_id: As for `precision_at_k`, likewise what follows.
    """
    top, hits, _, factors = _compared(labels, predictions_idx, weights)
    counted = jnp.ones_like(hits) if class_id is None else (top == class_id).astype("float32")
    return _pair(_Ratio(name), (hits * counted * factors).sum(), (counted * factors).sum())


def recall_at_k(
    labels: ArrayLike,
    predictions: ArrayLike,
    k: int,
    class_id: int | None = None,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "recall_at_k",
) -> Pair:
    """Return the fraction of the labels that are among the k likeliest classes; as for `precision_at_k`."""
    return recall_at_top_k(labels, _top(predictions, k), k, class_id, weights, name=name)


def recall_at_top_k(
    labels: ArrayLike,
    predictions_idx: ArrayLike,
    k: int | None = None,
    class_id: int | None = None,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "recall_at_top_k",
) -> Pair:
    """Return the fraction of the labels that are among the predicted classes; as for `precision_at_top_k`.

    A label counts once for an example; -1 is one, which is never predicted.
    """
    top, hits, classes, factors = _compared(labels, predictions_idx, weights)
    if class_id is None:
        ordered = jnp.sort(classes, axis=1)
        wanted = jnp.diff(ordered, axis=1, prepend=ordered[:, :1] - 1) != 0
    else:
        wanted = (classes == class_id).any(axis=1, keepdims=True)
    counted = jnp.ones_like(hits) if class_id is None else (top == class_id).astype("float32")
    return _pair(_Ratio(name), (hits * counted * factors).sum(), (wanted * factors).sum())


def average_precision_at_k(
    labels: ArrayLike,
    predictions: ArrayLike,
    k: int,
    weights: ArrayLike | None = None,
    metrics_collections: object = None,
    updates_collections: object = None,
    name: str = "average_precision_at_k",
) -> Pair:
    """Return the mean of the precisions at the ranks of labels; as for `precision_at_k`."""
    _, hits, classes, factors = _compared(labels, _top(predictions, k), weights)
    ranks = jnp.arange(1, k + 1, dtype="float32")
    reachable = jnp.minimum((classes >= 0).sum(1), k)
    averages = (jnp.cumsum(hits, 1) / ranks * hits).sum(1) / jnp.maximum(reachable, 1)
    return _pair(_Ratio(name), (averages * factors[:, 0]).sum(), factors.sum())


sparse_precision_at_k = precision_at_k
sparse_average_precision_at_k = average_precision_at_k


def _top(predictions: ArrayLike, k: int) -> jax.Array:
    """Return the k likeliest classes of each example."""
    return jax.lax.top_k(jnp.asarray(as_array(predictions)), k)[1]


def _compared(
    labels: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return the predicted classes, whether each is a label, the labels and the weights, by example."""
    top, classes = jnp.asarray(as_array(predicted)), jnp.asarray(as_array(labels))
    if classes.ndim == top.ndim - 1:
        classes = classes[..., None]
    top, classes = top.reshape(-1, top.shape[-1]), classes.reshape(-1, classes.shape[-1])
    hits = (top[:, :, None] == classes[:, None]).any(2).astype("float32")
    given = jnp.float32(1) if weights is None else jnp.asarray(as_array(weights), "float32").reshape(-1)
    return top, hits, classes, jnp.broadcast_to(given, (len(top),))[:, None]
