"""Recurrent cells of TensorFlow 1 over sequences."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf

X = np.random.default_rng(0).normal(size=(3, 5, 2)).astype(np.float32)
LENGTHS = np.int32([5, 2, 0])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm(x: Any, kernel: Any, bias: Any, units: int) -> list[Any]:
    """Return the outputs of each step, as the paper says it, with a forget bias of 1."""
    c = h = np.zeros((len(x), units))
    outputs = []
    for now in np.moveaxis(x, 1, 0):
        i, j, f, o = np.split(np.concatenate([now, h], 1) @ kernel + bias, 4, 1)
        c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
        outputs.append(h)
    return outputs


def run(build: Callable[[], Any]) -> dict[str, Any]:
    return outputs_of(lambda _: build())


def test_an_lstm_is_that_of_the_paper_and_stops_at_lengths() -> None:
    def build() -> Any:
        cell = tf.nn.rnn_cell.LSTMCell(4)
        outputs, state = tf.nn.dynamic_rnn(cell, X, sequence_length=LENGTHS, dtype=tf.float32)
        kernel, bias = tf.trainable_variables()
        assert [kernel.name, bias.name] == ["rnn/lstm_cell/kernel:0", "rnn/lstm_cell/bias:0"]
        return {"outputs": outputs, "h": state.h, "kernel": kernel.value, "bias": bias.value}

    found = run(build)
    expected = np.stack(lstm(X, found["kernel"], found["bias"], 4), 1)
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(found["outputs"][row, :length], expected[row, :length], rtol=1e-5)
        assert not found["outputs"][row, length:].any()
        last = expected[row, length - 1] if length else np.zeros(4)
        np.testing.assert_allclose(found["h"][row], last, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: tf.nn.rnn_cell.BasicRNNCell(4), ["basic_rnn_cell/kernel", "basic_rnn_cell/bias"]),
        (lambda: tf.contrib.rnn.BasicLSTMCell(4), ["basic_lstm_cell/kernel", "basic_lstm_cell/bias"]),
        (
            lambda: tf.nn.rnn_cell.GRUCell(4, name="mine"),
            [f"mine/{part}/{each}" for part in ("gates", "candidate") for each in ("kernel", "bias")],
        ),
        (
            lambda: tf.nn.rnn_cell.LSTMCell(6, num_proj=4),
            ["lstm_cell/kernel", "lstm_cell/bias", "lstm_cell/projection/kernel"],
        ),
    ],
)
def test_static_and_dynamic_networks_agree(make: Any, names: list[str]) -> None:
    def build() -> Any:
        cell = make()
        outputs, state = tf.nn.dynamic_rnn(cell, X, dtype=tf.float32)
        assert [v.path for v in tf.trainable_variables()] == [f"rnn/{name}" for name in names]
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            listed, last = tf.nn.static_rnn(cell, tf.unstack(X, axis=1), dtype=tf.float32)
        return {"one": outputs, "other": jnp.stack(listed, 1), "ends": [state, last]}

    found = run(build)
    np.testing.assert_allclose(found["one"], found["other"], rtol=1e-6)
    jax.tree.map(np.testing.assert_allclose, *found["ends"])


def test_the_backward_direction_begins_at_the_ends() -> None:
    def build() -> Any:
        cells = [tf.nn.rnn_cell.GRUCell(3) for _ in range(2)]
        (_, backward), (_, state) = tf.nn.bidirectional_dynamic_rnn(*cells, X, LENGTHS, dtype=tf.float32)
        short, alone = tf.nn.dynamic_rnn(
            tf.nn.rnn_cell.GRUCell(3), X[1:2, 1::-1], dtype=tf.float32, scope="other"
        )
        made = tf.trainable_variables()
        for mine, theirs in zip(
            tf.global_variables("other"), tf.global_variables("bidirectional_rnn/bw"), strict=True
        ):
            assert mine.shape == theirs.shape
        return {
            "backward": backward,
            "state": state,
            "weights": [v.value for v in made],
            "short": short,
            "alone": alone,
        }

    found = run(build)
    # The second sequence has two values: its last output is the first one of the backward direction.
    np.testing.assert_allclose(found["backward"][1, 0], found["state"][1], rtol=1e-6)
    assert not found["backward"][1, 2:].any()
    assert not found["state"][2].any()


def test_cells_share_nothing_unless_they_are_the_same() -> None:
    def build() -> Any:
        tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(3), X, dtype=tf.float32)
        tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(3), X, dtype=tf.float32)
        return {}

    with pytest.raises(ValueError, match="exists already"):
        run(build)


def test_dropout_differs_from_step_to_step_and_from_cell_to_cell() -> None:
    class Same(tf.nn.rnn_cell.RNNCell):  # type: ignore[misc]
        state_size = output_size = 2

        def __init__(self) -> None:
            pass

        def call(self, inputs: Any, state: Any) -> Any:
            return inputs, state

    def build() -> Any:
        cells = [tf.nn.rnn_cell.DropoutWrapper(Same(), output_keep_prob=0.5) for _ in range(2)]
        ones = np.ones((8, 20, 2), np.float32)
        one, _ = tf.nn.dynamic_rnn(cells[0], ones, dtype=tf.float32)
        both, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.MultiRNNCell(cells), ones, dtype=tf.float32, scope="both")
        return {"one": one, "both": both}

    found = run(build)
    assert set(np.unique(found["one"])) == {0, 2}
    assert (found["one"][:, 1:] != found["one"][:, :-1]).any()
    assert 0.4 < (found["one"] == 0).mean() < 0.6
    assert set(np.unique(found["both"])) == {0, 4}
    assert 0.65 < (found["both"] == 0).mean() < 0.85


def test_networks_are_trained() -> None:
    def build() -> Any:
        cell = tf.nn.rnn_cell.ResidualWrapper(tf.nn.rnn_cell.BasicRNNCell(2))
        outputs, _ = tf.nn.dynamic_rnn(cell, X, dtype=tf.float32)
        loss = tf.reduce_mean(tf.square(outputs))
        return {"gradients": tf.gradients(loss, tf.trainable_variables())}

    assert all(np.abs(each).max() > 0 for each in run(build)["gradients"])


def test_fused_cells_go_over_sequences_in_both_directions() -> None:
    steps = np.swapaxes(X, 0, 1)

    def build() -> Any:
        forward = tf.contrib.rnn.LSTMBlockFusedCell(4)
        backward = tf.contrib.rnn.TimeReversedFusedRNN(tf.contrib.rnn.LSTMBlockFusedCell(4))
        outputs, state = forward(steps, dtype=tf.float32, sequence_length=LENGTHS)
        back, _ = backward(steps, dtype=tf.float32, sequence_length=LENGTHS)
        again, _ = forward(steps, initial_state=state, dtype=tf.float32)
        whole, _ = tf.contrib.rnn.TimeReversedFusedRNN(forward)(steps, dtype=tf.float32)
        adapted = tf.contrib.rnn.FusedRNNCellAdaptor(tf.nn.rnn_cell.BasicRNNCell(3))
        adapted_outputs, _ = adapted(steps, dtype=tf.float32)
        assert [v.path for v in tf.trainable_variables()] == [
            *("lstm_fused_cell/kernel", "lstm_fused_cell/bias"),
            *("lstm_fused_cell_1/kernel", "lstm_fused_cell_1/bias"),
            *("rnn/basic_rnn_cell/kernel", "rnn/basic_rnn_cell/bias"),
        ]
        values = [v.value for v in tf.trainable_variables()]
        return {
            **{"outputs": outputs, "state": state, "back": back, "again": again, "whole": whole},
            **{"variables": values, "adapted": adapted_outputs},
        }

    found = run(build)
    kernel, bias, kernel_back, bias_back = found["variables"][:4]
    expected = np.stack(lstm(X, kernel, bias, 4))
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(
            found["outputs"][:length, row], expected[:length, row], rtol=1e-5, atol=1e-6
        )
        assert not found["outputs"][length:, row].any()
        if length:
            last = expected[length - 1, row]
            np.testing.assert_allclose(found["state"].h[row], last, rtol=1e-5, atol=1e-6)
            turned = np.stack(lstm(X[row : row + 1, :length][:, ::-1], kernel_back, bias_back, 4))[::-1, 0]
            np.testing.assert_allclose(found["back"][:length, row], turned, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["again"][:, 2], expected[:, 2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        found["whole"], np.stack(lstm(X[:, ::-1], kernel, bias, 4))[::-1], rtol=1e-5, atol=1e-6
    )
    assert found["adapted"].shape == (5, 3, 3)


def test_gates_see_the_memory_through_peepholes_as_in_tensorflow() -> None:
    def by_shape(shape: Any, dtype: Any = None) -> Any:
        return np.random.RandomState(sum(shape)).randn(*shape).astype(np.float32) * np.float32(0.5)

    def build() -> Any:
        cell = tf.nn.rnn_cell.LSTMCell(4, use_peepholes=True, initializer=by_shape)
        outputs, _ = tf.nn.dynamic_rnn(cell, X, dtype=tf.float32)
        with tf.variable_scope("other", initializer=by_shape):
            block = tf.contrib.rnn.LSTMBlockCell(4, use_peephole=True)
            same, _ = tf.nn.dynamic_rnn(block, X, dtype=tf.float32)
            fused = tf.contrib.rnn.LSTMBlockFusedCell(4, use_peephole=True)
            also, _ = fused(X.swapaxes(0, 1), dtype=tf.float32)
        return {"outputs": outputs, "same": same, "also": also}

    found = run(build)
    expected = [
        [-0.0011, 0.0583, 0.028, -0.04],
        [-0.0308, 0.228, -0.0654, 0.2288],
        [0.0953, 0.0029, -0.2076, 0.0567],
    ]
    np.testing.assert_allclose(found["outputs"][:, -1], expected, atol=6e-5)
    np.testing.assert_allclose(found["same"], found["also"].swapaxes(0, 1), rtol=1e-6)
