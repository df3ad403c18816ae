"""Recurrent layers whose cells drop values."""

from typing import Any

import keras
import numpy as np
import pytest

import muster_tensorflow as tf


class Dropping(keras.layers.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.state_size = 3
        self.dropout = keras.layers.Dropout(0.5, seed=1)

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        added = states[0] + self.dropout(inputs, training=training)
        return added, [added]


@pytest.mark.parametrize("devices", [None, ["cpu:0", "cpu:1"]])
def test_a_cell_may_drop_values_while_a_model_is_trained(devices: list[str] | None) -> None:
    strategy = tf.distribute.MirroredStrategy(devices) if devices else tf.distribute.get_strategy()
    with strategy.scope():
        cell = Dropping()
        model = keras.Sequential([keras.layers.RNN(cell), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    rows = np.ones((4, 2, 3), np.float32)
    history = model.fit(rows, np.ones((4, 1), np.float32), batch_size=2, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert np.asarray(cell.dropout.seed_generator.state)[1] == 4
    sums = np.asarray(model.layers[0](rows, training=True))  # each step of eager code draws numbers
    assert set(sums.ravel().tolist()) == {0.0, 2.0, 4.0}


def test_a_cell_keeps_values_of_each_step_of_eager_code() -> None:
    class Keeping(Dropping):
        def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
            kept.append(states[0])
            return super().call(inputs, states, training=training)

    kept: list[Any] = []
    layer = keras.layers.RNN(Keeping())
    layer(np.ones((1, 3, 3), np.float32))
    assert [float(tf.reduce_max(each)) for each in kept[-3:]] == [0.0, 1.0, 2.0]
    assert not layer.unroll
