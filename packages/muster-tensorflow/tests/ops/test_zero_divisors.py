"""Weights, counts and squares that add up to zero: values and gradients, as TensorFlow 2.15.1 has them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

TABLE = np.arange(12, dtype=np.float32).reshape(6, 2) + 1
PLACES = [[0, 0], [0, 1], [1, 0]]
IDS = tf.SparseTensor(PLACES, np.array([1, 2, 3], np.int32), [3, 2])


def with_gradients(function: Callable[..., Any], *values: Any) -> list[list[Any]]:
    variables = [tf.Variable(np.asarray(value, np.float32)) for value in values]
    with tf.GradientTape() as tape:
        result = function(*variables)
    gradients = tape.gradient(result, variables)
    return [np.round(np.asarray(each, np.float64), 4).tolist() for each in (result, *gradients)]


def rows(start: float, *changed: tuple[int, list[float]]) -> list[list[float]]:
    made = np.full((6, 2), start).tolist()
    for number, row in changed:
        made[number] = row
    return made


LOOKUPS: list[tuple[str, list[float], float, list[list[float]], list[float]]] = [
    ("mean", [1, -1, 0], 0, rows(0), [0, 0, 0]),
    ("sqrtn", [1, -1, 0], 4, rows(0, (1, [-2, -2]), (2, [2, 2])), [-18, -18, 0]),
    ("sum", [1, -1, 0], 8, rows(0, (1, [-4, -4]), (2, [4, 4])), [-28, -44, 0]),
    ("mean", [0, 0, 1], 113, rows(0, (3, [14, 16])), [0, 0, 0]),
    ("sqrtn", [0, 0, 1], 113, rows(0, (3, [14, 16])), [0, 0, 0]),
    ("mean", [0, 0, 0], 0, rows(0), [0, 0, 0]),
    ("sqrtn", [0, 0, 0], 0, rows(0), [0, 0, 0]),
]


@pytest.mark.parametrize(("combiner", "weights", "value", "of_table", "of_weights"), LOOKUPS)
def test_lookups(
    combiner: str, weights: list[float], value: float, of_table: Any, of_weights: list[float]
) -> None:
    def loss(table: Any, weights: Any) -> Any:
        by_place = tf.SparseTensor(PLACES, tf.convert_to_tensor(weights), [3, 2])
        return tf.reduce_sum(tf.nn.embedding_lookup_sparse(table, IDS, by_place, combiner) ** 2)

    assert with_gradients(loss, TABLE, weights) == [value, of_table, of_weights]


@pytest.mark.parametrize("combiner", ["mean", "sqrtn"])
def test_columns(combiner: str) -> None:
    column = tf.feature_column.weighted_categorical_column(
        tf.feature_column.categorical_column_with_identity("i", 6), "w"
    )
    ones = tf.keras.initializers.Constant(2.0)
    layer = tf.keras.layers.DenseFeatures(
        [tf.feature_column.embedding_column(column, 2, combiner=combiner, initializer=ones)]
    )
    weights = tf.SparseTensor(PLACES, np.array([1.0, -1.0, 0.0], np.float32), [3, 2])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer({"i": IDS, "w": weights}) ** 2)
    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.trainable_variables[0]))
    assert float(loss) == 8
    assert np.asarray(gradient).tolist() == rows(0, (1, [4, 4]))


def test_a_step_with_such_an_example_trains_the_others() -> None:
    table = tf.Variable(TABLE)
    weights = tf.SparseTensor(PLACES, np.array([0.0, 0.0, 1.0], np.float32), [3, 2])

    optimizer = tf.keras.optimizers.SGD(1.0)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup_sparse(table, IDS, weights, "sqrtn"))
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])
        return loss

    assert float(step()) == 15
    assert np.asarray(table).tolist() == [[1, 2], [3, 4], [5, 6], [6, 7], [9, 10], [11, 12]]


CASES: dict[str, tuple[Callable[..., Any], list[Any], list[Any]]] = {
    "weighted moments": (
        lambda x, w: tf.stack(tf.nn.weighted_moments(x, [0, 1], w)),
        [[[1], [2], [3]], [[0], [0], [0]]],
        [[0, 0], [[0], [0], [0]], [[0], [0], [0]]],
    ),
    "weighted moments of weights that cancel": (
        lambda x, w: tf.stack(tf.nn.weighted_moments(x, [0, 1], w)),
        [[[1], [2], [3]], [[1], [-1], [0]]],
        [[0, 0], [[0], [0], [0]], [[0], [0], [0]]],
    ),
    "weighted moments along an axis": (
        lambda x, w: tf.nn.weighted_moments(x, [1], w, keepdims=True)[1],
        [[[1, 3], [2, 5]], [[1, 1], [0, 0]]],
        [[[1], [0]], [[-1, 1], [0, 0]], [[0, 0], [0, 0]]],
    ),
    "clip_by_norm": (lambda x: tf.clip_by_norm(x, 1.0), [[0, 0]], [[0, 0], [1, 1]]),
    "xlogy": (tf.math.xlogy, [[0, 0], [0, 1]], [[0, 0], [0, 0], [0, 0]]),
    "cosine similarity of zeros that do not count": (
        lambda p: tf.keras.losses.CosineSimilarity()(
            np.ones((2, 2), np.float32), p, sample_weight=np.array([0.0, 1.0], np.float32)
        ),
        [[[0, 0], [1, 0]]],
        [-0.3536, [[0, 0], [0, -0.3536]]],
    ),
    "unit lengths": (
        tf.keras.layers.UnitNormalization(),
        [[[0, 0]]],
        [[[0, 0]], [[1e6, 1e6]]],
    ),
    "average loss of no examples": (
        lambda p: tf.nn.compute_average_loss(p, sample_weight=tf.zeros(2), global_batch_size=2),
        [[1, 2]],
        [0, [0, 0]],
    ),
    "loss of a batch without rows": (
        lambda p: tf.keras.losses.MeanSquaredError()(np.zeros((0, 2), np.float32), p),
        [np.zeros((0, 2))],
        [0, []],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str) -> None:
    function, values, expected = CASES[case]
    for found, wanted in zip(with_gradients(function, *values), expected, strict=True):
        assert np.asarray(found) == pytest.approx(np.asarray(wanted), rel=1e-3, abs=1e-6)


def test_losses_without_pairs_are_zero() -> None:
    from muster_tensorflow.contrib.losses import metric_learning

    points = [[1.0, 0.0], [0.0, 1.0]]
    triplets = with_gradients(lambda x: metric_learning.triplet_semihard_loss([0, 1], x), points)
    assert triplets == [0, [[0, 0], [0, 0]]]
    apart = with_gradients(lambda x: metric_learning.contrastive_loss([1, 1], x, points), points)
    assert apart == [0, [[0, 0], [0, 0]]]
