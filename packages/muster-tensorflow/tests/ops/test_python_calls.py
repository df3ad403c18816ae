"""`tf.numpy_function` and `tf.py_function` in steps, which call Python each time."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
from muster._errors import TraceError

X = np.linspace(0, 1, 8, dtype=np.float32).reshape(8, 1)


def model_with(**kwargs: Any) -> Any:
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(1,))])
    model.compile("sgd", **{"loss": "mse", **kwargs})
    return model


def test_metrics_of_python_are_called_for_each_batch() -> None:
    seen: list[float] = []

    def largest(y_true: Any, y_pred: Any) -> Any:
        if not y_true.any():
            raise ValueError("There are no labels.")
        seen.append(float(y_true.max()))
        return y_pred.max()

    def metric(y_true: Any, y_pred: Any) -> Any:
        return tf.numpy_function(largest, [y_true, y_pred], tf.double)

    def by_row(y_true: Any, y_pred: Any) -> Any:
        return tf.py_function(
            lambda true, pred: (true.numpy() + pred.numpy())[:, 0], (y_true, y_pred), tf.float32
        )

    _, found, mean = model_with(metrics=[metric, by_row]).evaluate(X, X, batch_size=4, verbose=0)
    assert sorted(seen) == [X[3, 0], 1]
    np.testing.assert_allclose([found, mean], [(X[3, 0] + 1) / 2, 1], rtol=1e-6)


def test_layers_and_steps_call_python() -> None:
    class Model(tf.keras.Model):
        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                predicted = self(x)
                weights, total = tf.numpy_function(
                    lambda a: [a * 0 + 2, a.sum()], [predicted], [tf.float32, tf.float32]
                )
                weights.set_shape(predicted.shape)
                loss = tf.reduce_mean(weights * (predicted - y) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss, "total": total}

    def doubled(x: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(lambda a: a * 2, [x], tf.float32), (None, 1))

    inputs = tf.keras.Input((1,))
    outputs = tf.keras.layers.Dense(1, kernel_initializer="ones")(tf.keras.layers.Lambda(doubled)(inputs))
    model = Model(inputs, outputs)
    model.compile(tf.keras.optimizers.SGD(0.1))
    logs = model.fit(X, X, verbose=0, shuffle=False).history
    np.testing.assert_allclose(logs["total"], [2 * X.sum()], rtol=1e-6)
    np.testing.assert_allclose(logs["loss"], [2 * (X**2).mean()], rtol=1e-6)
    # The gradient of what NumPy returns is none, as in TensorFlow.
    kernel, bias = model.get_weights()
    np.testing.assert_allclose(kernel, [[1 - 0.1 * (8 * X**2).mean()]], rtol=1e-6)
    np.testing.assert_allclose(bias, [-0.1 * (4 * X).mean()], rtol=1e-6)


def test_python_in_functions_of_datasets_reads_names_when_it_runs() -> None:
    namespace: dict[str, Any] = {"tf": tf, "scale": 1.0}
    of_module = eval("lambda x: tf.py_function(lambda t: t.numpy() * scale, [x], tf.float32)", namespace)

    def of_function() -> list[list[float]]:
        def shifted(x: Any) -> Any:
            return tf.numpy_function(lambda t: t + np.float32(offset), [x * kept], tf.float32)

        kept, offset = 1.0, 0.0
        shifting = data.map(shifted)
        kept, offset = 5.0, 10.0
        found = [[float(x) for x in shifting]]
        offset = 20.0
        return [*found, [float(x) for x in shifting]]

    data = tf.data.Dataset.from_tensor_slices(np.array([1.0, 2.0], np.float32))
    scaled = data.map(of_module)
    namespace["scale"] = 3.0
    assert [float(x) for x in scaled] == [3, 6]
    assert of_function() == [[11, 12], [21, 22]]


def test_losses_of_python_have_no_gradient() -> None:
    def loss(y_true: Any, y_pred: Any) -> Any:
        return tf.py_function(
            lambda true, pred: tf.reduce_mean((true - pred) ** 2), [y_true, y_pred], tf.float32
        )

    with pytest.raises(TraceError, match=r"gradient through tf\.py_function"):
        model_with(loss=loss).fit(X, X, verbose=0)


def test_results_keep_the_shapes_that_zeros_have() -> None:
    def metric(y_true: Any, y_pred: Any) -> Any:
        return tf.numpy_function(lambda true, pred: true[true > 0], [y_true, y_pred], tf.float32)

    said = r"returned arrays of the shapes \[\(7,\)\] in a step.*with zeros, which gave the shapes \[\(0,\)\]"
    with pytest.raises(Exception, match=said):
        model_with(metrics=[metric]).evaluate(X, X, verbose=0)


def test_an_error_for_zeros_is_told_where_results_are_no_numbers() -> None:
    def metric(y_true: Any, y_pred: Any) -> Any:
        return tf.numpy_function(
            lambda pred: np.linalg.inv(np.diag(pred[:, 0] + 1)[1:, 1:]), [y_pred], tf.float32
        )

    def singular(y_true: Any, y_pred: Any) -> Any:
        return tf.numpy_function(lambda true: np.linalg.inv(np.diag(true[1:, 0])), [y_true], tf.float32)

    model_with(metrics=[metric]).evaluate(X, X, verbose=0)
    with pytest.raises(
        Exception, match=r"shapes \[\(7, 7\)\] in a step.*failed \(LinAlgError: Singular matrix\)"
    ):
        model_with(metrics=[singular]).evaluate(X, X, verbose=0)


@pytest.mark.parametrize("tout", [[], tf.int64])
def test_what_returns_no_fractions_has_no_gradient_to_refuse(tout: Any) -> None:
    seen: list[float] = []

    def look(values: Any) -> Any:
        seen.append(float(values.numpy().sum()))
        return [] if tout == [] else len(values)

    def shown(x: Any) -> Any:
        tf.py_function(look, [x], tout)
        return x

    inputs = tf.keras.Input((1,))
    dense = tf.keras.layers.Dense(1, kernel_initializer="ones")
    model = tf.keras.Model(inputs, tf.keras.layers.Lambda(shown)(dense(inputs)))
    model.compile("sgd", "mse")
    model.fit(X, X + 1, batch_size=8, verbose=0)
    assert X.sum() in seen
    assert dense.bias.numpy() > 0
