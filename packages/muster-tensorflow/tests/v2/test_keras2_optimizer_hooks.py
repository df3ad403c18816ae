"""Optimizers that programs derive from those of ``tf.keras.optimizers.legacy``: TensorFlow 2.15's numbers."""

import numpy as np
import pytest

import muster_tensorflow as tf

legacy = tf.keras.optimizers.legacy


class Momentum(legacy.Optimizer):
    """A mean of gradients, and a count of them."""

    def __init__(self, learning_rate=0.001, momentum=0.9, name="Momentum", **kwargs):
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("momentum", momentum)

    def _create_slots(self, var_list):
        for var in var_list:
            self.add_slot(var, "momentum")
        for var in var_list:
            self.add_slot(var, "seen", initializer="ones", shape=[])

    def _resource_apply_dense(self, grad, var):
        dtype = var.dtype.base_dtype
        momentum, mean = self._get_hyper("momentum", dtype), self.get_slot(var, "momentum")
        self.get_slot(var, "seen").assign_add(1.0, read_value=False)
        mean.assign(mean * momentum + (1.0 - momentum) * grad)
        return var.assign_add(-self._decayed_lr(dtype) * mean)

    def get_config(self):
        names = ("learning_rate", "decay", "momentum")
        return super().get_config() | {name: self._serialize_hyperparameter(name) for name in names}


class Decoupled(legacy.Adam):
    """Adam with a decay of weights, on gradients of a limited norm."""

    def __init__(self, learning_rate=0.001, weight_decay_rate=0.0, name="Decoupled", **kwargs):
        super().__init__(learning_rate, name=name, **kwargs)
        self.weight_decay_rate = weight_decay_rate

    def _prepare_local(self, var_device, var_dtype, apply_state):
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[(var_device, var_dtype)]["weight_decay_rate"] = tf.constant(self.weight_decay_rate)

    def apply_gradients(self, grads_and_vars, name=None, experimental_aggregate_gradients=True):
        gradients, variables = zip(*grads_and_vars, strict=True)
        gradients, _ = tf.clip_by_global_norm(gradients, clip_norm=1.0)
        return super().apply_gradients(zip(gradients, variables, strict=True), name=name)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        shared = apply_state[(var.device, var.dtype.base_dtype)]
        decay = tf.no_op()
        if "bias" not in var.name:
            decay = var.assign_sub(
                shared["lr_t"] * var * shared["weight_decay_rate"], use_locking=self._use_locking
            )
        with tf.control_dependencies([decay]):
            return super()._resource_apply_dense(grad, var, apply_state=apply_state)


def trained(optimizer):
    w, b = tf.Variable([1.0, -2.0], name="w"), tf.Variable(0.5, name="bias")

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * w * w) + 3.0 * b
        optimizer.apply_gradients(zip(tape.gradient(loss, [w, b]), [w, b], strict=True))

    for x in (1.0, 0.5, 2.0):
        step(tf.constant(x))
    return [*w.numpy(), b.numpy()]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Momentum(0.1, 0.5), [0.5965, -1.193, -0.1375]),
        (
            lambda: Momentum(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5), 0.5),
            [0.798, -1.596, 0.171875],
        ),
        (lambda: Momentum(0.1, 0.5, decay=0.5, clipvalue=1.0), [0.85854167, -1.85625, 0.35625]),
        (lambda: Decoupled(0.1, 0.25), [0.6391602, -1.5651613, 0.20666301]),
    ],
)
def test_steps_are_those_of_the_program(make, expected):
    np.testing.assert_allclose(trained(make()), expected, rtol=2e-5)


def test_it_has_slots_numbers_and_a_configuration():
    optimizer = Momentum(0.1, 0.5)
    trained(optimizer)
    assert optimizer.get_slot_names() == ["momentum", "seen"]
    assert (optimizer.momentum, round(float(optimizer.lr), 5)) == (0.5, 0.1)
    config = optimizer.get_config()
    assert (config["name"], config["decay"], config["momentum"]) == ("Momentum", 0.0, 0.5)
    np.testing.assert_allclose(trained(Momentum.from_config(config)), [0.5965, -1.193, -0.1375], rtol=2e-5)


def test_fit_calls_apply_gradients_of_the_program():
    x, y = np.ones((8, 2), np.float32), np.full((8, 1), 30.0, np.float32)
    dense = tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,))
    model = tf.keras.Sequential([dense])
    model.compile(Decoupled(0.1, 0.25), "mse")
    model.fit(x, y, epochs=3, batch_size=8, verbose=0)
    np.testing.assert_allclose(np.ravel(dense.kernel), [1.2194207] * 2, rtol=2e-5)
    np.testing.assert_allclose(np.ravel(dense.bias), [0.2999987], rtol=2e-5)

    @tf.function
    def gradients():
        return model.optimizer.get_gradients(tf.reduce_sum(model(x) ** 2), [dense.bias])

    np.testing.assert_allclose(gradients()[0], [43.82144], rtol=2e-5)
