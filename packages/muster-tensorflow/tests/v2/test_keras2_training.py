"""What layers get as ``training``, as in Keras 2; it fails when what is used of Keras changes."""

import contextlib

import numpy as np
import pytest

import muster_tensorflow as tf

X = np.ones((4, 2), "float32")
SCOPES = {
    "no strategy": contextlib.nullcontext,
    "mirrored": lambda: tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).scope(),
}
two_scopes = pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES.keys())


class Block(tf.keras.layers.Layer):
    """Notes what ``training`` is."""

    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(3)
        self.seen = []

    def call(self, x, training):
        self.seen.append(training)
        return self.dense(x)


class Attention(Block):
    """Has an argument behind it that must be given, too."""

    def call(self, x, training, mask):
        return super().call(x, training)


class Model(tf.keras.Model):
    """Leaves it to Keras to pass ``training`` on."""

    def __init__(self):
        super().__init__()
        self.block = Block()
        self.dense = tf.keras.layers.Dense(1)

    def call(self, x, training=False):
        return self.dense(self.block(x))


def last(values):
    return values[-1]


def test_a_layer_alone_is_not_training():
    block = Block()
    block(X)
    assert not any(block.seen)
    block(X, training=True)
    assert last(block.seen) is True


def test_the_layer_around_says_whether_it_is_training():
    model = Model()
    model(X)
    assert last(model.block.seen) is False
    model(X, training=True)
    assert last(model.block.seen) is True
    model(X)
    assert last(model.block.seen) is False


@two_scopes
def test_fit_trains_and_predict_does_not(scope):
    with scope():
        model = Model()
        model.compile("sgd", "mse")
    model.fit(X, X[:, :1], verbose=0)
    assert last(model.block.seen) is True
    assert model.predict(X, verbose=0).shape == (4, 1)
    assert last(model.block.seen) is False


@pytest.mark.parametrize("takes_training", [True, False])
@two_scopes
def test_dropout_in_a_layer_of_a_model_works_in_fit(scope, takes_training):
    class Dropping(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dropout = tf.keras.layers.Dropout(0.5)
            self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones", trainable=False)

        def call(self, x):
            return self.dense(self.dropout(x))

    class Taking(Dropping):
        def call(self, x, training=None):
            return super().call(x)

    with scope():
        model = (Taking if takes_training else Dropping)()
        model.compile("sgd", "mse")
    history = model.fit(X, X.sum(axis=1), validation_data=(X, X.sum(axis=1)), verbose=0).history
    assert history["loss"][0] > 0.1
    assert history["val_loss"][0] == pytest.approx(0, abs=1e-6)


def test_a_loss_is_outside_of_the_model():
    block = Block()

    class Compared(tf.keras.losses.Loss):
        def call(self, y_true, y_pred):
            return tf.reduce_mean(block(y_pred) ** 2)

    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(2)])
    block(X)
    model.compile("sgd", Compared())
    model.fit(X, X, verbose=0)
    assert not any(block.seen)


def test_what_one_layer_is_told_is_not_for_the_next():
    frozen, next_one = Block(), Block()

    class Both(tf.keras.Model):
        def call(self, x, training=False):
            return next_one(frozen(x, training=False))

    Both()(X, training=True)
    assert (last(frozen.seen), last(next_one.seen)) == (False, True)


def test_a_functional_model_says_whether_it_is_training():
    block = Block()
    inputs = tf.keras.Input((2,))
    model = tf.keras.Model(inputs, block(inputs))
    model(X, training=True)
    assert last(block.seen) is True
    model(X)
    assert last(block.seen) is False


def test_arguments_behind_it_are_given_as_before():
    layer = Attention()
    layer(X, training=True, mask=None)
    assert last(layer.seen) is True
    with pytest.raises(TypeError, match="training"):
        layer(X, mask=None)
