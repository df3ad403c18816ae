"""Labels of steps have the rank of outputs, as in Keras 2."""

import numpy as np
import pytest
from test_keras2_spellings import two_scopes

import muster_tensorflow as tf

X = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")
Y = (X[:, 0] > 0).astype("float32")


def absolute(y_true, y_pred):
    return tf.abs(y_true - y_pred)


class Agreeing(tf.keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="agreeing")
        self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        same = tf.cast((y_pred > 0.5) == (y_true > 0.5), "float32")
        if sample_weight is not None:
            same = same * sample_weight
        self.total.assign_add(tf.reduce_sum(same))

    def result(self):
        return self.total


def one_output(**kwargs):
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1, activation="sigmoid")])
    model.compile(loss="binary_crossentropy", **kwargs)
    return model


@two_scopes
def test_metrics_of_the_program_compare_labels_with_their_own_rows(scope):
    with scope():
        model = one_output(metrics=[absolute, Agreeing(), tf.keras.metrics.BinaryCrossentropy(name="bce")])
    found = model.evaluate(X, Y, batch_size=8, return_dict=True, verbose=0)
    outputs = model.predict(X, verbose=0)[:, 0]
    assert found["absolute"] == pytest.approx(np.abs(outputs - Y).mean(), rel=1e-5)
    assert found["agreeing"] == ((outputs > 0.5) == (Y > 0.5)).sum()
    assert found["bce"] == pytest.approx(found["loss"], rel=1e-5)


def test_weights_of_rows_have_the_rank_of_outputs():
    model = one_output(weighted_metrics=[Agreeing()])
    weights = np.arange(16, dtype="float32")
    found = model.evaluate(X, Y, sample_weight=weights, return_dict=True, verbose=0)
    outputs = model.predict(X, verbose=0)[:, 0]
    assert found["agreeing"] == pytest.approx((((outputs > 0.5) == (Y > 0.5)) * weights).sum())


def test_a_loss_of_keras_takes_a_label_for_several_outputs():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3)])
    model.compile(loss="mse")
    outputs = model.predict(X, verbose=0)
    assert model.evaluate(X, Y, verbose=0) == pytest.approx(((outputs - Y[:, None]) ** 2).mean(), rel=1e-5)


@pytest.mark.parametrize("by_name", [True, False], ids=["dict", "list"])
def test_each_of_several_outputs_gets_its_labels(by_name):
    inputs = tf.keras.Input((4,))
    outputs = [tf.keras.layers.Dense(1, name=name)(inputs) for name in ("first", "second")]
    model = tf.keras.Model(inputs, outputs)
    model.compile(loss=["mse", "mse"], metrics=[[absolute], [absolute]])
    labels = {"second": 2 * Y, "first": Y} if by_name else [Y, 2 * Y]
    found = model.evaluate(X, labels, return_dict=True, verbose=0)
    first, second = model.predict(X, verbose=0)
    assert found["first_absolute"] == pytest.approx(np.abs(first[:, 0] - Y).mean(), rel=1e-5)
    assert found["second_absolute"] == pytest.approx(np.abs(second[:, 0] - 2 * Y).mean(), rel=1e-5)


def test_labels_of_one_array_belong_to_all_outputs():
    inputs = tf.keras.Input((1,))
    outputs = [tf.keras.layers.Dense(1, kernel_initializer="ones")(inputs) for _ in range(2)]
    model = tf.keras.Model(inputs, outputs)
    model.compile("sgd", ["mse", "mae"])
    x = np.array([[1.0], [3.0]], np.float32)
    assert model.evaluate(x, np.float32([[0], [0]]), verbose=0)[0] == pytest.approx(5 + 2)


def test_a_models_own_loss_may_have_axes():
    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")

        def call(self, x):
            return self.dense(x)

        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None):
            return tf.reduce_sum(y - y_pred, axis=-1)

    model = Model()
    model.compile(tf.keras.optimizers.SGD(0.5))
    x = np.array([[1.0], [2.0], [3.0]], np.float32)
    history = model.fit(x, x, batch_size=3, epochs=2, verbose=0)
    # The gradient is that of the sum: 6, and half of it is added to the weight in each step.
    assert model.get_weights()[0].tolist() == [[6.0]]
    np.testing.assert_allclose(history.history["loss"], [2.0, -4.0])


def test_labels_of_the_only_output_may_have_its_name():
    inputs = tf.keras.Input((4,))
    functional = tf.keras.Model(inputs, tf.keras.layers.Dense(1, name="only")(inputs))
    for model in (functional, tf.keras.Sequential([inputs, tf.keras.layers.Dense(1, name="only")])):
        model.compile("sgd", "mse", metrics=[absolute])
        [found, absolutely] = model.evaluate(X, {"only": Y}, verbose=0)
        outputs = model.predict(X, verbose=0)[:, 0]
        assert found == pytest.approx(((outputs - Y) ** 2).mean(), rel=1e-5)
        assert absolutely == pytest.approx(np.abs(outputs - Y).mean(), rel=1e-5)
    with pytest.raises(ValueError, match="one output, 'only', and there are values for .*other"):
        functional.evaluate(X, {"other": Y}, verbose=0)


def test_weights_of_examples_go_to_outputs_by_their_names():
    def losses(weights):
        inputs = tf.keras.Input((1,))
        outputs = [tf.keras.layers.Dense(1, "relu", kernel_initializer="ones", name=n)(inputs) for n in "ab"]
        model = tf.keras.Model(inputs, outputs)
        model.compile(tf.keras.optimizers.SGD(0.0), {"a": "mse", "b": "mae"}, metrics={"a": ["mae"]})
        x, y = np.asarray([[1.0], [3.0]]), np.zeros((2, 1))
        labels = {"a": y, "b": y}
        batches = tf.data.Dataset.from_tensors((x, labels, weights))
        found = model.fit(batches, verbose=0).history
        if weights.keys() == labels.keys():  # of arrays, Keras 3 wants weights for all outputs
            assert model.fit(x, labels, sample_weight=weights, verbose=0).history == found
        return found

    weights = {"b": np.asarray([1.0, 0.0]), "a": np.asarray([0.0, 1.0])}
    assert losses(weights)["loss"] == [5]
    assert losses({"a": weights["a"]})["loss"] == [6.5]
    with pytest.raises(ValueError, match=r"sample_weight has \['c'\]; the model's outputs are \['a', 'b'\]"):
        losses(weights | {"c": weights["a"]})
