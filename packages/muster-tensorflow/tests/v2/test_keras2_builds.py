"""Layers that create a tf.Variable when another layer calls them for the first time."""

import numpy as np
import pytest

import muster_tensorflow as tf
from muster.distribute import MirroredStrategy


class Shifted(tf.keras.layers.Layer):
    """Adds what it computes when it is built."""

    def build(self, shape):
        places = tf.reshape(tf.range(shape[-1] * 2), (2, -1))
        self.places = tf.Variable(tf.where(places % 2 == 0, 10, places), trainable=False)
        self.scale = tf.Variable(tf.ones(shape[-1]) * 2)
        self.computed = tf.reduce_sum(places).numpy()

    def call(self, inputs):
        return inputs * self.scale + tf.cast(tf.gather(self.places, 1), tf.float32)


class Around(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.shifted = Shifted()

    def call(self, inputs):
        return self.shifted(inputs)


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.around = Around()

    def call(self, inputs):
        return self.around(inputs)


def functional():
    inputs = tf.keras.Input((3,))
    return tf.keras.Model(inputs, Around()(inputs))


@pytest.mark.parametrize("make", [functional, Model, lambda: tf.keras.Sequential([Around()])])
@pytest.mark.parametrize("devices", [0, 2])
def test_they_compute_and_train(make, devices):
    x = np.ones((4, 3), np.float32)
    if devices:
        with MirroredStrategy([f"cpu:{i}" for i in range(devices)]).scope():
            model = make()
            model.compile("sgd", "mse")
    else:
        model = make()
        model.compile("sgd", "mse")
    model.fit(x, x, verbose=0)
    layer = next(each for each in model.layers if isinstance(each, Around)).shifted
    assert layer.computed == 15
    np.testing.assert_array_equal(layer.places, [[10, 1, 10], [3, 10, 5]])
    # The gradients of the mean of (2 + place - 1)^2 over the columns are 2/3 (1 + place).
    np.testing.assert_allclose(layer.scale, 2 - 0.01 * 2 / 3 * np.array([4, 11, 6]), rtol=1e-6)
    assert len(model.trainable_weights) == 1


def test_a_layer_without_the_constructor_of_keras_is_saved_and_made_again(tmp_path):
    class Noted(tf.keras.layers.Layer):
        def __init__(self, start):
            self.var = tf.Variable(start)

        def get_config(self):
            return {"start": self.var.numpy()}

    layer = Noted(5)
    layer.var.assign(2)
    made = tf.keras.layers.deserialize(tf.keras.layers.serialize(layer), custom_objects={"Noted": Noted})
    prefix = tf.train.Checkpoint(layer=layer).save(tmp_path / "noted")

    assert made.var.numpy() == 2
    assert [*tf.train.load_checkpoint(prefix).get_variable_to_dtype_map().values()] == [np.int32]


def test_recurrent_layers_are_built_with_an_input_shape():
    for layer in (tf.keras.layers.LSTM(2), tf.keras.layers.Bidirectional(tf.keras.layers.SimpleRNN(2))):
        layer.build(input_shape=(None, None, 5))
        assert layer.built
        assert layer.weights[0].shape[0] == 5


def test_layers_take_weights():
    kernel, bias = np.arange(6, dtype=np.float32).reshape(3, 2), np.ones(2, np.float32)
    dense = tf.keras.layers.Dense(2, weights=[kernel, bias])
    np.testing.assert_array_equal(dense(np.eye(3, dtype=np.float32)), kernel + 1)
    first = tf.keras.layers.Conv2D(2, 1, input_shape=(4, 4, 3), weights=(kernel[None, None], bias))
    model = tf.keras.Sequential([first, tf.keras.layers.Flatten()])
    np.testing.assert_array_equal(model.get_weights()[0][0, 0], kernel)
    copy = tf.keras.models.clone_model(model)
    copy.set_weights([2 * each for each in model.get_weights()])
    np.testing.assert_array_equal(copy.get_weights()[0][0, 0], 2 * kernel)
    with pytest.raises(ValueError, match="weights"):
        tf.keras.layers.Dense(3, weights=[kernel])(np.eye(3, dtype=np.float32))


class Pair(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense, self.norm = tf.keras.layers.Dense(3), tf.keras.layers.BatchNormalization()

    def call(self, inputs, training=None):
        first, second = inputs.values() if isinstance(inputs, dict) else inputs
        return self.norm(self.dense(first) + self.dense(second), training=training)


@pytest.mark.parametrize(
    "shapes", [[(None, 2), (None, 2)], [[4, 2], tf.TensorShape([4, 2])], {"a": (None, 2), "b": (None, 2)}]
)
def test_build_of_a_model_builds_its_layers(shapes):
    model = Pair()
    model.build(shapes)
    assert model.built
    assert [tuple(each.shape) for each in model.dense.weights] == [(2, 3), (3,)]
    assert model.count_params() == 9 + 4 * 3
    kernel = model.dense.kernel
    model([tf.ones((1, 2))] * 2)
    assert model.dense.kernel is kernel


class Noting(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense, self.given = tf.keras.layers.Dense(3), None

    def call(self, inputs, training):
        self.given = training
        return self.dense(inputs)


def test_build_of_a_model_whose_call_asks_for_training():
    model = Noting()
    model.build((None, 2))
    assert model.given is False
    assert model.count_params() == 9


def test_build_of_a_model_with_sizes_of_numpy():
    for shape in ((None, np.prod((2, 3))), [np.int32(4), np.int64(6)]):
        model = Noting()
        model.build(shape)
        assert model.dense.kernel.shape == (6, 3)


def test_build_of_a_model_tells_what_is_wrong():
    with pytest.raises(ValueError, match="must be the shape of a batch, as a tuple, or a list or dict of"):
        Pair().build(3)

    class Failing(tf.keras.Model):
        def call(self, inputs):
            raise ValueError("Its own error.")

    with pytest.raises(ValueError, match=r"Its own error\."):
        Failing().build((None, 2))

    class Asking(tf.keras.Model):
        def call(self, inputs, training, scale, *, shift, mask=None, **others):
            return inputs * scale + shift

    with pytest.raises(ValueError, match=r"required for its `call\(\)` method: scale, shift\."):
        Asking().build((None, 2))
