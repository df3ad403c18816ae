"""``tf.keras.layers.TFSMLayer``: saved models as layers."""

import pathlib
from typing import Any

import keras
import numpy as np
import pytest

import muster_tensorflow as tf

ROWS = np.arange(12, dtype=np.uint8).reshape(4, 3)


class Halved(keras.Model):
    """A model whose class no other process would know."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, inputs: Any) -> Any:
        return self.dense(tf.cast(inputs, tf.float32) / 2.0)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> str:
    model = Halved()
    model(ROWS)
    model.dense.set_weights([np.ones((3, 2)), np.zeros(2)])
    model.export(tmp_path / "model")
    return str(tmp_path / "model")


def test_an_exported_model_is_a_layer(folder: str) -> None:
    expected = np.repeat(ROWS.sum(1, keepdims=True) / 2.0, 2, axis=1)
    layer = keras.layers.TFSMLayer(folder)
    np.testing.assert_array_equal(layer(ROWS), expected)
    inputs = tf.keras.Input((3,))
    outputs = layer(inputs)
    assert outputs.shape == (None, 2)
    np.testing.assert_array_equal(tf.keras.Model(inputs, outputs).predict(ROWS, verbose=0), expected)
    assert type(layer).from_config(layer.get_config()).filepath == folder


def test_another_endpoint_returns_a_dict(folder: str) -> None:
    layer = tf.keras.layers.TFSMLayer(folder, call_endpoint="serving_default")
    found = tf.function(lambda rows: layer(rows))(ROWS)
    assert {name: value.shape for name, value in found.items()} == {"output_1": (4, 2)}
    with pytest.raises(ValueError, match="no endpoint 'other'. There are: serving_default"):
        tf.keras.layers.TFSMLayer(folder, call_endpoint="other")
