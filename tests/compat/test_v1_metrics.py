"""``tf.compat.v1``'s metrics, losses and layers, in a model_fn."""

import logging
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics as sk

import muster.compat.tensorflow.compat.v1 as tf
from muster.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig

RNG = np.random.default_rng(4)
LABELS = RNG.integers(0, 2, 103)
SCORES = RNG.random(103).astype(np.float32)
WEIGHTS = RNG.integers(0, 3, 103).astype(np.float32)
PREDICTED = (SCORES > 0.5).astype(np.int32)


def evaluated(make_metric: Any, tmp_path: Path, batch_size: int) -> float:
    """The value of a metric after an evaluation with an uneven last batch."""

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


def test_the_area_under_a_precision_recall_curve_by_trapezoids_is_refused() -> None:
    with pytest.raises(ValueError, match="careful_interpolation"):
        tf.metrics.auc([0, 1], [0.1, 0.9], curve="PR")


def test_shapes_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(3,\).*\(2,\)"):
        tf.metrics.accuracy([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="must have one"):
        tf.losses.mean_squared_error(np.zeros(3), np.zeros((3, 1), np.float32))


def test_losses_divide_by_the_weights_that_are_not_zero() -> None:
    predictions, labels = np.float32([1, 2, 3, 4]), np.zeros(4, np.float32)
    weights = np.float32([2, 0, 1, 0])
    reduction = tf.losses.Reduction
    for how, expected in {
        reduction.SUM_BY_NONZERO_WEIGHTS: (2 + 3) / 2,
        reduction.SUM: 5,
        reduction.MEAN: 5 / 3,
        reduction.SUM_OVER_BATCH_SIZE: 5 / 4,
    }.items():
        loss = tf.losses.absolute_difference(labels, predictions, weights, reduction=how)
        assert float(loss) == pytest.approx(expected)
    assert tf.losses.absolute_difference(labels, predictions, reduction=reduction.NONE).shape == (4,)
    assert float(tf.losses.mean_squared_error(labels, predictions, weights=0.0)) == 0
    with pytest.raises(ValueError, match="Invalid Reduction Key median"):
        tf.losses.mean_squared_error(labels, predictions, reduction="median")


def test_cross_entropies_take_labels_in_either_shape() -> None:
    logits = np.float32([[2, 0, 1], [0, 3, 0]])
    flat = tf.losses.sparse_softmax_cross_entropy([0, 1], logits)
    column = tf.losses.sparse_softmax_cross_entropy([[0], [1]], logits)
    dense = tf.losses.softmax_cross_entropy(tf.one_hot([0, 1], 3), logits)
    assert float(flat) == pytest.approx(float(column)) == pytest.approx(float(dense))
    smooth = tf.losses.softmax_cross_entropy(tf.one_hot([0, 1], 3), logits, label_smoothing=0.1)
    assert float(smooth) > float(dense)
    assert float(tf.losses.sigmoid_cross_entropy(np.ones((2, 3)), logits)) > 0


def test_a_model_of_tensorflow_1s_layers_trains(tmp_path: Path) -> None:
    images = RNG.random((64, 8, 8, 1)).astype(np.float32)
    labels = (images.mean((1, 2, 3)) > 0.5).astype(np.int32)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        net = tf.layers.conv2d(features, 4, 3, padding="same", activation=tf.nn.relu, name="conv")
        net = tf.layers.batch_normalization(net, training=mode == ModeKeys.TRAIN)
        net = tf.layers.max_pooling2d(net, 2, 2)
        net = tf.layers.average_pooling2d(net, 2, 2)
        net = tf.layers.dropout(tf.layers.flatten(net), 0.1, training=mode == ModeKeys.TRAIN)
        logits = tf.layers.dense(net, 2)
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train_op = tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_global_step())
        tf.summary.scalar("loss_too", loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_op, tf.no_op()))

    estimator = Estimator(model_fn, tmp_path)
    estimator.train(lambda: tf.data.Dataset.from_tensors((images, labels)).repeat(), max_steps=3)
    assert "conv/kernel" in estimator.get_variable_names()
    assert not np.allclose(estimator.get_variable_value("batch_normalization/moving_mean"), 0)
    assert tf.train.latest_checkpoint(tmp_path) == estimator.latest_checkpoint()


def test_reusing_a_layer_by_name_is_refused() -> None:
    with pytest.raises(ValueError, match="reuse=True is not available"):
        tf.layers.dense(np.zeros((2, 3), np.float32), 2, reuse=True)


def test_unknown_collections_are_refused() -> None:
    with pytest.raises(ValueError, match="no collection 'losses'"):
        tf.get_collection("losses")


def test_set_verbosity_lets_the_log_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    logger = tf.get_logger()
    level, handlers, propagate = logger.level, logger.handlers[:], logger.propagate
    logger.propagate = False  # pytest has handlers at the root
    try:
        tf.logging.set_verbosity(tf.logging.INFO)
        tf.logging.set_verbosity(tf.logging.INFO)
        tf.logging.info("step %d", 3)
        tf.logging.debug("not shown")
        assert tf.logging.get_verbosity() == logging.INFO
        assert capsys.readouterr().err == "INFO:muster:step 3\n"
    finally:
        logger.setLevel(level)
        logger.handlers[:], logger.propagate = handlers, propagate
