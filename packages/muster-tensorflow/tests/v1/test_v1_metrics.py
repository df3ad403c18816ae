"""``tf.compat.v1.metrics`` in a model_fn."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics as sk
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf
from muster.estimator import Estimator, EstimatorSpec, RunConfig

RNG = np.random.default_rng(4)
LABELS = RNG.integers(0, 2, 103)
SCORES = RNG.random(103).astype(np.float32)
WEIGHTS = RNG.integers(0, 3, 103).astype(np.float32)
PREDICTED = (SCORES > 0.5).astype(np.int32)


def evaluated(make_metric: Any, tmp_path: Path, batch_size: int) -> float:
    """Return a metric's value after an evaluation with an uneven last batch."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        pair = make_metric(labels, features)
        return EstimatorSpec(mode, loss=jnp.zeros(()), eval_metric_ops={"metric": pair})

    def input_fn() -> Any:
        features = {"score": SCORES, "predicted": PREDICTED, "weight": WEIGHTS}
        return tf.data.Dataset.from_tensor_slices((features, LABELS)).batch(batch_size)

    return float(Estimator(model_fn, tmp_path, RunConfig()).evaluate(input_fn)["metric"])


METRICS = {
    "accuracy": (
        lambda y, x: tf.metrics.accuracy(y, x["predicted"]),
        sk.accuracy_score(LABELS, PREDICTED),
    ),
    "accuracy, weighted": (
        lambda y, x: tf.metrics.accuracy(y[:, None], x["predicted"], weights=x["weight"]),
        sk.accuracy_score(LABELS, PREDICTED, sample_weight=WEIGHTS),
    ),
    "mean": (lambda y, x: tf.metrics.mean(x["score"]), SCORES.mean()),
    "precision": (
        lambda y, x: tf.metrics.precision(y, x["predicted"], x["weight"]),
        sk.precision_score(LABELS, PREDICTED, sample_weight=WEIGHTS),
    ),
    "recall": (lambda y, x: tf.metrics.recall(y, x["predicted"]), sk.recall_score(LABELS, PREDICTED)),
    "true_positives": (lambda y, x: tf.metrics.true_positives(y, x["predicted"]), (LABELS & PREDICTED).sum()),
    "false_negatives": (
        lambda y, x: tf.metrics.false_negatives(y, x["predicted"]),
        (LABELS & (1 - PREDICTED)).sum(),
    ),
    "mean_squared_error": (
        lambda y, x: tf.metrics.mean_squared_error(y, x["score"]),
        sk.mean_squared_error(LABELS, SCORES),
    ),
    "root_mean_squared_error": (
        lambda y, x: tf.metrics.root_mean_squared_error(y, x["score"], x["weight"]),
        sk.root_mean_squared_error(LABELS, SCORES, sample_weight=WEIGHTS),
    ),
    "mean_absolute_error": (
        lambda y, x: tf.metrics.mean_absolute_error(y, x["score"]),
        sk.mean_absolute_error(LABELS, SCORES),
    ),
}


@pytest.mark.parametrize("batch_size", [10, 103])
@pytest.mark.parametrize("name", METRICS)
def test_metrics_are_exact_over_uneven_batches(name: str, batch_size: int, tmp_path: Path) -> None:
    make, expected = METRICS[name]
    assert evaluated(make, tmp_path, batch_size) == pytest.approx(expected, rel=1e-6)


def test_auc_comes_close_with_many_thresholds(tmp_path: Path) -> None:
    exact = sk.roc_auc_score(LABELS, SCORES)
    found = evaluated(lambda y, x: tf.metrics.auc(y, x["score"], num_thresholds=2000), tmp_path, 20)
    assert found == pytest.approx(exact, abs=2e-3)


def test_the_area_under_a_precision_recall_curve_is_interpolated(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    careful = evaluated(
        lambda y, x: tf.metrics.auc(y, x["score"], curve="PR", summation_method="careful_interpolation"),
        tmp_path / "careful",
        20,
    )
    assert (
        evaluated(lambda y, x: tf.metrics.auc(y, x["score"], curve="PR"), tmp_path / "default", 20) == careful
    )
    assert "The trapezoidal rule overestimates" in caplog.text


def test_shapes_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(3,\).*\(2,\)"):
        tf.metrics.accuracy([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="must have one"):
        tf.losses.mean_squared_error(np.zeros(3), np.zeros((3, 1), np.float32))


def test_operations_take_the_value_of_a_metric() -> None:
    def step(_: Any) -> dict[str, Any]:
        value, _ = tf.metrics.accuracy([1, 1, 0, 0], [1, 1, 1, 0])
        return {"value": tf.identity(value, name="accuracy"), "twice": tf.multiply(value, 2.0)}

    outputs = outputs_of(step)
    assert (float(outputs["value"]), float(outputs["twice"])) == (0.75, 1.5)
