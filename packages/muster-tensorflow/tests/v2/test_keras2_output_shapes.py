"""`compute_output_shape` of layers returns what has `as_list()`, as wrappers of programs expect."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

layers = tf.keras.layers


@pytest.mark.parametrize(
    ("layer", "given", "made"),
    [
        (layers.Dense(3), (None, 4), [None, 3]),
        (layers.Conv2D(3, 3), (None, 8, 8, 1), [None, 6, 6, 3]),
        (layers.Bidirectional(layers.LSTM(3, return_sequences=True)), (2, 5, 4), [2, 5, 6]),
        (layers.Dense(3), tf.TensorShape([None, 4]), [None, 3]),
        (tf.keras.Sequential([layers.Dense(2, input_shape=(4,))]), (None, 4), [None, 2]),
    ],
)
def test_output_shapes_have_the_methods(layer: Any, given: Any, made: Any) -> None:
    shape = layer.compute_output_shape(given)
    assert shape.as_list() == made
    assert shape == tuple(made)  # Keras takes it as the tuple that it is


def test_several_outputs_have_a_shape_each() -> None:
    sequences, state = layers.GRU(3, return_sequences=True, return_state=True).compute_output_shape((2, 5, 4))
    assert (sequences.as_list(), state.as_list()) == ([2, 5, 3], [2, 3])


def test_wrappers_compute_the_shapes_of_what_they_wrap() -> None:
    class Normalized(layers.Wrapper):
        def build(self, input_shape: Any) -> None:
            self.layer.build(input_shape)
            self.kernel = self.layer.kernel
            super().build()

        def call(self, inputs: Any) -> Any:
            self.layer.kernel = self.kernel / tf.norm(self.kernel)
            return self.layer(inputs)

        def compute_output_shape(self, input_shape: Any) -> Any:
            return tf.TensorShape(self.layer.compute_output_shape(input_shape).as_list())

    wrapped = Normalized(layers.Dense(2, kernel_initializer="ones"))
    model = tf.keras.Sequential([wrapped])
    model.build((None, 2))
    np.testing.assert_allclose(model(np.ones((1, 2), "float32")), np.ones((1, 2)))
    assert model.output_shape == (None, 2)


class Scored(layers.Layer):
    """As layers of attention are: it uses another one, which is built when it is called."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.score = layers.Dense(3, kernel_initializer="ones")

    def call(self, inputs: Any) -> Any:
        return self.score(inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (None, 3)


def test_layers_that_say_their_shape_build_what_they_use(tmp_path: Path) -> None:
    inputs = layers.Input((2,))
    model = tf.keras.Model(inputs, Scored()(inputs))
    assert (model.output_shape, len(model.weights)) == ((None, 3), 2)
    model.save(tmp_path / "model.h5")
    loaded = tf.keras.models.load_model(tmp_path / "model.h5", custom_objects={"Scored": Scored})
    assert loaded.predict(np.ones((1, 2)), verbose=0).tolist() == [[2, 2, 2]]


def test_a_layer_that_cannot_be_traced_says_its_shape() -> None:
    class OfValues(layers.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs[: int(inputs[0, 0])]

        def compute_output_shape(self, input_shape: Any) -> Any:
            return (None, 7)

    assert OfValues()(layers.Input((2,))).shape == (None, 7)
