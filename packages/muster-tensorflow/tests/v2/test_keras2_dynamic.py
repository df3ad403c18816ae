"""Layers with ``dynamic=True``, as of Keras 2."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf


class _Doubling(tf.keras.layers.Layer):  # type: ignore[misc]  # the class is made while the program runs
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(dynamic=True, **kwargs)
        self.seen: list[float] = []

    def call(self, x: Any) -> Any:
        self.seen.append(float(tf.reduce_sum(x)))  # Python needs the value
        return x * 2

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


def test_a_dynamic_layer_sees_the_values_of_each_batch() -> None:
    layer = _Doubling()
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    whole = tf.keras.Sequential([layer, model])
    whole.compile("sgd", "mse")
    assert whole.run_eagerly
    whole.evaluate(np.ones((4, 1), np.float32), np.ones((4, 1), np.float32), batch_size=2, verbose=0)
    assert layer.seen[-2:] == [2.0, 2.0]
    with pytest.raises(ValueError, match="You cannot set `run_eagerly=False`"):
        whole.compile("sgd", "mse", run_eagerly=False)


def test_a_model_that_runs_eagerly_is_built_on_values() -> None:
    def largest(y_true: Any, y_pred: Any) -> Any:
        return np.max(y_pred.numpy()) * tf.ones(())

    class Net(tf.keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")

        def call(self, x: Any) -> Any:
            return self.dense(x) if tf.reduce_sum(x) > 0 else -x

    net = Net()
    net.compile("sgd", "mse", metrics=[largest], run_eagerly=True)
    x = np.array([[1.0], [3.0]], np.float32)
    history = net.fit(x, x, epochs=2, verbose=0).history
    assert history["largest"] == [3.0, 3.0]
    assert history["loss"] == [0.0, 0.0]


def test_a_model_may_be_dynamic_and_others_are_not() -> None:
    class Net(tf.keras.Model):  # type: ignore[misc]
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.dense = tf.keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    for dynamic in (True, False):
        net = Net(dynamic=dynamic)
        net.compile("sgd", "mse")
        assert net.run_eagerly is dynamic


def test_a_model_of_a_program_may_give_its_base_class_one_argument_that_is_lost() -> None:
    class Policy(tf.keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("mlp_policy")  # Keras 2 leaves it out: the name is not set

        def call(self, x: Any) -> Any:
            return x

    assert Policy().name.startswith("policy")
