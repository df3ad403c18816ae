"""``LinearModel`` and ``WideDeepModel`` train as those of TensorFlow 2.15, which gave the numbers."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

X = {
    "b": np.linspace(-1, 1, 8, dtype=np.float32).reshape(8, 1),
    "a": np.linspace(0, 1, 16, dtype=np.float32).reshape(8, 2),
}
Y = np.linspace(2, 3, 8, dtype=np.float32).reshape(8, 1)
HOW: Any = {"batch_size": 4, "shuffle": False, "verbose": 0}


def test_a_linear_model_of_named_inputs() -> None:
    model = tf.keras.experimental.LinearModel(kernel_regularizer=tf.keras.regularizers.L2(0.1))
    model.compile("sgd", "mse")
    history = model.fit(X, Y, epochs=3, **HOW).history
    np.testing.assert_allclose(
        history["loss"], [6.227872848510742, 5.481480598449707, 4.827870845794678], 1e-5
    )
    np.testing.assert_allclose(model.evaluate(X, Y, verbose=0), 4.3427581787109375, 1e-5)
    np.testing.assert_allclose(model.bias, [0.2794232964515686], 1e-5)
    again = type(model).from_config(model.get_config())
    assert again.kernel_regularizer.l2 == pytest.approx(0.1)
    with pytest.raises(ValueError, match="The inputs lack b: there are a"):
        model.call({"a": X["a"]})


@pytest.mark.parametrize("inputs", [X["a"], [X["a"], X["b"]]], ids=["one", "list"])
def test_a_linear_model_of_inputs_without_names(inputs: Any) -> None:
    model = tf.keras.experimental.LinearModel(units=2, use_bias=False, kernel_initializer="ones")
    expected = X["a"].sum(1) + (X["b"][:, 0] if isinstance(inputs, list) else 0)
    np.testing.assert_allclose(model(inputs), np.stack([expected] * 2, 1), 1e-5)


@pytest.mark.parametrize("two", [True, False])
def test_a_wide_and_deep_model(two: bool) -> None:
    initial = {"kernel_initializer": tf.keras.initializers.Constant(0.5)}
    deep = tf.keras.Sequential(
        [tf.keras.layers.Dense(3, "relu", **initial), tf.keras.layers.Dense(1, kernel_initializer="ones")]
    )
    model = tf.keras.experimental.WideDeepModel(tf.keras.experimental.LinearModel(), deep, activation="tanh")
    model.compile(["sgd", tf.keras.optimizers.Adam(0.1)] if two else "sgd", "mse", metrics=["mae"])
    history = model.fit([X["a"], X["b"]], Y, epochs=2, **HOW).history
    predicted = model.predict([X["a"], X["b"]], verbose=0).ravel()[:3]
    if two:
        np.testing.assert_allclose(history["loss"], [4.645114421844482, 3.6315834522247314], 1e-5)
        np.testing.assert_allclose(history["mae"], [2.150653839111328, 1.9004600048065186], 1e-5)
        np.testing.assert_allclose(predicted, [0.44207608, 0.44965592, 0.45717155], 1e-5)
    else:
        np.testing.assert_allclose(history["loss"], [4.702117919921875, 4.187709808349609], 1e-5)
        np.testing.assert_allclose(
            predicted, [0.24092958867549896, 0.2522225081920624, 0.263447105884552], 1e-5
        )


def test_a_wide_and_deep_model_is_built_again_from_its_arguments() -> None:
    deep = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model = tf.keras.experimental.WideDeepModel(tf.keras.experimental.LinearModel(), deep)
    again = type(model).from_config(model.get_config())
    assert again(X["a"]).shape == model(X["a"]).shape == (8, 1)
