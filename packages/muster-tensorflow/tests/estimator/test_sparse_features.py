"""Sparse features that a model_fn computes with, as programs of TensorFlow 1 do."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster._errors import TraceError
from muster.distribute import MirroredStrategy

TABLE = np.arange(10, dtype="float32")[:, None] * [1, 10]
# The ids of each example, and their weights; batches of two differ in width.
IDS = [[1, 2], [3], [4], [5, 6, 7]]
WEIGHTS = [[1.0, 3.0], [2.0], [0.5], [1.0, 1.0, 2.0]]


def _input(ids: list[list[int]], weights: list[list[float]]) -> tf.data.Dataset:
    def parsed(each: int) -> Any:
        at = [[place] for place in range(len(ids[each]))]
        return {
            "number": np.float32(each),
            "ids": tf.SparseTensor(at, np.array(ids[each], "int64"), [len(at)]),
            "weights": tf.SparseTensor(at, np.array(weights[each], "float32"), [len(at)]),
        }

    elements = [parsed(each) for each in range(len(ids))]
    return tf.data.Dataset.from_generator(
        lambda: iter(elements),
        output_signature={
            "number": tf.TensorSpec([], tf.float32),
            "ids": tf.SparseTensorSpec([None], tf.int64),
            "weights": tf.SparseTensorSpec([None], tf.float32),
        },
    ).batch(2)


def _predictions(compute: Any, ids: Any = IDS, weights: Any = WEIGHTS) -> list[Any]:
    def model_fn(features: Any, labels: Any, mode: str) -> tf.estimator.EstimatorSpec:
        table = tf.get_variable("table", initializer=tf.constant(TABLE))
        found = compute(table, features)
        loss: Any = tf.reduce_mean(found) + tf.reduce_mean(table)
        train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, {"found": found}, loss, train_op)

    estimator = tf.estimator.Estimator(model_fn)
    estimator.train(lambda: _input(ids, weights))
    return [each["found"].tolist() for each in estimator.predict(lambda: _input(ids, weights))]


def test_rows_of_a_table_are_combined() -> None:
    found = _predictions(
        lambda table, each: tf.nn.embedding_lookup_sparse(table, each["ids"], each["weights"])
    )
    assert found == [[1.75, 17.5], [3, 30], [4, 40], [6.25, 62.5]]
    found = _predictions(
        lambda table, each: tf.nn.embedding_lookup_sparse(table, each["ids"], None, combiner="sum")
    )
    assert found == [[3, 30], [3, 30], [4, 40], [18, 180]]


def test_arrays_have_the_width_of_the_batch() -> None:
    def compute(table: Any, features: Any) -> Any:
        dense = tf.sparse_tensor_to_dense(features["ids"], default_value=9)
        width = tf.shape(dense)[1]
        return tf.reduce_sum(tf.nn.embedding_lookup(table, dense), [1, 2]) + tf.cast(width, tf.float32) * 1000

    assert _predictions(compute) == [2033, 2132, 3000 + 11 * 22, 3000 + 11 * 18]


def test_products_sums_and_functions_of_values() -> None:
    def compute(table: Any, features: Any) -> Any:
        weights = features["weights"]
        total = tf.sparse.reduce_sum(tf.sparse.map_values(tf.multiply, weights, weights), 1)
        return total + tf.sparse.sparse_dense_matmul(weights, tf.ones([weights.shape[1], 1]))[:, 0]

    assert _predictions(compute) == [14, 6, 0.75, 10]


def test_labels_of_sequences_have_no_places() -> None:
    def losses(labels: Any, count: int) -> Any:
        return tf.nn.ctc_loss(labels, tf.zeros([5, count, 9]), tf.fill([count], 5))

    def compute(table: Any, features: Any) -> Any:
        return losses(tf.cast(features["ids"], tf.int32), features["ids"].shape[0])

    places = [[row, place] for row, ids in enumerate(IDS) for place in range(len(ids))]
    labels = tf.SparseTensor(places, np.int32(sum(IDS, [])), [4, 3])
    np.testing.assert_allclose(_predictions(compute), losses(labels, 4), rtol=1e-5)


def test_small_batches_of_one_value_each_are_not_mixed_up() -> None:
    found = _predictions(
        lambda table, each: tf.sparse_tensor_to_dense(each["ids"]), [[1], [2], [3], [4]], [[1.0]] * 4
    )
    assert found == [[1], [2], [3], [4]]


def test_columns_take_some_and_the_model_others() -> None:
    ids = tf.feature_column.categorical_column_with_identity("ids", 10)

    def compute(table: Any, features: Any) -> Any:
        hot = tf.feature_column.input_layer(features, [tf.feature_column.indicator_column(ids)])
        return tf.reduce_sum(hot, 1) + tf.sparse.reduce_sum(features["weights"], 1)

    assert _predictions(compute) == [6, 3, 1.5, 7]


def test_values_themselves_are_refused_with_advice() -> None:
    with pytest.raises(TraceError, match=r"Use tf\.sparse\.to_dense"):
        _predictions(lambda table, each: tf.reduce_sum(each["weights"].values))


def test_replicas_take_matrices_of_different_widths() -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> tf.estimator.EstimatorSpec:
        table = tf.get_variable("table", initializer=tf.constant(TABLE))
        sums = tf.nn.embedding_lookup_sparse(table, features["ids"], None, combiner="sum")
        loss = tf.reduce_mean(sums)
        train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    estimator = tf.estimator.Estimator(model_fn, config=tf.estimator.RunConfig(train_distribute=strategy))
    estimator.train(lambda: _input(IDS, WEIGHTS))
    assert estimator.get_variable_value("global_step") == 1
    changes = TABLE - estimator.get_variable_value("table")
    counts = np.bincount(sum(IDS, []), minlength=10)
    np.testing.assert_allclose(changes, counts[:, None] / np.array([8, 8]), rtol=1e-5)
