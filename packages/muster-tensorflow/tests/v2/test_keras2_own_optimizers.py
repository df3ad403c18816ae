"""Optimizers of programs, by the methods of Keras 2. The expected values are TensorFlow 2.15's."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

keras = tf.keras
legacy = keras.optimizers.legacy


def updated(optimizer: Any) -> Any:
    variable = tf.Variable([1.0, 2.0])
    for gradient in ([0.1, -0.2], [0.3, 0.1], [-0.5, 2.0]):
        optimizer.apply_gradients([(tf.constant(gradient), variable)])
    return variable.numpy()


class Newer(keras.optimizers.Optimizer):
    """As the documentation of TensorFlow 2.11 and later ones says."""

    def __init__(self, learning_rate: float = 0.1, name: str = "Newer", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._learning_rate = self._build_learning_rate(learning_rate)

    def build(self, var_list: Any) -> None:
        super().build(var_list)
        if hasattr(self, "_built") and self._built:
            return
        self._built = True
        self.momentums = [
            self.add_variable_from_reference(model_variable=each, variable_name="m") for each in var_list
        ]

    def update_step(self, gradient: Any, variable: Any) -> None:
        momentum = self.momentums[self._index_dict[self._var_key(variable)]]
        momentum.assign(momentum * 0.5 + gradient)
        variable.assign_add(-momentum * tf.cast(self.learning_rate, variable.dtype))


class Older(legacy.Optimizer):
    """As those of TensorFlow 2 before that."""

    def __init__(self, learning_rate: Any = 0.1, name: str = "Older", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", learning_rate)
        self._set_hyper("momentum", 0.5)

    def _create_slots(self, var_list: Any) -> None:
        for variable in var_list:
            self.add_slot(variable, "m")

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        momentum = self.get_slot(var, "m")
        momentum.assign(momentum * self._get_hyper("momentum", var.dtype) + grad)
        return var.assign_sub(self._get_hyper("learning_rate", var.dtype) * momentum, use_locking=True)

    def get_config(self) -> Any:
        return {**super().get_config(), "rate": self._serialize_hyperparameter("learning_rate")}


class Decaying(legacy.Adam):
    """Adam with decay of weights, as programs for BERT have it."""

    def _prepare_local(self, var_device: Any, var_dtype: Any, apply_state: Any) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[var_device, var_dtype]["decay"] = tf.constant(0.1)

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: Any = None) -> Any:
        state = apply_state[var.device, var.dtype.base_dtype]
        decay = var.assign_sub(state["lr_t"] * var * state["decay"], use_locking=self._use_locking)
        with tf.control_dependencies([decay]):
            return super()._resource_apply_dense(grad, var, apply_state=apply_state)


@pytest.mark.parametrize(
    ("make", "expected"),
    [(Newer, [0.9875, 1.82]), (Older, [0.9875, 1.82]), (lambda: Decaying(0.1), [0.7975, 2.0038])],
)
def test_updates_are_those_of_tensorflow(make: Any, expected: list[float]) -> None:
    np.testing.assert_allclose(updated(make()), expected, atol=5e-5)


@pytest.mark.parametrize("make", [Newer, Older, lambda: Decaying(0.1)])
def test_models_are_fitted_by_them(make: Any) -> None:
    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,))])
    model.compile(make(), "mse")
    losses = model.fit(np.eye(2), np.zeros([2, 1]), epochs=3, verbose=0).history["loss"]
    assert losses == sorted(losses, reverse=True)


def test_hyperparameters() -> None:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    optimizer = Older(schedule)
    assert (float(optimizer.learning_rate), optimizer.momentum) == (0.5, 0.5)
    assert optimizer.get_config()["rate"]["class_name"] == "ExponentialDecay"
    assert Older(0.2).get_config()["rate"] == pytest.approx(0.2)
    assert isinstance(legacy.Adam(), legacy.Optimizer)
    assert Newer(name="own").name == "own"


def test_gradients_and_slots_by_old_names() -> None:
    optimizer, variable = keras.optimizers.SGD(0.1), tf.Variable([3.0])
    ((gradient, of),) = optimizer.compute_gradients(lambda: variable * variable, [variable])
    assert of is variable
    np.testing.assert_array_equal(gradient, [6.0])
    with pytest.raises(ValueError, match="tape"):
        optimizer.compute_gradients(variable * 1.0, [variable])
    made = optimizer.add_variable_from_reference(variable, "m", initial_value=[2.0])
    np.testing.assert_array_equal(made, [2.0])


def test_recurrent_layers_take_inputs_and_states_by_name() -> None:
    layer = keras.layers.LSTM(2, stateful=True)
    assert layer(inputs=np.ones([2, 3, 1], np.float32)).shape == (2, 2)
    layer.reset_states(states=[np.ones([2, 2]), np.zeros([2, 2])])
    np.testing.assert_array_equal(layer.states[0], np.ones([2, 2]))
    layer.reset_states()
    np.testing.assert_array_equal(layer.states[0], np.zeros([2, 2]))
