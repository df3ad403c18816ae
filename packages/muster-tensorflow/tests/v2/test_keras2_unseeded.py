"""keras.random without a seed in steps; it fails when what is used of Keras changes."""

import jax
import keras
import numpy as np
import pytest

import muster_tensorflow as tf

X = np.ones((8, 2), "float32")


class Drawing(keras.Model):
    def train_step(self, data):
        return {"drawn": keras.random.uniform(())}


def strategies():
    return [tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])]


@pytest.mark.parametrize("place", [0, 1], ids=["one", "two"])
def test_that_each_step_of_fit_draws_other_numbers(place):
    with strategies()[place].scope():
        model = Drawing()
        model.compile(optimizer="sgd")
    drawn = model.fit(X, batch_size=8, epochs=3, verbose=0).history["drawn"]
    assert len(set(map(float, drawn))) == 3


def test_that_each_call_of_a_function_draws_other_numbers():
    @tf.function
    def draw():
        return keras.random.normal((2,)), keras.random.normal((2,))

    (first, second), (third, _) = draw(), draw()
    assert not np.allclose(first, second)
    assert not np.allclose(first, third)


def test_a_layer_of_keras_own_step():
    class Noise(keras.layers.Layer):
        def call(self, x):
            return x + keras.random.normal(keras.ops.shape(x))

    model = keras.Sequential([keras.Input((2,)), Noise()])
    model.compile(loss="mse")
    losses = [model.evaluate(X, X, verbose=0) for _ in range(2)]
    assert losses[0] != losses[1]


class DropPath(keras.layers.Layer):
    def call(self, x, training=False):
        return x * tf.floor(0.5 + tf.random.uniform((tf.shape(x)[0], 1))) if training else x


@pytest.mark.parametrize("strategy", strategies(), ids=["default", "mirrored"])
@pytest.mark.parametrize("called_before", [False, True])
def test_a_layer_that_draws_in_training_alone(strategy, called_before):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.drop = DropPath()

        def call(self, x, training=False):
            return self.drop(x, training=training)

    with strategy.scope():
        model = Model()
        if called_before:
            model(X)
        model.compile("sgd", "mse")
    losses = model.fit(X, 0 * X, batch_size=8, epochs=8, verbose=0).history["loss"]
    assert len({round(float(loss), 3) for loss in losses}) > 1
    assert model.evaluate(X, X, verbose=0) == 0


def test_that_jax_alone_still_needs_a_seed():
    with pytest.raises(ValueError, match="only use seeded random ops"):
        jax.jit(lambda: keras.random.normal((2,)))()


def test_a_model_that_only_draws_is_asked_to_predict_at_once():
    class Draws(tf.keras.Model):
        def call(self, logits):
            return tf.squeeze(tf.random.categorical(logits, 1), axis=-1)

    model = Draws()
    drawn = np.stack([model.predict(np.zeros((64, 5), np.float32), verbose=0) for _ in range(3)])
    assert drawn.shape == (3, 64)
    assert set(drawn.ravel().tolist()) == set(range(5))
    assert not np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[1], drawn[2])
    assert not np.array_equal(drawn[0, :32], drawn[0, 32:])  # another batch


class Dropping(keras.layers.Layer):
    """Makes a layer that draws at every call."""

    def call(self, x, training=None):
        return tf.keras.layers.Dropout(0.5)(x, training=training)


class OwnStep(keras.Model):
    def train_step(self, data):
        return {"loss": tf.reduce_sum(self(data[0], training=True))}


MODELS = {
    "functional": lambda x: keras.Model(x, Dropping()(x)),
    "own step": lambda x: OwnStep(x, Dropping()(x)),
}


@pytest.mark.parametrize("place", [0, 1], ids=["one", "two"])
@pytest.mark.parametrize("kind", MODELS)
def test_a_layer_that_is_made_at_every_call(kind, place):
    x = np.random.default_rng(0).random((32, 8)).astype("float32")
    with strategies()[place].scope():
        model = MODELS[kind](keras.Input((8,)))
        model.compile("sgd", "mse")
    losses = model.fit(x, 0 * x, batch_size=32, epochs=4, verbose=0).history["loss"]
    assert len(set(map(float, losses))) == 4
    np.testing.assert_array_equal(model.predict(x, verbose=0), x)


def test_a_layer_that_is_made_at_every_call_of_a_function():
    drop = tf.function(lambda x: Dropping()(x, training=True))
    x = np.ones((16, 16), "float32")
    drawn = {np.asarray(drop(x)).tobytes() for _ in range(4)}
    assert len(drawn) == 4


def test_that_a_layer_that_is_made_by_build_has_its_own_generator_alone():
    class Block(keras.layers.Layer):
        def build(self, shape):
            self.drop = keras.layers.Dropout(0.5)
            super().build(shape)

        def call(self, x, training=None):
            return self.drop(x, training=training)

    model = keras.Sequential([Block()])
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).random((8, 8)).astype("float32")
    losses = model.fit(x, 0 * x, batch_size=8, epochs=4, verbose=0).history["loss"]
    assert len(set(map(float, losses))) == 4
    assert [each.name for each in model.variables if "seed" in each.name] == ["seed_generator_state"]
