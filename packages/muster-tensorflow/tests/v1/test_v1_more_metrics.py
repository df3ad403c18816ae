"""Metrics at ranks, at thresholds and of classes, over two batches."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf
from muster.estimator import Estimator, EstimatorSpec, RunConfig

LABELS = np.int64([0, 1, 2, 2])
CLASSES = np.int64([0, 1, 1, 2])
SCORES = np.float32([[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.1, 0.6, 0.3], [0.4, 0.35, 0.25]])
TRUE = np.float32([1, 0, 1, 1])
PROBABLE = np.float32([0.9, 0.6, 0.4, 0.7])


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (lambda: tf.metrics.mean_iou(LABELS, CLASSES, 3), (1 + 0.5 + 0.5) / 3),
        (lambda: tf.metrics.mean_per_class_accuracy(LABELS, CLASSES, 3), (1 + 1 + 0.5) / 3),
        (lambda: tf.metrics.precision_at_k(LABELS, SCORES, 1), 0.5),
        (lambda: tf.metrics.precision_at_k(LABELS, SCORES, 2), 3 / 8),
        (lambda: tf.metrics.recall_at_k(LABELS, SCORES, 2), 3 / 4),
        (lambda: tf.metrics.recall_at_k(LABELS, SCORES, 2, class_id=2), 1 / 2),
        (lambda: tf.metrics.average_precision_at_k(LABELS, SCORES, 3), (1 + 1 + 1 / 2 + 1 / 3) / 4),
        (lambda: tf.metrics.percentage_below(PROBABLE, 0.65), 0.5),
        (lambda: tf.metrics.mean_tensor(PROBABLE), PROBABLE),
        (lambda: tf.metrics.mean_relative_error(TRUE, PROBABLE, TRUE), (0.1 + 0 + 0.6 + 0.3) / 4),
        (lambda: tf.metrics.precision_at_thresholds(TRUE, PROBABLE, [0.5, 0.65]), [2 / 3, 1]),
        (lambda: tf.metrics.recall_at_thresholds(TRUE, PROBABLE, [0.5, 0.3]), [2 / 3, 1]),
        (lambda: tf.metrics.false_positives_at_thresholds(TRUE, PROBABLE, [0.5]), [1]),
        (lambda: tf.contrib.metrics.streaming_accuracy(CLASSES, LABELS), 0.75),
        (lambda: tf.contrib.metrics.streaming_mean_iou(CLASSES, LABELS, 3), (1 + 0.5 + 0.5) / 3),
        (lambda: tf.contrib.metrics.f1_score(TRUE, PROBABLE), 6 / 7),
        (lambda: tf.metrics.auc(TRUE, PROBABLE, curve="PR")[:2], None),
    ],
)
def test_metrics(pair: Any, expected: Any) -> None:
    def step(_: Any) -> dict[str, Any]:
        metric, update = pair()
        return {"update": update, "value": metric.result()}

    outputs = outputs_of(step)
    if expected is not None:
        np.testing.assert_allclose(outputs["update"], expected, rtol=1e-5)
    np.testing.assert_allclose(outputs["update"], outputs["value"])


def test_confusion_matrix_of_all_batches_is_an_array() -> None:
    from muster_tensorflow.python.ops.metrics_impl import _streaming_confusion_matrix

    def step(_: Any) -> dict[str, Any]:
        weights = np.float32([1, 1, 0, 2])
        counts, update = _streaming_confusion_matrix(LABELS, CLASSES, 3, weights)
        assert counts.shape[0] == 3
        return {"recall of 2": tf.diag_part(counts * np.eye(3))[2] / tf.reduce_sum(update[2]), "all": update}

    outputs = outputs_of(step)
    np.testing.assert_allclose(outputs["all"], np.diag([1, 1, 2]))
    assert float(outputs["recall of 2"]) == 1


def test_weights_count_for_examples() -> None:
    def step(_: Any) -> dict[str, Any]:
        weights = np.float32([1, 1, 0, 2])
        return {
            "at_1": tf.metrics.precision_at_k(LABELS, SCORES, 1, weights=weights)[1],
            "per_class": tf.metrics.mean_per_class_accuracy(LABELS, CLASSES, 3, weights)[1],
        }

    outputs = outputs_of(step)
    assert float(outputs["at_1"]) == 0.5
    assert float(outputs["per_class"]) == 1


SEVERAL = np.int64([[0, 3], [1, 2], [2, -1], [3, 0]])
PREDICTED = np.int64([[0, 1], [2, 1], [1, 0], [3, 2]])
OF_FOUR = np.float32([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.6, 0.1], [0.3, 0.4, 0.2, 0.1], [0.1, 0.1, 0.2, 0.6]])


@pytest.mark.parametrize(
    ("pair", "expected"),  # of TensorFlow 2.15
    [
        (lambda: tf.metrics.precision_at_top_k(SEVERAL, PREDICTED, 2), 0.5),
        (lambda: tf.metrics.recall_at_top_k(SEVERAL[:2], PREDICTED[:2], 2), 3 / 4),
        (lambda: tf.metrics.precision_at_top_k(SEVERAL, PREDICTED, 2, class_id=1), 1 / 3),
        (
            lambda: tf.metrics.recall_at_top_k(SEVERAL, PREDICTED, class_id=2, weights=[1, 2, 3, 4]),
            0.4,
        ),
        (lambda: tf.metrics.precision_at_top_k(SEVERAL[:, 0], PREDICTED, k=1), 0.375),
        (lambda: tf.metrics.sparse_precision_at_k(SEVERAL, OF_FOUR, 2), 0.5),
        (lambda: tf.metrics.sparse_average_precision_at_k(SEVERAL, OF_FOUR, 2), 0.5),
    ],
)
def test_metrics_of_predicted_classes(pair: Any, expected: float) -> None:
    outputs = outputs_of(lambda _: {"update": pair()[1]})
    np.testing.assert_allclose(outputs["update"], expected, rtol=1e-6)


ONES = np.float32([[1, 1, 0], [0, 0, 1]])
FOUR = np.float32([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (lambda: tf.metrics.mean(ONES, weights=[1.0, 0.5]), 2.5 / 4.5),
        (lambda: tf.metrics.mean_tensor(ONES, weights=[1.0, 0.5]), ONES),
        (lambda: tf.metrics.mean_squared_error(ONES, ONES * 0, weights=[1.0, 0.5]), 2.5 / 4.5),
        (lambda: tf.metrics.accuracy(np.int64([0, 0, 1]), np.float32([0.2, 0.7, 1.0])), 1.0),
        (lambda: tf.metrics.accuracy(np.array([False, True, True]), np.float32([0.2, 0.7, 1])), 2 / 3),
        (lambda: tf.metrics.mean_per_class_accuracy(np.int64([0, 0, 1]), np.float32([0.2, 0.7, 1]), 2), 1.0),
        (lambda: tf.metrics.recall_at_top_k(np.int64([[2, -1]]), np.int64([[2, 0]])), 0.5),
        (lambda: tf.metrics.recall_at_top_k(np.int64([[1, 1]]), np.int64([[1, 0]])), 1.0),
        (lambda: tf.metrics.recall_at_top_k([[1, 1], [0, 2]], np.int64([[1, 0], [1, 2]]), class_id=1), 1.0),
        (lambda: tf.metrics.recall_at_k([[1, 3, -1], [0, 2, 2]], FOUR, 2), 0.4),
        (lambda: tf.metrics.recall_at_top_k([[1, 2], [0, 2]], [[1, 0], [1, 2]], 2, 2, [0.5, 1]), 2 / 3),
    ],
)  # fmt: skip
def test_corners_are_those_of_tensorflow(pair: Any, expected: Any) -> None:
    np.testing.assert_allclose(outputs_of(lambda x: {"metric": pair()[1]})["metric"], expected, rtol=1e-6)


# Of TensorFlow 2.15.1: for labels without positives, for labels without negatives, and for weights of 0.
WITHOUT_EXAMPLES = {
    "auc": (lambda y, p, w: tf.metrics.auc(y, p, weights=w), [1.0, 0.0, 0.0]),
    "auc, minoring": (
        lambda y, p, w: tf.metrics.auc(y, p, weights=w, summation_method="minoring"),
        [1.0, 0.0, 0.0],
    ),
    "auc of precision": (lambda y, p, w: tf.metrics.auc(y, p, weights=w, curve="PR"), [0.0, 1.0, 0.0]),
    "precision": (lambda y, p, w: tf.metrics.precision(y, p > 0.5, w), [0.0, 1.0, 0.0]),
    "recall": (lambda y, p, w: tf.metrics.recall(y, p > 0.5, w), [0.0, 0.5, 0.0]),
    "recall at one threshold": (
        lambda y, p, w: tf.metrics.recall_at_thresholds(y, p, [0.5], w),
        [[0.0], [0.5], [0.0]],
    ),
    "sensitivity": (lambda y, p, w: tf.metrics.sensitivity_at_specificity(y, p, 0.5, w), [0.0, 1.0, 0.0]),
    "specificity": (lambda y, p, w: tf.metrics.specificity_at_sensitivity(y, p, 0.5, w), [1.0, 0.0, 0.0]),
    "mean": (lambda y, p, w: tf.metrics.mean(p, w), [0.425, 0.425, 0.0]),
    "cosine distance": (lambda y, p, w: tf.metrics.mean_cosine_distance(0 * p, p, 0, w), [1.0, 1.0, 1.0]),
}


@pytest.mark.parametrize("name", WITHOUT_EXAMPLES)
def test_metrics_without_positives_negatives_or_examples(name: str, tmp_path: Path) -> None:
    make, expected = WITHOUT_EXAMPLES[name]

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        scores = np.float32([0.1, 0.7, 0.3, 0.6])
        kinds = [(np.zeros(4), 1.0), (np.ones(4), 1.0), (np.array([0.0, 1, 1, 0]), 0.0)]
        metrics = {
            str(kind): make(y.astype(np.int32) + tf.cast(0 * features, tf.int32), scores + 0 * features, w)
            for kind, (y, w) in enumerate(kinds)
        }
        return EstimatorSpec(mode, loss=jnp.zeros(()), eval_metric_ops=metrics)

    data = tf.data.Dataset.from_tensors((np.zeros(4, np.float32), np.zeros(4, np.float32)))
    found = Estimator(model_fn, tmp_path, RunConfig()).evaluate(lambda: data)
    for kind, value in enumerate(expected):
        assert found[str(kind)] == pytest.approx(np.asarray(value), abs=1e-4)
