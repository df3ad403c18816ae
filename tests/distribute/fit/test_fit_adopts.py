"""Models that Keras alone has trained before they are given a dataset."""

import numpy as np

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
