"""More cells of ``tf.contrib.rnn``, and cells around others."""

from typing import Any

import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf
from muster_tensorflow.contrib import rnn

X = np.random.default_rng(0).normal(size=(3, 5, 2)).astype(np.float32)
IDS = np.array([[0, 1, 2, 3, 0]] * 3)


def by_shape(shape: Any, dtype: Any = None) -> Any:
    return np.random.RandomState(sum(shape)).randn(*shape).astype(np.float32) * np.float32(0.5)


def run(make: Any, inputs: Any = X) -> dict[str, Any]:
    def build(_: Any) -> dict[str, Any]:
        with tf.variable_scope("model", initializer=by_shape):
            outputs, state = tf.nn.dynamic_rnn(make(), inputs, dtype=tf.float32)
        weights = {each.path.removeprefix("model/rnn/"): each.value for each in tf.trainable_variables()}
        return {"outputs": outputs, "state": state, "weights": weights}

    return outputs_of(build)


def test_outputs_and_inputs_are_projected() -> None:
    inner = run(lambda: tf.nn.rnn_cell.GRUCell(4))
    found = run(lambda: rnn.OutputProjectionWrapper(tf.nn.rnn_cell.GRUCell(4), 3, activation=tf.nn.relu))
    kernel = found["weights"]["output_projection_wrapper/kernel"]
    wanted = np.maximum(inner["outputs"] @ kernel, 0)
    np.testing.assert_allclose(found["outputs"], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["state"], inner["state"], rtol=1e-6)
    found = run(lambda: rnn.InputProjectionWrapper(tf.nn.rnn_cell.GRUCell(4), 2))
    kernel = found["weights"]["input_projection_wrapper/kernel"]
    inner = run(lambda: tf.nn.rnn_cell.GRUCell(4), X @ kernel)
    np.testing.assert_allclose(found["outputs"], inner["outputs"], rtol=1e-5, atol=1e-6)


def test_classes_are_embedded() -> None:
    found = run(lambda: rnn.EmbeddingWrapper(tf.nn.rnn_cell.GRUCell(4), 4, 2, by_shape), IDS)
    table = found["weights"]["embedding_wrapper/embedding"]
    inner = run(lambda: tf.nn.rnn_cell.GRUCell(4), table[IDS])
    np.testing.assert_allclose(found["outputs"], inner["outputs"], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"more than 0 classes and values, got \(0, 2\)"):
        rnn.EmbeddingWrapper(tf.nn.rnn_cell.GRUCell(4), 0, 2)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def normalized(values: Any) -> Any:
    return (values - values.mean(1, keepdims=True)) / np.sqrt(values.var(1, keepdims=True) + 1e-12)


@pytest.mark.parametrize("norm", [True, False])
def test_an_lstm_that_normalizes(norm: bool) -> None:
    found = run(lambda: rnn.LayerNormBasicLSTMCell(4, layer_norm=norm, norm_gain=0.5, norm_shift=0.25))
    kernel = found["weights"]["layer_norm_basic_lstm_cell/kernel"]
    assert len(found["weights"]) == (11 if norm else 2)

    def finished(values: Any) -> Any:
        return normalized(values) * 0.5 + 0.25 if norm else values

    c = h = np.zeros((3, 4))
    for now in X.swapaxes(0, 1):
        i, j, f, o = map(finished, np.split(np.concatenate([now, h], 1) @ kernel, 4, 1))
        c = finished(c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j))
        h = np.tanh(c) * sigmoid(o)
    np.testing.assert_allclose(found["outputs"][:, -1], h, rtol=1e-4, atol=1e-5)


def test_an_lstm_that_normalizes_may_drop_values() -> None:
    kept = run(lambda: rnn.LayerNormBasicLSTMCell(4))
    found = run(lambda: rnn.LayerNormBasicLSTMCell(4, dropout_keep_prob=0.5))
    assert not np.allclose(found["outputs"], kept["outputs"])
