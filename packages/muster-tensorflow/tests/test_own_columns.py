"""Feature columns of a program's own, derived from TensorFlow's classes: the values of TensorFlow 2.15.1."""

import collections
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from muster_tensorflow.python.feature_column import feature_column_v2 as fc

import muster_tensorflow as tf

FEATURES = {
    "a": np.array([[1.0], [3.0]], np.float32),
    "p": np.array([0.0, 1.0], np.float32),
    "t": np.array([["ab"], ["cdef"]]),
    "i": np.array([[3, 12], [7, -1]], np.int32),
}


class Log(fc.DenseColumn, collections.namedtuple("Log", ("key",))):  # type: ignore[misc]
    name = property(lambda self: f"log_{self.key}")
    parse_example_spec = property(lambda self: {self.key: tf.io.FixedLenFeature((1,), tf.float32)})
    parents = property(lambda self: [self.key])
    variable_shape = property(lambda self: tf.TensorShape([1]))

    def transform_feature(self, cache: Any, state: Any) -> Any:
        return tf.math.log1p(cache.get(self.key, state))

    def get_dense_tensor(self, cache: Any, state: Any) -> Any:
        return cache.get(self, state)


class Circle(Log):
    name = property(lambda self: f"circle_{self.key}")
    variable_shape = property(lambda self: [2])

    def transform_feature(self, cache: Any, state: Any) -> Any:
        angle = cache.get(self.key, state)
        return tf.concat([tf.sin(angle), tf.cos(angle)], 1)


class Length(Log):
    name = property(lambda self: f"length_{self.key}")
    parse_example_spec = property(lambda self: {self.key: tf.io.FixedLenFeature((1,), tf.string)})

    def transform_feature(self, cache: Any, state: Any) -> Any:
        return tf.cast(tf.strings.length(cache.get(self.key, state)), tf.float32)


class Scaled(fc.DenseColumn, collections.namedtuple("Scaled", ("source",))):  # type: ignore[misc]
    name = property(lambda self: f"scaled_{self.source.name}")
    parse_example_spec = property(lambda self: self.source.parse_example_spec)
    parents = property(lambda self: [self.source])
    variable_shape = property(lambda self: self.source.variable_shape)

    def create_state(self, state: Any) -> None:
        initial = tf.keras.initializers.Constant(3.0)
        state.create_variable(self, "scale", (1,), tf.float32, trainable=True, initializer=initial)

    def get_dense_tensor(self, cache: Any, state: Any) -> Any:
        return self.source.get_dense_tensor(cache, state) * state.get_variable(self, "scale")


class Modulus(fc.CategoricalColumn, collections.namedtuple("Modulus", ("key", "buckets"))):  # type: ignore[misc]
    name = property(lambda self: f"mod_{self.key}")
    parse_example_spec = property(lambda self: {self.key: tf.io.VarLenFeature(tf.int64)})
    parents = property(lambda self: [self.key])
    num_buckets = property(lambda self: self.buckets)

    def transform_feature(self, cache: Any, state: Any) -> Any:
        ids = cache.get(self.key, state)
        if not isinstance(ids, tf.SparseTensor):
            places = tf.where(ids >= 0)
            ids = tf.SparseTensor(places, tf.gather_nd(ids, places), tf.shape(ids))
        return tf.SparseTensor(ids.indices, ids.values % self.buckets, ids.dense_shape)

    def get_sparse_tensors(self, cache: Any, state: Any) -> Any:
        return fc.CategoricalColumn.IdWeightPair(cache.get(self, state), None)


NUMBER = tf.feature_column.numeric_column("a")
IDS = Modulus("i", 5)
VALUES = {
    "log": (Log("a"), [[0.6931], [1.3863]]),
    "two numbers": (Circle("p"), [[0.0, 1.0], [0.8415, 0.5403]]),
    "text": (Length("t"), [[2.0], [4.0]]),
    "variable": (Scaled(NUMBER), [[3.0], [9.0]]),
    "of another": (Scaled(Log("a")), [[2.0794], [4.1589]]),
    "ids": (tf.feature_column.indicator_column(IDS), [[0.0, 0, 1, 1, 0], [0.0, 0, 1, 0, 0]]),
    "embedding": (
        tf.feature_column.embedding_column(IDS, 2, initializer=tf.keras.initializers.Constant(2.0)),
        [[2.0, 2.0], [2.0, 2.0]],
    ),
}


@pytest.mark.parametrize("case", VALUES)
def test_values(case: str) -> None:
    column, expected = VALUES[case]
    found = tf.keras.layers.DenseFeatures([column])(FEATURES)
    assert np.asarray(found) == pytest.approx(np.array(expected), abs=1e-4)


def test_ids_of_sparse_features_and_the_order_of_columns() -> None:
    sparse = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], np.array([3, 7, 8], np.int32), [2, 2])
    layer = tf.keras.layers.DenseFeatures([tf.feature_column.indicator_column(IDS), Log("a")])
    found = np.asarray(layer({"i": sparse, "a": FEATURES["a"]}))
    assert found[:, 1:].tolist() == [[0, 0, 0, 1, 0], [0, 0, 1, 1, 0]]
    assert found[:, 0] == pytest.approx([0.6931, 1.3863], abs=1e-4)


def test_the_variable_of_a_column_is_trained() -> None:
    layer = tf.keras.layers.DenseFeatures([Scaled(NUMBER)])
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer({"a": FEATURES["a"]}))
    assert np.asarray(tape.gradient(total, layer.trainable_variables)[0]).tolist() == [4.0]


def test_columns_are_instances_of_the_classes() -> None:
    columns = (NUMBER, tf.feature_column.categorical_column_with_identity("i", 5), Log("a"), IDS)
    assert [isinstance(each, fc.DenseColumn) for each in columns] == [True, False, True, False]
    assert [isinstance(each, fc.CategoricalColumn) for each in columns] == [False, True, False, True]
    assert not isinstance(NUMBER, Log)
    assert sorted(tf.feature_column.make_parse_example_spec([Log("a"), IDS])) == ["a", "i"]


def test_canned_models_train_and_save_them(tmp_path: Path) -> None:
    data = tf.data.Dataset.from_tensor_slices((FEATURES, np.ones((2, 1), np.float32))).batch(2).repeat()
    linear = tf.estimator.LinearRegressor([Log("a"), Length("t"), IDS], model_dir=str(tmp_path / "linear"))
    linear.train(lambda: data, steps=10)
    names = set(linear.get_variable_names())
    assert {f"linear/linear_model/{name}/weights" for name in ("log_a", "length_t", "mod_i")} <= names
    columns = [Circle("p"), Length("t"), Scaled(NUMBER), tf.feature_column.indicator_column(IDS)]
    deep = tf.estimator.DNNRegressor([4], columns, model_dir=str(tmp_path / "deep"))
    deep.train(lambda: data, steps=2)
    assert deep.evaluate(lambda: data, steps=1)["global_step"] == 2
    assert "dnn/input_from_feature_columns/input_layer/scaled_a/scale" in deep.get_variable_names()


class WrongShape(Log):
    def get_dense_tensor(self, cache: Any, state: Any) -> Any:
        return tf.zeros((2, 3))


class Unmade(Log):
    def get_dense_tensor(self, cache: Any, state: Any) -> Any:
        return state.get_variable(self, "w")


class Several(Log):
    def create_state(self, state: Any) -> None:
        for name in ("w", "b"):
            state.create_variable(self, name, (1,))


class DenseIds(Modulus):
    def get_sparse_tensors(self, cache: Any, state: Any) -> Any:
        return fc.CategoricalColumn.IdWeightPair(cache.get(self.key, state), None)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (WrongShape("a"), r"returns values of shape \(2, 3\), and its variable_shape says \(1,\)"),
        (Log("zz"), "Feature zz is not in features dictionary. There are: 'a', 'i', 'p'"),
        (Unmade("a"), "asks for the variable 'w', which it has not created"),
        (Several("a"), "creates the variables w, b, and a column has one at most"),
        (tf.feature_column.indicator_column(DenseIds("i", 5)), "as ids: return an IdWeightPair of"),
    ],
)
def test_mistakes_say_what_is_wrong(column: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        tf.keras.layers.DenseFeatures([column])(FEATURES)
