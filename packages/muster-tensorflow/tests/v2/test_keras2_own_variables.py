"""Layers that derive from Keras' own save and load all of their variables."""

import numpy as np
import pytest

import muster_tensorflow as tf

X = np.ones((2, 4, 3), np.float32)


def scaling(base):
    class Scaled(base):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.scale = tf.Variable(1.0, name="scale")

        def call(self, x):
            return super().call(x) * self.scale

    return Scaled


@pytest.mark.parametrize(
    ("base", "args"),
    [
        (tf.keras.layers.Dense, (2,)),
        (tf.keras.layers.Conv1D, (2, 2)),
        (tf.keras.layers.EinsumDense, ("btc,cd->btd", (None, 2))),
    ],
)
def test_variables_of_a_class_are_saved_beside_those_of_its_base(base, args, tmp_path):
    Scaled = scaling(base)
    model = tf.keras.Sequential([tf.keras.Input((4, 3)), Scaled(*args)])
    model.layers[0].scale.assign(3.0)
    model.save(tmp_path / "m.keras")

    found = tf.keras.models.load_model(tmp_path / "m.keras", custom_objects={"Scaled": Scaled})

    assert float(found.layers[0].scale) == 3
    np.testing.assert_array_equal(found(X), model(X))


def test_a_layer_may_load_its_weights_by_their_numbers(tmp_path):
    class Noted(tf.keras.layers.Dense):
        def __init__(self, units, **kwargs):
            super().__init__(units, **kwargs)
            self.noted = tf.Variable(np.arange(3), dtype=tf.float32)

        def save_own_variables(self, store):
            super().save_own_variables(store)
            store["noted"] = self.noted.numpy()

        def load_own_variables(self, store):
            self.noted.assign(store["noted"])
            for number, weight in enumerate(self.weights):
                weight.assign(store[f"{number}"])

    model = tf.keras.Sequential([tf.keras.Input((3,)), Noted(3)])
    model.layers[0].noted.assign([3.0, 4.0, 5.0])
    model.save(tmp_path / "m.keras")
    found = tf.keras.models.load_model(tmp_path / "m.keras", custom_objects={"Noted": Noted})

    np.testing.assert_array_equal(found.layers[0].noted, [3, 4, 5])
    np.testing.assert_array_equal(found(X[0]), model(X[0]))


@pytest.mark.parametrize("name", ["w.weights.h5", "w.h5", "w"])
def test_a_model_saves_weights_before_it_is_built(name, tmp_path):
    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(5)

        def call(self, x):
            return self.dense(x)

    net = Net()
    net.save_weights(tmp_path / name)

    assert list(tmp_path.iterdir())
    assert not net.built
