"""Stateful recurrent layers go on with the states of the last batch in `fit`, `evaluate` and `predict`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

layers = tf.keras.layers
X = np.ones((2, 3, 1), np.float32)


def model_of(*recurrent: Any, rows: int = 2) -> Any:
    model = tf.keras.Sequential([*recurrent, layers.Dense(1)])
    model.build((rows, 3, 1))
    model.compile(tf.keras.optimizers.SGD(0.0), "mse")
    return model


@pytest.mark.parametrize("as_dataset", [False, True])
def test_each_batch_begins_where_the_last_one_ended(as_dataset: bool) -> None:
    layer = layers.LSTM(3, stateful=True, batch_input_shape=(2, None, 1))
    model = model_of(layer)
    whole = model.predict(np.ones((2, 9, 1)), batch_size=2, verbose=0)
    model.reset_states()
    batches = np.concatenate([X, X, X])
    if as_dataset:
        found = model.predict(tf.data.Dataset.from_tensor_slices(batches).batch(2), verbose=0)
    else:
        found = model.predict(batches, batch_size=2, verbose=0)
    np.testing.assert_allclose(found[4:], whole, rtol=1e-5)
    ended = [np.asarray(each) for each in layer.states]
    model.reset_states()
    assert not np.any(layer.states[0])
    model.fit(batches, np.ones((6, 1)), batch_size=2, shuffle=False, verbose=0)
    for state, expected in zip(layer.states, ended, strict=True):
        np.testing.assert_allclose(state, expected, rtol=1e-5)
    first, second = (model.evaluate(X, np.ones((2, 1)), batch_size=2, verbose=0) for _ in range(2))
    assert first != second


def test_both_directions_keep_their_states() -> None:
    model = model_of(layers.Bidirectional(layers.GRU(2, stateful=True), batch_input_shape=(2, 3, 1)))
    first, second = (model.predict_on_batch(X) for _ in range(2))
    assert np.all(first != second)
    model.reset_states()
    np.testing.assert_allclose(model.predict_on_batch(X), first, rtol=1e-6)


def test_states_are_no_weights_and_in_no_checkpoint(tmp_path: Path) -> None:
    saved, other = (
        model_of(layers.GRU(2, stateful=True, batch_input_shape=(rows, 3, 1)), rows=rows) for rows in (2, 1)
    )
    assert len(saved.weights) == len(saved.get_weights()) == 5
    saved.predict_on_batch(X)
    path = tf.train.Checkpoint(model=saved).save(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(model=other).restore(path).assert_existing_objects_matched()
    for one, two in zip(saved.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
