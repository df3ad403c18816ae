"""Convolutions of several axes of batches; it fails when what is used of Keras changes."""

import numpy as np
import pytest

import muster_tensorflow as tf

CASES = {
    "of sequences": (tf.keras.layers.Conv1D(3, 2), (2, 5, 7, 4)),
    "causal": (tf.keras.layers.Conv1D(3, 2, padding="causal"), (2, 5, 7, 4)),
    "of frames": (
        tf.keras.layers.Conv2D(3, 2, strides=2, padding="same", activation="relu"),
        (2, 5, 7, 6, 4),
    ),
    "two more axes": (tf.keras.layers.Conv2D(3, 2, use_bias=False), (2, 2, 3, 7, 6, 4)),
    "of volumes": (tf.keras.layers.Conv3D(3, 2), (2, 3, 4, 5, 6, 2)),
}


@pytest.mark.parametrize(("layer", "shape"), CASES.values(), ids=CASES.keys())
def test_each_batch_is_convolved(layer, shape):
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    found = np.asarray(layer(x))
    count = len(shape) - layer.rank - 1
    expected = np.asarray(layer(x.reshape(-1, *shape[count:])))
    np.testing.assert_allclose(
        found, expected.reshape(*shape[:count], *expected.shape[1:]), rtol=1e-5, atol=1e-6
    )
    assert tuple(layer.compute_output_shape(shape)) == found.shape


def test_a_model_of_videos_is_trained_and_saved(tmp_path):
    frames = tf.keras.Input((3, 8, 8, 2))
    x = tf.keras.layers.Conv2D(4, 3, padding="same")(frames)
    assert x.shape == (None, 3, 8, 8, 4)
    model = tf.keras.Model(frames, tf.keras.layers.Dense(1)(tf.keras.layers.Flatten()(x)))
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(4, 3, 8, 8, 2)).astype("float32")
    model.fit(x, np.ones((4, 1)), verbose=0)
    model.save(tmp_path / "model.keras")
    again = tf.keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again(x), model(x), rtol=1e-5)
