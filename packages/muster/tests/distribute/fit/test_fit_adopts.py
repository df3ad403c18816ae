"""Models that Keras alone has trained before they are given a dataset."""

from typing import Any

import numpy as np
import pytest

from muster._keras import keras
from muster.data import Dataset

X, Y = np.ones((6, 2), np.float32), np.ones((6, 1), np.float32)


def test_arrays_first_and_then_a_dataset() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X, Y, batch_size=3, verbose=0)
    first = model.evaluate(X, Y, verbose=0)
    predicted = model.predict(X, verbose=0)

    data = Dataset.from_tensor_slices((X, Y)).batch(3)
    np.testing.assert_allclose(model.evaluate(data, verbose=0), first, rtol=1e-6)
    np.testing.assert_allclose(model.predict(data.map(lambda x, y: x), verbose=0), predicted, rtol=1e-6)
    model.fit(data, verbose=0)
    assert int(model.optimizer.iterations) == 4
    assert model.evaluate(X, Y, verbose=0) < first


@pytest.mark.samples("on_epoch_end")
@pytest.mark.parametrize("hook", ["on_train_begin", "on_epoch_begin", "on_train_batch_end", "on_epoch_end"])
def test_callbacks_of_a_fit_with_arrays_take_datasets(hook: str) -> None:
    pairs = Dataset.from_tensor_slices((X, Y)).batch(4)
    inputs = Dataset.from_tensor_slices(X).batch(4)
    seen = []

    def look(self: Any, *args: Any, **kwargs: Any) -> None:
        model = self.model
        seen.append((model.evaluate(pairs, verbose=0), model.evaluate(X, Y, verbose=0)))
        for data in (inputs, pairs):
            np.testing.assert_allclose(model.predict(data, verbose=0), model.predict(X, verbose=0))

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = type("Looking", (keras.callbacks.Callback,), {hook: look})
    model.fit(X, Y, batch_size=3, epochs=2, verbose=0, validation_split=0.5, callbacks=[callback()])
    assert len(seen) == (1 if hook == "on_train_begin" else 2)
    for found, expected in seen:
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    model.fit(pairs, verbose=0)
    assert int(model.optimizer.iterations) == 4
