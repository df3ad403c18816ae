"""Sparse features that a model_fn computes with."""

from typing import Any

import numpy as np
import pytest

import muster
from muster import feature_column as fc
from muster import keras
from muster._errors import TraceError
from muster.data import Dataset, SparseTensor, SparseTensorSpec, TensorSpec
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig

TABLE = np.arange(10, dtype="float32")[:, None] * np.float32([1, 10])
# The ids of each example, and their weights; batches of two differ in width.
IDS = [[1, 2], [3], [4], [5, 6, 7]]
WEIGHTS = [[1.0, 3.0], [2.0], [0.5], [1.0, 1.0, 2.0]]


def _input(ids: list[list[int]], weights: list[list[float]]) -> Dataset:
    def parsed(each: int) -> Any:
        at = [[place] for place in range(len(ids[each]))]
        return {
            "number": np.float32(each),
            "ids": SparseTensor(at, np.array(ids[each], "int64"), [len(at)]),
            "weights": SparseTensor(at, np.array(weights[each], "float32"), [len(at)]),
        }

    elements = [parsed(each) for each in range(len(ids))]
    return Dataset.from_generator(
        lambda: iter(elements),
        output_signature={
            "number": TensorSpec([], np.float32),
            "ids": SparseTensorSpec([None], np.int64),
            "weights": SparseTensorSpec([None], np.float32),
        },
    ).batch(2)


def _predictions(compute: Any, ids: Any = IDS, weights: Any = WEIGHTS) -> list[Any]:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        table = keras.Variable(TABLE, name="table")
        found = compute(table, features)
        loss: Any = keras.ops.mean(found) + keras.ops.mean(table)
        train_op = muster.minimize(keras.optimizers.SGD(0.0), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, {"found": found}, loss, train_op)

    estimator = Estimator(model_fn)
    estimator.train(lambda: _input(ids, weights))
    return [each["found"].tolist() for each in estimator.predict(lambda: _input(ids, weights))]


def _sums(table: Any, ids: Any, weights: Any) -> Any:
    """The sums of an example's rows of a table."""
    return keras.ops.sum(keras.ops.take(table, ids.by_rows(0), axis=0) * weights.by_rows(0)[..., None], 1)


def test_rows_of_a_table_are_combined() -> None:
    def mean(table: Any, each: Any) -> Any:
        total = keras.ops.sum(each["weights"].by_rows(0), 1, keepdims=True)
        return _sums(table, each["ids"], each["weights"]) / total

    assert _predictions(mean) == [[1.75, 17.5], [3, 30], [4, 40], [6.25, 62.5]]
    ones = _predictions(
        lambda table, each: _sums(
            table, each["ids"], each["weights"].with_values(each["weights"].plain_values * 0 + 1)
        )
    )
    assert ones == [[3, 30], [3, 30], [4, 40], [18, 180]]


def test_arrays_have_the_width_of_the_batch() -> None:
    def compute(table: Any, features: Any) -> Any:
        dense = features["ids"].to_dense(9)
        return keras.ops.sum(keras.ops.take(table, dense, axis=0), (1, 2)) + dense.shape[1] * 1000.0

    assert _predictions(compute) == [2033, 2132, 3000 + 11 * 22, 3000 + 11 * 18]


def test_products_sums_and_functions_of_values() -> None:
    def compute(table: Any, features: Any) -> Any:
        weights = features["weights"]
        squares = weights.with_values(weights.plain_values**2).to_dense()
        return keras.ops.sum(squares, 1) + (weights.to_dense() @ keras.ops.ones([weights.shape[1], 1]))[:, 0]

    assert _predictions(compute) == [14, 6, 0.75, 10]


def test_small_batches_of_one_value_each_are_not_mixed_up() -> None:
    found = _predictions(lambda table, each: each["ids"].to_dense(), [[1], [2], [3], [4]], [[1.0]] * 4)
    assert found == [[1], [2], [3], [4]]


def test_columns_take_some_and_the_model_others() -> None:
    ids = fc.categorical_column_with_identity("ids", 10)

    def compute(table: Any, features: Any) -> Any:
        hot = fc.dense_features(features, [fc.indicator_column(ids)])
        return keras.ops.sum(hot, 1) + keras.ops.sum(features["weights"].to_dense(), 1)

    assert _predictions(compute) == [6, 3, 1.5, 7]


def test_values_themselves_are_refused_with_advice() -> None:
    with pytest.raises(TraceError, match=r"the values of a sparse feature are no array. Use .*to_dense"):
        _predictions(lambda table, each: keras.ops.sum(each["weights"].values))


def test_replicas_take_matrices_of_different_widths() -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        table, ids = keras.Variable(TABLE, name="table"), features["ids"]
        ones = ids.with_values(keras.ops.ones_like(ids.plain_values))
        loss = keras.ops.mean(_sums(table, ids, ones))
        train_op = muster.minimize(keras.optimizers.SGD(1.0), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    estimator = Estimator(model_fn, config=RunConfig(train_distribute=strategy))
    estimator.train(lambda: _input(IDS, WEIGHTS))
    assert estimator.get_variable_value("global_step") == 1
    changes = TABLE - estimator.get_variable_value("table")
    counts = np.bincount(sum(IDS, []), minlength=10)
    np.testing.assert_allclose(changes, counts[:, None] / np.array([8, 8]), rtol=1e-5)
