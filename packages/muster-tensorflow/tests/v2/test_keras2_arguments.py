"""Layers take Python values by position, as in Keras 2; it fails when what is used of Keras changes."""

import numpy as np
import pytest

import muster_tensorflow as tf

X = np.ones((4, 2), "float32")


class Scaled(tf.keras.layers.Layer):
    """Notes its arguments."""

    def call(self, x, factor, scale=1.0, training=None, mask=None):
        self.seen = {"factor": factor, "scale": scale, "training": training, "mask": mask}
        return x * factor * scale


class Block(tf.keras.Model):
    """Passes ``training`` on by position."""

    def __init__(self):
        super().__init__()
        self.dropout = tf.keras.layers.Dropout(0.99, seed=1)
        self.scaled = Scaled()

    def call(self, x, training=False):
        return self.scaled(self.dropout(x, training), 1.0, 1.0, training)


def test_numbers_and_switches_come_by_position():
    layer = Scaled()
    np.testing.assert_array_equal(layer(X, 3, 2.0, True, None), 6 * X)
    assert layer.seen == {"factor": 3, "scale": 2.0, "training": True, "mask": None}
    np.testing.assert_array_equal(layer(X, tf.constant(3.0)), 3 * X)


def test_training_comes_by_position():
    dropout = tf.keras.layers.Dropout(0.99, seed=1)
    assert np.sum(dropout(X, True) != X) > np.sum(dropout(X, False) != X) == 0
    sequential = tf.keras.Sequential([tf.keras.layers.Dropout(0.99, seed=1)])
    assert np.sum(sequential(X, True) != X) > np.sum(sequential(X, False) != X) == 0


def test_functional_models_take_it_as_an_array_too():
    inputs = tf.keras.Input((2,))
    model = tf.keras.Model(inputs, Scaled()(inputs, 2))
    for training in (True, False, np.ones((4, 2))):
        np.testing.assert_array_equal(model(X, training), 2 * X)


def test_fit_says_in_which_way_it_calls():
    block = Block()
    block.compile("sgd", "mse")
    block.fit(X, X, verbose=0)
    assert block.scaled.seen["training"] is True
    np.testing.assert_array_equal(block.predict(X, verbose=0), X)
    assert not block.scaled.seen["training"]


@pytest.mark.parametrize("inputs", [2.0, [[2.0, 1.0]], [[2, 1]]])
def test_the_inputs_may_be_python_numbers(inputs):
    class Twice(tf.keras.layers.Layer):
        def call(self, x):
            return tf.convert_to_tensor(x) * 2

    np.testing.assert_array_equal(Twice()(inputs), 2 * np.asarray(inputs))


def test_add_variable_is_add_weight():
    class Own(tf.keras.layers.Layer):
        def build(self, input_shape):
            self.kernel = self.add_variable("kernel", [input_shape[-1], 3])
            self.bias = self.add_variable(name="bias", shape=(3,), trainable=False)

        def call(self, inputs):
            return tf.matmul(inputs, self.kernel) + self.bias

    layer = Own()
    assert layer(tf.ones([2, 4])).shape == (2, 3)
    assert (layer.kernel.shape, len(layer.trainable_variables)) == ((4, 3), 1)
    assert float(tf.keras.metrics.Mean()([2.0, 4.0])) == 3  # Keras 3's own calls


def test_aggregations_of_variables_are_tensorflows():
    class Own(tf.keras.layers.Layer):
        def build(self, input_shape):
            for each in tf.VariableAggregation:
                self.add_weight(name=each.name, shape=(2,), aggregation=each, trainable=False)

        def call(self, inputs):
            return inputs

    layer = Own()
    layer(tf.ones([1, 2]))
    assert [each.aggregation for each in layer.weights] == ["none", "sum", "mean", "only_first_replica"]


def test_sizes_that_a_layer_returns_are_arguments_of_another():
    class Halved(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.conv = tf.keras.layers.Conv2D(4, 2, 2)

        def call(self, images):
            images = self.conv(images)
            return images, tf.shape(images)[1], tf.shape(images)[2]

    class Flat(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(3)

        def call(self, images, height, width):
            return self.dense(tf.reshape(images, (-1, height * width, 4)))

    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.halved, self.flat = Halved(), Flat()

        def call(self, images):
            images, height, width = self.halved(images)
            return self.flat(images, height, width=width)

    model = Model()
    model.compile("sgd", "mse")
    model.fit(np.ones((4, 8, 6, 3)), np.ones((4, 12, 3)), verbose=0)
    assert model.predict(np.ones((2, 8, 6, 3)), verbose=0).shape == (2, 12, 3)


def test_a_functional_model_takes_a_number():
    x = tf.keras.Input(shape=())
    model = tf.keras.Model(x, 2 * x + 1)
    assert [float(model(2.0)), float(model(1))] == [5, 3]


def test_category_encoding_takes_the_older_name_of_its_size():
    layer = tf.keras.layers.CategoryEncoding(max_tokens=3, output_mode="one_hot")
    assert layer(tf.constant([2, 0])).numpy().tolist() == [[0, 0, 1], [1, 0, 0]]
    assert layer.get_config()["num_tokens"] == 3


def test_constants_beside_traced_values():
    a, b = tf.keras.Input((3,)), tf.keras.Input((3,))
    net = tf.keras.Model([a, b], tf.keras.layers.Add()([a, b]))

    @tf.function
    def call(x):
        constant = tf.ones((tf.shape(x)[0], 3))
        return tf.keras.layers.Concatenate()([net([constant, x]), constant])

    assert np.asarray(call(np.full((2, 3), 2, np.float32))).tolist() == [[3, 3, 3, 1, 1, 1]] * 2
