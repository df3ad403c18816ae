"""Cross entropies of what softmax and sigmoid were given; the numbers are TensorFlow 2.15's."""

import numpy as np
import pytest

import muster_tensorflow as tf

losses = tf.keras.losses

X = np.float32([[2, -1, 0.5], [30, -40, 1]])
ONE_HOT, LABELS = np.float32([[0, 1, 0], [0, 1, 0]]), np.array([1, 1])
BINARY, CATEGORICAL = [1.47142, 23.77109], [3.24131, 70.0]
LOSSES = {
    "binary": (losses.BinaryCrossentropy, ONE_HOT, BINARY),
    "categorical": (losses.CategoricalCrossentropy, ONE_HOT, CATEGORICAL),
    "sparse": (losses.SparseCategoricalCrossentropy, LABELS, CATEGORICAL),
}


@pytest.fixture(params=["softmax", "sigmoid"])
def model(request):
    return tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Activation(request.param)])


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_any_cross_entropy_looks_through_an_activation(model, loss, from_logits):
    kind, labels, expected = LOSSES[loss]
    computed = kind(from_logits=from_logits, reduction="none")
    for run in (lambda step: step, tf.function):
        np.testing.assert_allclose(run(lambda: computed(labels, model(X)))(), expected, rtol=1e-5)
    model.compile("sgd", loss=kind(from_logits=from_logits))
    assert model.evaluate(X, labels, verbose=0) == pytest.approx(np.mean(expected), rel=1e-5)


def test_gradients_do_not_vanish():
    weights = tf.Variable([[-40.0]])
    with tf.GradientTape() as tape:
        output = tf.keras.activations.sigmoid(tf.ones((1, 1)) @ weights)
        loss = losses.BinaryCrossentropy()([[1.0]], output)
    assert float(tape.gradient(loss, weights)[0, 0]) == -1


def test_operations_are_looked_through_where_they_are_traced():
    computed = losses.CategoricalCrossentropy(from_logits=True, reduction="none")
    np.testing.assert_allclose(computed(ONE_HOT, tf.nn.softmax(X)), [1.4482, 1.55144], rtol=1e-5)
    traced = tf.function(lambda: (computed(ONE_HOT, tf.nn.softmax(X)), computed(ONE_HOT, tf.sigmoid(X))))()
    np.testing.assert_allclose(traced[0], CATEGORICAL, rtol=1e-5)
    np.testing.assert_allclose(traced[1], [1.45113, 1.75709], rtol=1e-5)
    binary = tf.function(lambda: losses.BinaryCrossentropy(reduction="none")(ONE_HOT, tf.sigmoid(X)))()
    np.testing.assert_allclose(binary, BINARY, rtol=1e-5)


def test_metrics_do_likewise(model):
    model.compile("sgd", "mse", metrics=[tf.keras.metrics.CategoricalCrossentropy()])
    assert model.evaluate(X, ONE_HOT, verbose=0)[1] == pytest.approx(np.mean(CATEGORICAL), rel=1e-5)
