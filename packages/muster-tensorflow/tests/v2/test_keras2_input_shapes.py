"""The first layer of a Sequential says what the model takes, as in Keras 2.

It fails when what is used of Keras changes.
"""

import numpy as np
import pytest

import muster_tensorflow as tf


def test_that_a_layer_says_the_size_of_the_batch_too():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(10, 4, batch_input_shape=[2, None]),
            tf.keras.layers.GRU(3, return_sequences=True, stateful=True),
            tf.keras.layers.Dense(10),
        ]
    )
    assert model.built
    assert (model.input_shape, model.output_shape) == ((2, None), (2, None, 10))
    x = np.array([[1, 2, 3], [4, 5, 6]])
    first = np.asarray(model(x))
    assert first.shape == (2, 3, 10)
    assert not np.allclose(model(x), first)  # it goes on from its state
    model.reset_states()
    np.testing.assert_allclose(model(x), first, rtol=1e-5, atol=1e-6)


def test_that_the_size_may_come_beside_the_shape():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,), batch_size=4)])
    assert model.input_shape == (4, 3)


def test_that_embeddings_and_recurrent_layers_have_a_length():
    model = tf.keras.Sequential([tf.keras.layers.Embedding(10, 4, input_length=3), tf.keras.layers.Flatten()])
    assert (model.input_shape, model.output_shape) == ((None, 3), (None, 12))
    model = tf.keras.Sequential([tf.keras.layers.LSTM(2, input_dim=3, input_length=5, return_sequences=True)])
    assert (model.input_shape, model.output_shape) == ((None, 5, 3), (None, 5, 2))
    model = tf.keras.Sequential()
    model.add(tf.keras.layers.SimpleRNN(2, input_dim=3))
    assert model.input_shape == (None, None, 3)


@pytest.mark.parametrize("shape", [(None, 7), (5, 3), None])
def test_that_a_model_which_has_an_input_keeps_it(shape):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
    model.build(shape)
    assert model.input_shape == (None, 3)


def test_that_such_layers_are_saved_and_loaded(tmp_path):
    model = tf.keras.Sequential(
        [tf.keras.layers.LSTM(2, stateful=True, batch_input_shape=(2, 5, 3)), tf.keras.layers.Dense(1)]
    )
    x = np.ones((2, 5, 3), "float32")
    first = np.asarray(model(x))
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras")
    assert loaded.input_shape == (2, 5, 3)
    copy = tf.keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    np.testing.assert_allclose(copy(x), first, rtol=1e-5)
