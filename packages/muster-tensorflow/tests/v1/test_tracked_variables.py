"""``track_tf1_style_variables`` and ``make_template``: variables by name in eager code."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

v1 = tf.compat.v1
BATCH = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


class Encoder(tf.keras.layers.Layer):
    """Code of TensorFlow 1 as a layer."""

    @v1.keras.utils.track_tf1_style_variables
    def call(self, x: Any, training: Any = None) -> Any:
        with v1.variable_scope("encoder"):
            with v1.variable_scope("dense"):
                w = v1.get_variable(
                    "w", [3, 2], initializer=v1.ones_initializer(), regularizer=tf.keras.regularizers.L2(0.1)
                )
            x = v1.layers.dense(x @ w, 4)
            x = v1.layers.dense(x, 4, name="named")
            x = v1.layers.batch_normalization(x, training=training)
            x = v1.layers.dropout(x, training=training)
            return v1.layers.dense(x, 1, kernel_regularizer="l2")


NAMES = [
    *("encoder/batch_normalization/beta:0", "encoder/batch_normalization/gamma:0"),
    *("encoder/batch_normalization/moving_mean:0", "encoder/batch_normalization/moving_variance:0"),
    *("encoder/dense/w:0", "encoder/dense_1/bias:0", "encoder/dense_1/kernel:0"),
    *("encoder/dense_2/bias:0", "encoder/dense_2/kernel:0"),
    *("encoder/named/bias:0", "encoder/named/kernel:0"),
]


def test_a_layer_has_what_its_call_makes_under_the_names_of_tensorflow() -> None:
    layer = Encoder()
    first = layer(BATCH)
    assert sorted(each.name for each in layer.weights) == NAMES
    np.testing.assert_array_equal(layer(BATCH), first)
    assert len(layer.weights) == len(NAMES)
    kernel = next(each for each in layer.weights if each.name == "encoder/dense_2/kernel:0")
    np.testing.assert_allclose(sorted(layer.losses), sorted([0.6, 0.01 * np.sum(np.square(kernel))]), 1e-6)


def test_moving_averages_move_and_dropout_draws_anew_in_training() -> None:
    layer = Encoder()
    layer(BATCH)
    mean = next(each for each in layer.non_trainable_variables if each.name.endswith("moving_mean:0"))
    outputs = [np.asarray(layer(BATCH, training=True)) for _ in range(2)]
    assert np.abs(mean).max() > 0
    assert not np.allclose(*outputs)


@pytest.mark.parametrize("functional", [True, False])
def test_fit_trains_it(functional: bool) -> None:
    class Model(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = Encoder()

        def call(self, x: Any, training: Any = None) -> Any:
            return self.encoder(x, training=training)

    model = Model()
    if functional:
        inputs = tf.keras.Input((3,))
        model = tf.keras.Model(inputs, Encoder()(inputs))
    model.compile("sgd", "mse")
    model.fit(BATCH, np.ones((4, 1)), epochs=2, verbose=0)
    assert sorted(each.name for each in model.weights) == NAMES
    w = next(each for each in model.weights if each.name == "encoder/dense/w:0")
    assert not np.allclose(w, 1)


def test_a_function_with_a_tape_trains_it() -> None:
    layer = Encoder()

    @tf.function
    def gradients(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x))
        return tape.gradient(loss, layer.trainable_variables)

    assert len(gradients(BATCH)) == len(gradients(BATCH)) == len(layer.trainable_variables) == 9
    assert len(layer.weights) == len(NAMES)


def test_weights_are_saved_and_loaded(tmp_path: Path) -> None:
    def model() -> Any:
        inputs = tf.keras.Input((3,))
        return tf.keras.Model(inputs, Encoder()(inputs))

    saved, loaded = model(), model()
    saved.save_weights(tmp_path / "it.weights.h5")
    loaded.load_weights(tmp_path / "it.weights.h5")
    np.testing.assert_array_equal(saved(BATCH), loaded(BATCH))


def test_layers_that_are_attributes_take_names_in_turn() -> None:
    class Layers(tf.keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = v1.layers.Dense(3), v1.layers.Dense(3, name="fix")

        @v1.keras.utils.track_tf1_style_variables
        def call(self, x: Any) -> Any:
            with v1.variable_scope("o"):
                x = self.second(self.first(x))
                with v1.variable_scope("dense_1"):
                    pass
                return v1.layers.dense(x, 3)

    layer = Layers()
    layer(BATCH)
    layer(BATCH)
    names = {each.name: each for each in layer.weights}
    assert sorted(names) == [
        f"o/{name}/{kind}:0" for name in ("dense", "dense_2", "fix") for kind in ("bias", "kernel")
    ]
    assert names["o/dense/kernel:0"] is layer.first.kernel


def test_a_layer_may_make_its_own_variables_at_its_first_call() -> None:
    class Scaled(tf.keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.scale: Any = None

        @v1.keras.utils.track_tf1_style_variables
        def call(self, x: Any) -> Any:
            if self.scale is None:
                self.scale = tf.Variable(2.0)
            return x * self.scale

    layer = Scaled()
    np.testing.assert_array_equal(layer(BATCH), layer(BATCH))
    assert layer.weights == [layer.scale]
    with pytest.raises(ValueError, match="cannot add new elements of state"):
        layer.other = tf.Variable(1.0)


def test_a_module_and_a_nested_layer_have_their_own_variables() -> None:
    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = Encoder()

        @v1.keras.utils.track_tf1_style_variables
        def __call__(self, x: Any) -> Any:
            with v1.variable_scope("m"):
                return v1.layers.dense(self.encoder(x), 2) * v1.get_variable("s", [])

    module = Model()
    module(BATCH)
    module(BATCH)
    names = {each.name for each in module.variables if "seed" not in each.name}
    assert names == {*(f"m/{name}" for name in NAMES), "m/dense/kernel:0", "m/dense/bias:0", "m/s:0"}
    assert len(module.encoder.weights) == len(NAMES)


def test_it_is_for_methods() -> None:
    @v1.keras.utils.track_tf1_style_variables
    def function(x: Any) -> Any:
        return x

    with pytest.raises(TypeError, match=r"methods of a tf\.keras\.layers\.Layer.* got one of 1\.0"):
        function(1.0)


def test_without_it_variables_of_eager_code_are_new_at_each_call() -> None:
    with v1.variable_scope("s"):
        first, second = (v1.get_variable("b/c", [2], initializer=v1.zeros_initializer()) for _ in range(2))
    assert first is not second
    assert (first.name, first.path, first.numpy().tolist()) == ("s/b/c:0", "s/b/c", [0, 0])
    assert tf.Variable(1.0, name="p/q").path == "p/q"


def test_a_template_has_the_same_variables_at_each_call() -> None:
    def scaled(x: Any, name: str) -> Any:
        return x * v1.get_variable(name, [], initializer=v1.constant_initializer(1.5))

    template = v1.make_template("scale", scaled, name="y")
    assert (float(template(2.0)), float(template(3.0))) == (3.0, 4.5)
    assert [each.name for each in template.variables] == ["scale/y:0"]
    with pytest.raises(ValueError, match="takes no custom_getter_"):
        v1.make_template("scale", scaled, custom_getter_=lambda: None)

    class Scale(tf.keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.template = v1.make_template("scale", scaled, name="y")

        @v1.keras.utils.track_tf1_style_variables
        def call(self, x: Any) -> Any:
            with v1.variable_scope("layer"):
                return self.template(self.template(x))

    layer = Scale()
    np.testing.assert_allclose(layer(BATCH), 2.25 * BATCH)
    assert [each.name for each in layer.weights] == ["layer/scale/y:0"]


def test_a_template_in_a_model_fn_has_variables_of_the_model(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        template = v1.make_template("both", lambda x: v1.layers.dense(x, 1, name="dense"))
        loss = v1.losses.mean_squared_error(labels, template(features) + template(2 * features))
        train_op = v1.train.AdamOptimizer().minimize(loss, v1.train.get_global_step())
        return v1.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = v1.estimator.Estimator(model_fn, tmp_path)
    estimator.train(lambda: tf.data.Dataset.from_tensors((BATCH, np.ones((4, 1), np.float32))))
    paths = [each for each in estimator.get_variable_names() if each.startswith("both/")]
    assert paths == ["both/dense/bias", "both/dense/kernel"]


def test_replicas_train_it_in_a_custom_loop() -> None:
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    with strategy.scope():
        layer, optimizer = Encoder(), tf.keras.optimizers.SGD(0.1)

    def replica(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((layer(x, training=True) - 1) ** 2)
        variables = layer.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    @tf.function
    def step(x: Any) -> Any:
        return strategy.reduce("MEAN", strategy.run(replica, args=(x,)), axis=None)

    dataset = tf.data.Dataset.from_tensors(BATCH).repeat(3)
    assert all(np.isfinite(step(x)) for x in strategy.experimental_distribute_dataset(dataset))
    assert sorted(each.name for each in layer.weights) == NAMES


def test_get_or_create_layer() -> None:
    """Values of Keras 2.15: the model is made once, and its variables and losses are the layer's."""
    made = []

    class Nested(tf.keras.layers.Layer):
        def build_model(self) -> Any:
            made.append(1)
            inputs = tf.keras.Input(shape=(5,))
            dense = tf.keras.layers.Dense(10, kernel_regularizer="l2", kernel_initializer="ones")
            return tf.keras.Model(inputs, dense(inputs))

        @tf.compat.v1.keras.utils.track_tf1_style_variables
        def call(self, inputs: Any) -> Any:
            return tf.compat.v1.keras.utils.get_or_create_layer("dense_model", self.build_model)(inputs)

    layer = Nested()
    layer(tf.ones((2, 5)))
    assert layer(tf.ones((2, 5))).numpy().tolist() == [[5.0] * 10] * 2
    assert len(made) == 1
    assert [tuple(weight.shape) for weight in layer.weights] == [(5, 10), (10,)]
    assert float(tf.add_n(layer.losses)) == pytest.approx(0.5)
