"""Variables of layers have Keras 2's names, by which programs choose them."""

import numpy as np

import muster_tensorflow as tf

X = np.ones((2, 3), np.float32)


def names(layer):
    return [each.name for each in layer.weights]


class Outer(tf.keras.Model):
    def __init__(self):
        super().__init__(name="outer")
        self.recurrent = tf.keras.layers.LSTM(3, name="lstm")
        self.net = tf.keras.Sequential([tf.keras.layers.Dense(4, name="inner")])
        self.scale = tf.Variable(1.0, name="scale")

    def call(self, x):
        return self.recurrent(self.net(x)[:, None]) * self.scale


class Own(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__(name="own")
        self.first = self.add_weight("first", (2,))

    def build(self, shape):
        self.second = self.add_weight(name="second", shape=(2,))

    def call(self, x):
        return x


def test_names_begin_with_those_of_the_layers_around_them():
    model = Outer()
    model(X)

    assert sorted(names(model)) == sorted(
        [
            "scale:0",
            *(f"outer/lstm/lstm_cell/{each}:0" for each in ("kernel", "recurrent_kernel", "bias")),
            *(f"inner/{each}:0" for each in ("kernel", "bias")),
        ]
    )


def test_a_functional_or_sequential_model_is_no_part_of_names():
    dense, norm = tf.keras.layers.Dense(2, name="d"), tf.keras.layers.BatchNormalization(name="n")
    inputs = tf.keras.Input((3,))
    tf.keras.Model(inputs, norm(tf.keras.Sequential([dense])(inputs)))

    assert names(dense) == ["d/kernel:0", "d/bias:0"]
    assert names(norm) == ["n/gamma:0", "n/beta:0", "n/moving_mean:0", "n/moving_variance:0"]


def test_a_functional_model_that_a_layer_makes_has_names_of_its_own():
    class Wrapped(tf.keras.layers.Layer):
        made = None

        @tf.compat.v1.keras.utils.track_tf1_style_variables
        def call(self, x):
            if self.made is None:
                inputs = tf.keras.Input(shape=x.shape[1:])
                self.made = tf.keras.Model(inputs, tf.keras.layers.Dense(4, name="dense")(inputs))
            return self.made(x)

    layer = Wrapped()
    layer(X)
    assert names(layer) == ["dense/kernel:0", "dense/bias:0"]


def test_variables_of_init_have_no_layers_name_and_those_of_build_have():
    layer = Own()
    layer(X)

    assert names(layer) == ["first:0", "own/second:0"]
    assert [each.name for each in tf.keras.metrics.Mean().variables] == ["total:0", "count:0"]


def test_weight_decay_leaves_out_what_a_program_names():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(3), tf.keras.layers.Dense(3)])
    left_out = model.layers[1].name
    optimizer = tf.keras.optimizers.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=[left_out])
    before = model.get_weights()

    optimizer.apply([tf.zeros_like(each) for each in model.trainable_variables], model.trainable_variables)

    changed = [bool((a != b).any()) for a, b in zip(before, model.get_weights(), strict=True)]
    assert changed == [True, False, False, False]  # the bias is zero


def test_adafactor_calls_its_variables_as_the_models_are_called():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4)])
    model.compile(tf.keras.optimizers.Adafactor(), "mse")

    model.fit(X, np.ones((2, 4)), verbose=0)

    assert names(model) == [f"{model.layers[0].name}/{each}:0" for each in ("kernel", "bias")]
