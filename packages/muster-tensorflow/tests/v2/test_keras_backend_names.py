"""Names of Keras 2 that Keras 3 has elsewhere."""

import keras
import numpy as np
import pytest

import muster_tensorflow as tf

K = tf.keras.backend
X = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], np.float32)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("mean", (X,), X.mean()),
        ("sum", (X, 1), X.sum(1)),
        ("square", (X,), X**2),
        ("clip", (X, -1, 1), np.clip(X, -1, 1)),
        ("argmax", (X,), [2, 1]),
        ("argmin", (X,), [1, 2]),
        ("concatenate", ([X, X],), np.concatenate([X, X], -1)),
        ("expand_dims", (X,), X[..., None]),
        ("flatten", (X,), X.reshape(-1)),
        ("permute_dimensions", (X, (1, 0)), X.T),
        ("pow", (X, 2), X**2),
        ("l2_normalize", (X, 1), X / np.linalg.norm(X, axis=1, keepdims=True)),
        ("int_shape", (X,), (2, 3)),
        ("constant", (2.0, None, (2,)), [2.0, 2.0]),
        ("eval", (X,), X),
        ("shape", (X,), (2, 3)),
        ("arange", (1, 4), [1, 2, 3]),
        ("batch_flatten", (X[..., None],), X),
        ("count_params", (X,), 6),
        ("eye", (2,), np.eye(2)),
        ("gather", (X, [1]), X[[1]]),
        ("identity", (X,), X),
        ("in_top_k", (X, [1, 0], 2), [False, True]),
        ("one_hot", ([1], 2), [[0, 1]]),
        ("repeat", (X, 2), np.stack([X, X], 1)),
        ("slice", (X, [0, 1], [2, 1]), X[:, 1:2]),
        ("spatial_2d_padding", (X[None, :, :, None],), np.pad(X, 1)[None, :, :, None]),
        ("stop_gradient", (X,), X),
    ],
)
def test_functions_of_the_backend(name, arguments, expected):
    np.testing.assert_allclose(np.asarray(getattr(K, name)(*arguments)), expected, rtol=1e-6)


def test_the_backend_is_the_one_that_programs_ask_for():
    assert tf.keras.backend.backend() == "tensorflow"
    assert tf.keras.config.backend() == keras.backend.backend() == "jax"


def test_variables_of_the_backend():
    variable = K.variable([1.0, 2.0])
    K.set_value(variable, [3.0, 4.0])
    assert K.get_value(variable).tolist() == [3.0, 4.0]
    assert K.epsilon() == 1e-7
    assert K.random_normal((2, 3)).shape == K.random_uniform((2, 3)).shape == (2, 3)


def drawn(*shape, seed):
    return np.random.RandomState(seed).rand(*shape).astype(np.float32)


IMAGES, KERNEL = drawn(2, 5, 6, 3, seed=1), drawn(3, 2, 3, 4, seed=2)
SAME_MEANS = {"strides": (2, 2), "padding": "same", "pool_mode": "avg"}
STEPS, KERNEL_OF_STEPS = drawn(2, 7, 3, seed=3), drawn(3, 3, 2, seed=4)


# The sums, weighted by the places of the numbers, are those of TensorFlow 2.15.
@pytest.mark.parametrize(
    ("name", "arguments", "options", "shape", "weighted"),
    [
        ("conv2d", (IMAGES, KERNEL), {}, (2, 3, 5, 4), 6.73639),
        ("conv2d", (IMAGES, KERNEL), {"strides": (2, 1), "padding": "same"}, (2, 3, 6, 4), 1.28976),
        ("conv2d", (IMAGES, KERNEL), {"dilation_rate": (2, 2)}, (2, 1, 4, 4), 7.34353),
        ("conv1d", (STEPS, KERNEL_OF_STEPS), {"padding": "causal"}, (2, 7, 2), 2.24941),
        ("conv1d", (STEPS, KERNEL_OF_STEPS), {"strides": 2}, (2, 3, 2), -0.441105),
        ("pool2d", (IMAGES, (2, 2)), {}, (2, 4, 5, 3), 0.863143),
        (
            "pool2d",
            (IMAGES, (2, 2)),
            {"strides": (2, 2), "padding": "same", "pool_mode": "avg"},
            (2, 3, 3, 3),
            -0.735065,
        ),
        ("bias_add", (IMAGES, np.arange(3, dtype=np.float32)), {}, (2, 5, 6, 3), 0.516606),
        ("temporal_padding", (STEPS, (2, 1)), {}, (2, 10, 3), 0.716243),
    ],
)
def test_layers_of_the_backend(name, arguments, options, shape, weighted):
    found = np.asarray(getattr(K, name)(*arguments, **options))
    assert found.shape == shape
    assert (found.ravel() * np.cos(np.arange(found.size))).sum() == pytest.approx(weighted, rel=1e-4)


def test_updates_of_the_backend():
    variable = K.variable([1.0, 2.0])
    for update, value, expected in (
        (K.update_add, [1.0, 1.0], [2, 3]),
        (K.update_sub, [0.5, 0.5], [1.5, 2.5]),
        (K.update, [9.0, 9.0], [9, 9]),
    ):
        update(variable, value)
        assert K.get_value(variable).tolist() == expected
    K.moving_average_update(variable, np.ones(2, np.float32), 0.9)
    np.testing.assert_allclose(K.batch_get_value([variable]), [[8.2, 8.2]], rtol=1e-6)  # as in TensorFlow
    K.batch_set_value([(variable, [0.0, 0.0])])
    assert K.get_value(variable).tolist() == [0, 0]
    assert K.dtype(variable) == "float32"


def test_random_numbers_of_the_backend():
    ones = np.ones(10_000, np.float32)
    kept = np.asarray(K.dropout(ones, 0.25))
    assert set(np.unique(kept).tolist()) == {0.0, np.float32(1 / 0.75)}
    assert kept.mean() == pytest.approx(1, abs=0.05)
    assert np.asarray(K.random_bernoulli((10_000,), 0.25)).mean() == pytest.approx(0.25, abs=0.05)
    assert np.abs(np.asarray(K.truncated_normal((1000,)))).max() <= 2


def test_layers_of_the_backend_on_symbolic_tensors():
    image = tf.keras.Input((5, 6, 3))
    assert K.pool2d(K.conv2d(image, KERNEL), (2, 2)).shape == (None, 2, 4, 4)
    assert K.bias_add(image, np.ones(3, np.float32)).shape == (None, 5, 6, 3)
    assert K.dropout(image, 0.5).shape == (None, 5, 6, 3)
    assert K.batch_flatten(image).shape == (None, 90)


def test_short_names_of_losses():
    assert float(tf.keras.losses.mae(X[0], X[0] + 1)) == 1.0
    assert tf.keras.losses.MSE is tf.keras.losses.mse is tf.keras.losses.mean_squared_error
    assert tf.keras.metrics.mae is tf.keras.losses.mae


def test_layers_that_were_experimental():
    preprocessing = tf.keras.layers.experimental.preprocessing
    assert preprocessing.Rescaling is tf.keras.layers.Rescaling
    assert tf.keras.layers.experimental.EinsumDense is tf.keras.layers.EinsumDense
    assert tf.keras.layers.experimental.SyncBatchNormalization is tf.keras.layers.BatchNormalization
    with pytest.raises(AttributeError, match=r"Look for it in keras\.layers"):
        _ = preprocessing.PreprocessingLayer


# The sums, weighted by the places of the numbers, are those of TensorFlow 2.15.
@pytest.mark.parametrize(
    ("x", "y", "axes", "shape", "total"),
    [
        ((2, 3), (2, 3), None, (2, 1), -0.232),
        ((2, 3, 4), (2, 4, 5), None, (2, 3, 5), 209.188),
        ((2, 3, 4), (2, 5, 4), 2, (2, 3, 5), -69.102),
        ((2, 3, 4), (2, 3), (1, 1), (2, 4), -3.032),
        ((2, 4), (2, 4, 5), None, (2, 5), -47.318),
        ((2, 3, 4), (2, 4), None, (2, 3), 1.654),
        ((2, 3, 4, 5), (2, 5, 6), (3, 1), (2, 3, 4, 6), 1705.559),
        ((2, 3, 4), (2, 5, 6, 4), (-1, -1), (2, 3, 5, 6), 3450.423),
        ((2, 3, 4), (2, 5, 4, 6), None, (2, 3, 5, 6), -890.241),
    ],
)
def test_batch_dot(x, y, axes, shape, total):
    # The cases drew their numbers one after the other.
    cases = [
        *(((2, 3), (2, 3)), ((2, 3), (2, 3)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (2, 5, 4))),
        *(((2, 3, 4), (2, 5, 4)), ((2, 3, 4), (2, 3)), ((2, 4), (2, 4, 5)), ((2, 3, 4), (2, 4))),
        *(((2, 3, 4, 5), (2, 5, 6)), ((2, 3, 4), (2, 5, 6, 4)), ((2, 3, 4), (2, 5, 4, 6))),
    ]
    random = np.random.RandomState(0)
    drawn = [[random.randn(*sizes).astype(np.float32) for sizes in case] for case in cases]
    place = len(cases) - 1 - cases[::-1].index((x, y)) if (x, y) != ((2, 3), (2, 3)) else 0
    found = K.batch_dot(*drawn[place], axes)
    assert found.shape == shape
    weights = np.arange(np.prod(shape)).reshape(shape)
    assert float(np.sum(np.asarray(found) * weights)) == pytest.approx(total, abs=2e-3)
    symbolic = K.batch_dot(tf.keras.Input(x[1:]), tf.keras.Input(y[1:]), axes)
    assert symbolic.shape == (None, *shape[1:])


def test_batch_dot_needs_axes_of_examples_contents():
    with pytest.raises(ValueError, match="axis 0"):
        K.batch_dot(np.ones((2, 3)), np.ones((2, 3)), 0)


def test_axes_and_repeated_elements():
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    assert K.ndim(x) == K.ndim(tf.keras.Input((3,))) == 2
    assert np.asarray(K.reverse(x, [0, 1])).tolist() == x[::-1, ::-1].tolist()
    assert np.asarray(K.repeat_elements(x, 2, 1)).tolist() == np.repeat(x, 2, 1).tolist()


@pytest.mark.parametrize("draw", [K.random_normal, K.random_uniform])
def test_random_numbers_of_a_layer_may_have_the_shape_of_its_input(draw):
    class Noise(tf.keras.layers.Layer):
        def call(self, inputs):
            return inputs + draw(shape=(tf.shape(inputs)[0], tf.shape(inputs)[1]))

    inputs = tf.keras.Input((3,))
    model = tf.keras.Model(inputs, Noise()(inputs))
    assert model.predict(np.zeros((5, 3), "float32"), verbose=0).std() > 0
    with tf.GradientTape() as tape:  # eager code draws, too
        outputs = Noise()(tf.ones((2, 3)))
    del tape
    assert outputs.shape == (2, 3)
