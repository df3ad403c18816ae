"""Callbacks of programs find a model's values at each step, also where they reach it by other names."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

X = np.linspace(0, 1, 8, dtype=np.float32).reshape(4, 2)
Y = X[:, :1]


def model_and_part() -> tuple[Any, Any]:
    layers = [
        tf.keras.layers.Dense(2, kernel_initializer="ones", input_shape=(2,)),
        tf.keras.layers.Dense(1, kernel_initializer="ones"),
    ]
    model = tf.keras.Sequential(layers)
    model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    return model, tf.keras.Model(model.input, layers[0].output)


def values_seen(hook: str, look: Callable[[Any, Any], Any], data: Any = (X, Y)) -> list[float]:
    model, part = model_and_part()
    seen: list[float] = []

    def called(self: Any, number: int, logs: Any = None) -> None:
        seen.append(float(np.max(look(model, part))))

    callback = type("Program", (tf.keras.callbacks.Callback,), {hook: called})
    options = {} if len(data) == 1 else {"batch_size": 2, "shuffle": False}
    model.fit(*data, epochs=2, verbose=0, callbacks=[callback()], **options)
    return seen


LOOKS = [
    lambda model, part: model.layers[0].get_weights()[0],
    lambda model, part: model.layers[0].kernel.numpy(),
    lambda model, part: part(np.eye(2, dtype=np.float32)) - part(np.zeros((1, 2), np.float32)),
    lambda model, part: part.predict_on_batch(np.eye(2)) - model.layers[0].bias.numpy(),
]


@pytest.mark.parametrize("hook", ["on_train_batch_end", "on_batch_end"])
@pytest.mark.parametrize("data", [(X, Y), (tf.data.Dataset.from_tensor_slices((X, Y)).batch(2),)])
def test_values_are_those_of_the_step(hook: str, data: Any) -> None:
    expected = values_seen(hook, LOOKS[0], data)
    assert len(set(expected)) == 4
    for look in LOOKS[1:]:
        np.testing.assert_allclose(values_seen(hook, look, data), expected, rtol=1e-5)
    before = values_seen(hook.replace("end", "begin"), LOOKS[0], data)
    np.testing.assert_allclose(before, [1, *expected[:3]], rtol=1e-6)


def test_functions_of_a_lambda_callback_set_what_the_next_step_takes() -> None:
    model, _ = model_and_part()

    def set_rate(batch: int, logs: Any) -> None:
        tf.keras.backend.set_value(model.optimizer.learning_rate, 0.0 if batch else 0.5)

    rates: list[float] = []
    callback = tf.keras.callbacks.LambdaCallback(
        on_batch_begin=set_rate,
        on_batch_end=lambda batch, logs: rates.append(float(model.optimizer.learning_rate)),
    )
    kernels: list[Any] = []
    keeper = tf.keras.callbacks.LambdaCallback(
        on_batch_end=lambda batch, logs: kernels.append(model.get_weights()[0])
    )
    model.fit(X, Y, batch_size=2, verbose=0, callbacks=[callback, keeper])
    assert rates == [0.5, 0.0]
    np.testing.assert_array_equal(kernels[0], kernels[1])  # the second step took the rate 0
    assert kernels[0].max() != 1


def test_callbacks_of_keras_cost_no_step_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = model_and_part()
    called: list[int] = []
    original = model.jax_state_sync
    monkeypatch.setattr(model, "jax_state_sync", lambda: (called.append(1), original()))
    options = {"batch_size": 1, "verbose": 0, "shuffle": False}
    model.fit(X, Y, callbacks=[tf.keras.callbacks.TerminateOnNaN()], **options)
    few = len(called)
    model.fit(
        X, Y, callbacks=[tf.keras.callbacks.LambdaCallback(on_batch_end=lambda b, logs: None)], **options
    )
    assert len(called) - few >= few + 4


@pytest.mark.parametrize("model", [None, object()])
def test_lists_of_callbacks_need_no_model(model: Any) -> None:
    seen: list[int] = []

    class Program(tf.keras.callbacks.Callback):
        def set_model(self, model: Any) -> None:
            pass

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(batch)

    callbacks = tf.keras.callbacks.CallbackList([Program()], model=model)
    callbacks.on_train_batch_end(3)
    assert seen == [3]
