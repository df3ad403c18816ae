"""What Keras 2 took for the rate of an optimizer and the shape of inputs: tensors, one number."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

X, Y = np.ones((4, 3), np.float32), np.zeros((4, 1), np.float32)


@pytest.mark.parametrize(
    "rate", [tf.constant(0.25), np.float32(0.25), np.array(0.25)], ids=["jax", "numpy", "array"]
)
@pytest.mark.parametrize("name", ["SGD", "legacy.Ftrl", "legacy.Adam"])
def test_a_rate_may_be_a_tensor(name: str, rate: Any) -> None:
    optimizer: Any = tf.keras.optimizers
    for part in name.split("."):
        optimizer = getattr(optimizer, part)
    optimizer = optimizer(rate)
    assert float(optimizer.learning_rate) == 0.25
    assert type(optimizer).from_config(optimizer.get_config()).learning_rate == 0.25


def test_a_rate_may_be_a_variable_which_is_read_in_each_step() -> None:
    rate = tf.Variable(0.5)
    weight = tf.Variable(1.0)
    optimizer = tf.keras.optimizers.SGD(rate)
    for expected in (0.5, 0.25):
        optimizer.apply_gradients([(tf.constant(1.0), weight)])
        assert float(weight) == expected
        rate.assign(0.25)


def test_a_rate_may_be_computed_in_a_model_fn(tmp_path: Path) -> None:
    def optimizer() -> Any:
        step = tf.compat.v1.train.get_global_step()
        return tf.keras.optimizers.legacy.SGD(
            learning_rate=tf.compat.v1.train.exponential_decay(0.5, step, decay_steps=1, decay_rate=0.5)
        )

    estimator = tf.estimator.LinearEstimator(
        tf.estimator.RegressionHead(), [tf.feature_column.numeric_column("x")], tmp_path, optimizer
    )
    x = np.zeros((1, 1), np.float32)
    estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": x}, x + 1)).repeat(2))
    # The bias b of the loss (b - 1)^2 goes to 2 * 0.5, then stays, where the gradient is 0.
    bias = next(each for each in estimator.get_variable_names() if "bias" in each)
    np.testing.assert_allclose(estimator.get_variable_value(bias), 1.0, 1e-6)


def test_one_number_is_the_shape_of_a_vector() -> None:
    inputs = tf.keras.Input(3)
    assert inputs.shape == (None, 3)
    assert tf.keras.Input(shape=3, batch_size=2).shape == (2, 3)
    model = tf.keras.Sequential([tf.keras.layers.InputLayer(3), tf.keras.layers.Dense(1)])
    assert model(X).shape == (4, 1)
