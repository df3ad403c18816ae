"""``hard_sigmoid`` by name and as gates of ConvLSTM layers; it fails when what is used of Keras changes."""

import numpy as np
import pytest

import muster_tensorflow as tf

X = np.array([[-3, -2.6, -1, 0.3, 1, 2.7]], "float32")
HARD = np.array([[0, 0, 0.3, 0.56, 0.7, 1]])


def test_the_name_means_the_function_of_keras_2():
    layers = tf.keras.layers
    for found in (
        tf.keras.activations.get("hard_sigmoid")(X),
        tf.keras.activations.deserialize("hard_sigmoid")(X),
        layers.Activation("hard_sigmoid")(X),
        layers.Dense(6, activation="hard_sigmoid", kernel_initializer="identity")(X),
    ):
        np.testing.assert_allclose(found, HARD, rtol=1e-6)
    assert (
        layers.LSTM(2, recurrent_activation="hard_sigmoid").get_config()["recurrent_activation"]
        == "hard_sigmoid"
    )


def test_a_saved_model_has_it_again(tmp_path):
    model = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Activation("hard_sigmoid")])
    for name in ("model.keras", "model.h5"):
        model.save(tmp_path / name)
        np.testing.assert_allclose(tf.keras.models.load_model(tmp_path / name)(X), HARD, rtol=1e-6)


@pytest.mark.parametrize(("name", "axes"), [("ConvLSTM1D", 1), ("ConvLSTM2D", 2), ("ConvLSTM3D", 3)])
def test_gates_of_convolutional_lstms_are_hard_by_default(name, axes):
    kind = getattr(tf.keras.layers, name)
    assert kind(1, 2).get_config()["recurrent_activation"] == "hard_sigmoid"
    assert kind(1, 2, recurrent_activation="sigmoid").get_config()["recurrent_activation"] == "sigmoid"
    by_place = kind(1, 2, 1, "valid", None, 1, "tanh", "sigmoid")
    assert by_place.get_config()["recurrent_activation"] == "sigmoid"
    assert kind.from_config(kind(1, 2).get_config()).get_config()["recurrent_activation"] == "hard_sigmoid"


def test_a_convolutional_lstm_has_the_numbers_of_tensorflow():
    layer = tf.keras.layers.ConvLSTM2D(1, 2, kernel_initializer="ones", recurrent_initializer="ones")
    found = layer(np.linspace(-1, 1, 48).reshape(1, 3, 4, 4, 1).astype("float32"))
    expected = [0.41870996, 0.49673223, 0.58109033, 0.72100294, 0.75523895, 0.79253745, 0.8426919, 0.8590769]
    np.testing.assert_allclose(np.ravel(found), [*expected, 0.87437654], rtol=1e-5)  # TensorFlow 2.15
