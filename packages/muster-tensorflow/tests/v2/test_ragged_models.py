"""Models with ``Input(ragged=True)``, against the same models row by row."""

import numpy as np
import pytest

import muster_tensorflow as tf

layers = tf.keras.layers
ROWS = tf.ragged.constant([[1, 2, 3], [4], [5, 1, 2, 3, 4], [2, 2]])
LABELS = np.array([[0.0], [1.0], [0.0], [1.0]], np.float32)


def functional():
    inputs = layers.Input(shape=(None,), ragged=True, dtype="int32")
    x = layers.Embedding(6, 4)(inputs)
    x = layers.Dense(3, activation="tanh")(x)
    x = layers.Bidirectional(layers.LSTM(5, return_sequences=True))(x)
    return tf.keras.Model(inputs, layers.Dense(1)(layers.GlobalAveragePooling1D()(x)))


def sequential():
    return tf.keras.Sequential(
        [layers.Input(shape=(None,), ragged=True), layers.Embedding(6, 4), layers.GRU(5), layers.Dense(1)]
    )


@pytest.mark.parametrize("make", [functional, sequential])
def test_rows_count_as_long_as_they_are(make):
    model = make()
    alone = [model.predict(np.asarray([row]), verbose=0)[0] for row in ROWS.to_list()]
    np.testing.assert_allclose(model.predict(ROWS, verbose=0), alone, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model(ROWS), alone, rtol=1e-4, atol=1e-6)
    data = tf.data.Dataset.from_tensor_slices((ROWS, LABELS)).batch(2)
    model.compile("sgd", "mse")
    loss = model.evaluate(data, verbose=0)
    assert loss == pytest.approx(np.mean((np.asarray(alone) - LABELS) ** 2), rel=1e-4)
    model.fit(data, epochs=3, verbose=0)
    model.fit(ROWS, LABELS, verbose=0, batch_size=2)
    assert model.evaluate(data, verbose=0) < loss


def test_rows_of_vectors():
    rows = tf.RaggedTensor.from_row_lengths(np.arange(12, dtype=np.float32).reshape(6, 2), [1, 3, 2])
    inputs = layers.Input(shape=(None, 2), ragged=True)
    model = tf.keras.Model(inputs, layers.GlobalAveragePooling1D()(inputs))
    assert model.predict(rows, verbose=0).tolist() == [[0, 1], [4, 5], [9, 10]]


def test_layers_without_masks_are_refused():
    inputs = layers.Input(shape=(None, 2), ragged=True)
    model = tf.keras.Model(inputs, layers.GlobalMaxPooling1D()(inputs))
    rows = tf.RaggedTensor.from_row_lengths(np.ones((3, 2), np.float32), [1, 2])
    with pytest.raises(ValueError, match="a GlobalMaxPooling1D, takes no rows of several lengths"):
        model.predict(rows, verbose=0)
    with pytest.raises(ValueError, match="returns rows of several lengths"):
        tf.keras.Model(inputs, layers.Dense(1)(inputs)).predict(rows, verbose=0)
    with pytest.raises(ValueError, match="has numbers here"):
        layers.Input(shape=(None,), ragged=True, dtype="string")
