"""Models with steps of their own that are compiled without a loss."""

from typing import Any

import keras
import numpy as np
import pytest

import muster_tensorflow as tf

ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)
LABELS = np.array([[1.0], [5.0], [9.0], [13.0]], np.float32)


class Trained(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x)
            loss = tf.reduce_mean((y - predicted) ** 2)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        self.compiled_metrics.update_state(y, predicted)
        return {each.name: each.result() for each in self.metrics} | {"total": loss}


class Evaluated(Trained):
    def test_step(self, data: Any) -> Any:
        x, y = data
        self.compiled_metrics.update_state(y, self(x))
        return {each.name: each.result() for each in self.metrics}


@pytest.mark.parametrize("devices", [None, ["cpu:0", "cpu:1"]])
def test_there_is_no_loss_where_none_was_compiled(devices: list[str] | None) -> None:
    strategy = tf.distribute.MirroredStrategy(devices) if devices else tf.distribute.get_strategy()
    with strategy.scope():
        model = Evaluated()
        model.compile(optimizer=keras.optimizers.SGD(0.0), metrics=["mae"])
    history = model.fit(
        ROWS, LABELS, epochs=1, batch_size=2, verbose=0, validation_data=(ROWS, LABELS)
    ).history
    assert sorted(history) == ["mae", "total", "val_mae"]
    assert model.evaluate(ROWS, LABELS, verbose=0) == 0.0


def test_the_step_of_keras_still_says_the_loss() -> None:
    model = Trained()
    model.compile(optimizer=keras.optimizers.SGD(0.0), metrics=["mae"])
    assert sorted(model.fit(ROWS, LABELS, verbose=0).history) == ["mae", "total"]
    assert sorted(model.evaluate(ROWS, LABELS, verbose=0, return_dict=True)) == ["loss", "mae"]


def test_losses_that_a_step_adds_up_are_there() -> None:
    class Adding(Trained):
        def train_step(self, data: Any) -> Any:
            x, y = data
            self.compiled_loss(y, self(x), regularization_losses=[tf.constant(2.0)])
            return {each.name: each.result() for each in self.metrics}

    model = Adding()
    model.compile(optimizer=keras.optimizers.SGD(0.0))
    assert model.fit(ROWS, LABELS, epochs=2, verbose=0).history == {"loss": [2.0, 2.0]}
