"""Names of layers with a slash, as Keras 2 took them; it fails when what is used of Keras changes."""

import numpy as np

import muster_tensorflow as tf


def test_that_a_layer_is_found_by_the_name_it_was_given(tmp_path):
    inputs = tf.keras.Input((2,))
    hidden = tf.keras.layers.Dense(3, name="encoder_0/ffn")(inputs)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, name="head")(hidden), name="text/classifier")
    layer = model.get_layer("encoder_0/ffn")
    assert layer is model.get_layer("encoder_0_ffn") is model.get_layer(index=1)
    assert (model.name, layer.kernel.path) == ("text_classifier", "encoder_0_ffn/kernel")
    model.save(tmp_path / "model.keras")
    read = tf.keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(read.get_layer("encoder_0/ffn").kernel, layer.kernel)
