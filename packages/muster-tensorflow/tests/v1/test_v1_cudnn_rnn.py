"""``tf.contrib.cudnn_rnn``: layers of cuDNN as cells compute them."""

from typing import Any

import numpy as np
import pytest
from v1_steps import outputs_of

import muster_tensorflow.compat.v1 as tf
from muster_tensorflow import contrib

X = np.random.default_rng(0).normal(size=(4, 3, 2)).astype(np.float32)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def test_lstm_layers_have_no_forget_bias_and_the_names_of_cells() -> None:
    def build(_: Any) -> Any:
        outputs, (h, c) = contrib.cudnn_rnn.CudnnLSTM(2, 3, dropout=0.5)(X, training=False)
        names = [variable.op.name for variable in tf.trainable_variables()]
        assert names == [
            f"cudnn_lstm/rnn/multi_rnn_cell/cell_{cell}/cudnn_compatible_lstm_cell/{name}"
            for cell in range(2)
            for name in ("kernel", "bias")
        ]
        first, _, second, _ = [variable.value for variable in tf.trainable_variables()]
        return {"outputs": outputs, "h": h, "c": c, "first": first, "second": second}

    found = outputs_of(build)
    values = X
    for number, kernel in enumerate((found["first"], found["second"])):
        c = h = np.zeros((3, 3))
        outputs = []
        for now in values:
            i, j, f, o = np.split(np.concatenate([now, h], 1) @ kernel, 4, 1)
            c = c * sigmoid(f) + sigmoid(i) * np.tanh(j)
            h = np.tanh(c) * sigmoid(o)
            outputs.append(h)
        values = np.stack(outputs)
        np.testing.assert_allclose(found["c"][number], c, rtol=1e-4)
    np.testing.assert_allclose(found["outputs"], values, rtol=1e-4)
    np.testing.assert_allclose(found["h"][1], h, rtol=1e-4)
    assert abs(found["first"]).max() <= np.sqrt(6 / 5)  # of a gate's (2, 3) and (3, 3)


def test_gru_cells_reset_after_the_multiplication() -> None:
    def build(_: Any) -> Any:
        outputs, (h,) = contrib.cudnn_rnn.CudnnGRU(1, 3, direction="bidirectional")(X)
        below = "gru/stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw/cudnn_compatible_gru_cell"
        forward = {
            variable.op.name.removeprefix(f"cudnn_{below}/"): variable.value
            for variable in tf.trainable_variables()
            if "/fw/" in variable.op.name
        }
        assert len(tf.trainable_variables()) == 12
        return {"outputs": outputs, "h": h, **forward}

    found = outputs_of(build)
    h = np.zeros((3, 3))
    for now in X:
        gates = sigmoid(np.concatenate([now, h], 1) @ found["gates/kernel"] + 1)
        r, u = np.split(gates, 2, 1)
        seen = now @ found["candidate/input_projection/kernel"] + found["candidate/input_projection/bias"]
        kept = h @ found["candidate/hidden_projection/kernel"]
        h = (1 - u) * np.tanh(seen + r * kept) + u * h
    np.testing.assert_allclose(found["outputs"][-1, :, :3], h, rtol=1e-4)
    np.testing.assert_allclose(found["h"][0], h, rtol=1e-4)
    np.testing.assert_array_equal(found["h"][1], found["outputs"][0, :, 3:])


def test_layers_begin_with_a_state_and_take_batches_first() -> None:
    def build(_: Any) -> Any:
        layers = contrib.cudnn_rnn.CudnnLSTM(1, 3, name="lstm")
        whole, _ = layers(X, training=False)
        before, state = layers(X[:2], training=False)
        after, _ = layers(X[2:].swapaxes(0, 1), state, time_major=False, training=False)
        return {"whole": whole, "parts": tf.concat([before, tf.transpose(after, [1, 0, 2])], 0)}

    found = outputs_of(build)
    np.testing.assert_allclose(found["parts"], found["whole"], rtol=1e-4)
    with pytest.raises(ValueError, match="direction must be one of"):
        contrib.cudnn_rnn.CudnnLSTM(1, 3, direction="both")
