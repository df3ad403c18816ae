"""`Bidirectional` of layers and cells of classes that are registered nowhere."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

layers = tf.keras.layers
X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)


def classes() -> tuple[Any, Any]:
    class Halving(layers.LSTMCell):
        def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
            outputs, states = super().call(inputs, states, training=training)
            return outputs / 2, states

    class HalvingLayer(layers.SimpleRNN):
        def call(self, *args: Any, **kwargs: Any) -> Any:
            return super().call(*args, **kwargs) / 2

    return Halving, HalvingLayer


@pytest.mark.parametrize("stacked", [False, True])
def test_cells_may_be_of_local_classes(stacked: bool) -> None:
    kind, _ = classes()

    def recurrent(kind: Any, **kwargs: Any) -> Any:
        cells = [layers.LSTMCell(5), kind(5)] if stacked else kind(5)
        return layers.RNN(cells, return_sequences=True, **kwargs)

    halved = layers.Bidirectional(recurrent(kind))
    whole = layers.Bidirectional(
        recurrent(layers.LSTMCell), backward_layer=recurrent(kind, go_backwards=True)
    )
    outputs = [layer(X) for layer in (halved, whole)]
    whole.set_weights(halved.get_weights())
    np.testing.assert_allclose(whole(X)[..., :5], 2 * outputs[0][..., :5], rtol=1e-5)
    np.testing.assert_allclose(whole(X)[..., 5:], outputs[0][..., 5:], rtol=1e-5)


def test_layers_may_be_of_local_classes() -> None:
    _, kind = classes()
    layer = layers.Bidirectional(kind(5))
    assert {type(layer.forward_layer), type(layer.backward_layer)} == {kind}
    assert layer(X).shape == (2, 10)
