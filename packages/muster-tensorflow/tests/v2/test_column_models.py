"""Models of feature columns that are fitted to text."""

import numpy as np
import pytest

import muster_tensorflow as tf

_fc = tf.feature_column
_KINDS = ["fixed", "normal", "other", "fixed", "normal", "normal"]


def _data():
    features = {"age": np.arange(6), "kind": np.array(_KINDS)}
    return tf.data.Dataset.from_tensor_slices((features, np.arange(6.0))).batch(2)


def _columns():
    age = _fc.numeric_column("age")
    kind = _fc.categorical_column_with_vocabulary_list("kind", ["fixed", "normal"])
    crossed = _fc.crossed_column([_fc.bucketized_column(age, [2, 4]), "kind"], 8)
    return [age, _fc.indicator_column(kind), _fc.embedding_column(crossed, 3)]


class _Subclassed(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.features = tf.keras.layers.DenseFeatures(_columns())
        self.out = tf.keras.layers.Dense(1)

    def call(self, inputs):
        return self.out(self.features(inputs))


def _sequential():
    return tf.keras.Sequential([tf.keras.layers.DenseFeatures(_columns()), tf.keras.layers.Dense(1)])


def _functional():
    inputs = {
        "age": tf.keras.Input((), name="age"),
        "kind": tf.keras.Input((), name="kind", dtype=tf.string),
    }
    deep = tf.keras.layers.DenseFeatures(_columns()[1:], name="deep")(inputs)
    wide = tf.keras.layers.DenseFeatures(_columns()[:2], name="wide")(inputs)
    outputs = tf.keras.layers.Dense(1)(tf.keras.layers.concatenate([deep, wide]))
    return tf.keras.Model(inputs=inputs, outputs=outputs)


@pytest.mark.parametrize("make", [_sequential, _Subclassed, _functional])
def test_text_becomes_ids_in_fit_evaluate_and_predict(make):
    model = make()
    model.compile("sgd", "mse", metrics=["mae"])
    model.fit(_data(), validation_data=_data(), epochs=2, verbose=0)
    assert len(model.trainable_variables) == 3
    loss, _ = model.evaluate(_data(), verbose=0)
    outputs = model.predict(_data(), verbose=0)
    np.testing.assert_allclose(loss, np.mean((outputs[:, 0] - np.arange(6)) ** 2), rtol=1e-5)
    batch, _ = next(iter(_data()))
    np.testing.assert_allclose(model(batch), outputs[:2], rtol=1e-5)


def test_embeddings_of_a_functional_model_are_trained():
    model = _functional()
    model.compile("sgd", "mse")
    table = next(each for each in model.weights if each.path.endswith("embedding_weights"))
    before = table.numpy()
    model.train_on_batch(
        {"age": np.array([1.0, 5.0]), "kind": np.array(["fixed", "x"])}, np.array([1.0, 2.0])
    )
    assert not np.array_equal(table.numpy(), before)
