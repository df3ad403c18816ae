"""Layers, metrics and helpers of Keras 2: numbers are those of TensorFlow 2.15."""

import numpy as np
import pytest

import muster_tensorflow as tf

keras = tf.keras
IMAGE = np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2) / 10
X = np.arange(12, dtype=np.float32).reshape(2, 3, 2) / 10


def with_counted_weights(layer, x, unit):
    layer(x)
    layer.set_weights(
        [np.arange(w.size, dtype=np.float32).reshape(w.shape) / unit for w in layer.get_weights()]
    )
    return np.asarray(layer(x))


def test_locally_connected_sequences():
    layer = keras.layers.LocallyConnected1D(2, 2, kernel_initializer="ones", bias_initializer="ones")
    np.testing.assert_allclose(layer(X), [[[1.6] * 2, [2.4] * 2], [[4] * 2, [4.8] * 2]], rtol=1e-5)
    assert [w.shape for w in layer.weights] == [(2, 4, 2), (2, 2)]


def test_locally_connected_images():
    layer = keras.layers.LocallyConnected2D(3, (2, 2), strides=(2, 2))
    found = with_counted_weights(layer, IMAGE, 10)
    np.testing.assert_allclose(found[0, 0], [[6.84, 7.38, 7.92], [28.74, 29.6, 30.46]], rtol=1e-5)
    np.testing.assert_allclose(found[0, 1, 1], [171.42, 173.56, 175.7], rtol=1e-5)
    again = keras.layers.LocallyConnected2D.from_config(layer.get_config())
    np.testing.assert_allclose(with_counted_weights(again, IMAGE, 10), found)
    with pytest.raises(ValueError, match="padding is 'valid'"):
        keras.layers.LocallyConnected2D(3, 2, padding="same")
    ones = {"kernel_initializer": "ones", "padding": "same", "implementation": 2}
    summed = keras.layers.LocallyConnected2D(1, 3, **ones)(np.ones((1, 3, 3, 1), np.float32))
    assert np.asarray(summed)[0, :, :, 0].tolist() == [[4, 6, 4], [6, 9, 6], [4, 6, 4]]


def test_locally_connected_images_with_channels_first():
    x = IMAGE.transpose(0, 3, 1, 2).repeat(2, 3)[:, :, :, :5]
    layer = keras.layers.LocallyConnected2D(3, (2, 3), data_format="channels_first")
    found = with_counted_weights(layer, x, 100)
    np.testing.assert_allclose(found[0, 0, 0], [1.317, 3.979, 7.925], rtol=1e-4)
    np.testing.assert_allclose(found[0, :, 2, 2], [85.025, 85.393, 85.761], rtol=1e-4)
    assert layer.compute_output_shape((None, 2, 4, 5)) == (None, 3, 3, 3)


def test_locally_connected_layers_are_trained_and_saved(tmp_path):
    model = keras.Sequential([keras.Input((3, 2)), keras.layers.LocallyConnected1D(2, 2)])
    model.compile("sgd", "mse")
    model.fit(X, np.zeros((2, 2, 2)), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again(X), model(X))


def test_a_threshold():
    layer = keras.layers.ThresholdedReLU(theta=1.0)
    assert np.asarray(layer(np.float32([[-1, 0.5, 1, 2]]))).tolist() == [[0, 0, 0, 2]]
    assert layer.get_config()["theta"] == 1.0
    with pytest.raises(ValueError, match="at least 0, got -1"):
        keras.layers.ThresholdedReLU(-1.0)


def test_an_own_cell():
    class Adding(keras.layers.AbstractRNNCell):
        @property
        def state_size(self):
            return 2

        @property
        def output_size(self):
            return 2

        def call(self, inputs, states):
            return inputs + states[0], [inputs + states[0]]

    assert Adding().get_initial_state(X[:, 0]).shape == (2, 2)
    np.testing.assert_allclose(keras.layers.RNN(Adding())(X), [[0.6, 0.9], [2.4, 2.7]], rtol=1e-5)
    with pytest.raises(NotImplementedError, match="no call"):
        keras.layers.AbstractRNNCell()(X[:, 0], [X[:, 0]])


def test_recurrent_layers_of_cudnn():
    layers = tf.compat.v1.keras.layers
    for old, new in ((layers.CuDNNLSTM, keras.layers.LSTM), (layers.CuDNNGRU, keras.layers.GRU)):
        one, other = old(3, return_sequences=True), new(3, return_sequences=True)
        one.build(X.shape), other.build(X.shape)
        other.set_weights(one.get_weights())
        np.testing.assert_allclose(one(X), other(X))


def test_recurrent_layers_of_tensorflow_1():
    """Their gates are hard sigmoids; a GRU's reset gate is applied before the multiplication."""
    layers = tf.compat.v1.keras.layers
    for name in ("LSTM", "GRU", "LSTMCell", "GRUCell"):
        older = getattr(layers, name)
        assert isinstance(older(3), getattr(keras.layers, name)), name
        assert older(3).get_config()["recurrent_activation"] == "hard_sigmoid", name
        assert older.from_config(older(3).get_config()).get_config()["recurrent_activation"] == "hard_sigmoid"
        assert older(3, "relu", "sigmoid").get_config()["activation"] == "relu", name
        config = older(3, "relu", "sigmoid", False, "ones", "zeros").get_config()
        assert [config[each] for each in ("recurrent_activation", "use_bias")] == ["sigmoid", False], name
        initializers = [config[f"{each}_initializer"]["class_name"] for each in ("kernel", "recurrent")]
        assert initializers == ["Ones", "Zeros"], name
        assert older(3, "relu").get_config()["recurrent_activation"] == "hard_sigmoid", name
    assert keras.Sequential([layers.GRU(4, input_shape=(None, 3))]).count_params() == 96
    cell = layers.LSTM(1, kernel_initializer="ones", recurrent_initializer="zeros", unit_forget_bias=False)
    # Of 2: the gates are 0.2 * 2 + 0.5, the new value is tanh(2).
    np.testing.assert_allclose(cell(np.array([[[2.0]]])), [[0.9 * np.tanh(0.9 * np.tanh(2))]], rtol=1e-6)


def test_layers_of_keras_2_configurations():
    dense = keras.layers.deserialize({"class_name": "Dense", "config": {"units": 3, "name": "of_text"}})
    assert (dense.units, dense.name) == (3, "of_text")
    assert keras.layers.deserialize(keras.layers.serialize(dense)).name == "of_text"

    class Mine(keras.layers.Layer):
        pass

    for custom in ("Mine", "Dense"):
        made = keras.layers.deserialize({"class_name": custom, "config": {}}, {custom: Mine})
        assert type(made) is Mine


def test_means_of_arrays():
    metric = keras.metrics.MeanTensor()
    with pytest.raises(ValueError, match="no array yet"):
        metric.result()
    metric.update_state([0, 1, 2, 3.0])
    metric.update_state([4, 5, 6, 7.0])
    assert np.asarray(metric.result()).tolist() == [2, 3, 4, 5]
    metric.reset_state()
    metric.update_state([4, 5, 6, 7.0], sample_weight=[1, 0.2, 0.5, 0])
    np.testing.assert_allclose(metric.result(), [4, 5, 6, 0], rtol=1e-6)
    with pytest.raises(ValueError, match=r"shape \(4,\), got \(2,\)"):
        metric.update_state([1.0, 2.0])
    assert keras.metrics.MeanTensor(shape=(2,)).get_config()["shape"] == (2,)


def test_relative_errors():
    metric = tf.metrics.MeanRelativeError(normalizer=[1, 3, 2, 3])
    metric.update_state([1, 3, 2, 3], [2, 4, 6, 8])
    assert float(metric.result()) == 1.25
    assert metric.get_config()["normalizer"] == [1, 3, 2, 3]


def test_names_of_losses():
    for module in (keras.losses, tf.losses, keras.metrics, tf.metrics):
        np.testing.assert_allclose(module.logcosh([[1.0, 2]], [[0.0, 4]]), [0.8793918], rtol=1e-5)
        assert module.kullback_leibler_divergence is module.KLD
    old = tf.compat.v1.keras
    for function in (old.losses.cosine_proximity, old.metrics.cosine):
        np.testing.assert_allclose(function([[1.0, 2]], [[0.0, 4]]), [-0.8944272], rtol=1e-5)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, [[0]]),
        (3, [[4, 4, 4], [4, 0, 4], [4, 4, 4]]),
        (4, [[15, 15, 15, 15], [15, 5, 5, 15], [15, 5, 5, 15], [15, 15, 15, 15]]),
    ],
)
def test_kernels_that_are_the_same_all_around(size, expected):
    kernel = np.arange(size * size, dtype=np.float32).reshape(size, size, 1, 1)
    assert np.asarray(keras.constraints.RadialConstraint()(kernel))[..., 0, 0].tolist() == expected


def test_classes_below():
    expected = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert keras.utils.to_ordinal([0, 1, 2, 3], 4).tolist() == expected
    assert keras.utils.to_ordinal([[1], [2]]).tolist() == [[1, 0], [1, 1]]


def test_a_model_of_its_config():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, name="three")])
    config = {"class_name": "Sequential", "config": model.get_config()}
    assert keras.models.model_from_config(config).get_layer("three").units == 3


def test_helpers_of_image_networks():
    helpers = keras.applications.imagenet_utils
    assert helpers.correct_pad(keras.Input((56, 57, 3)), 3) == ((0, 1), (1, 1))
    assert helpers.obtain_input_shape(None, 224, 32, "channels_last", True, None) == (224, 224, 3)
    with pytest.raises(ValueError, match="softmax"):
        helpers.validate_activation("relu", "imagenet")


@pytest.mark.parametrize("kernel", ["gaussian", "Laplacian"])
def test_random_features_come_near_to_a_kernel(kernel):
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    layer = keras.layers.experimental.RandomFourierFeatures(20000, kernel, scale=2.0)
    assert layer.compute_output_shape((None, 3)) == (None, 20000)
    features = np.asarray(layer(x))
    apart = x[:, None] - x[None]
    squares, sums = (apart**2).sum(-1) / (2 * 2.0**2), np.abs(apart).sum(-1) / 2.0
    expected = np.exp(-squares if kernel == "gaussian" else -sums)
    np.testing.assert_allclose(features @ features.T * 2 / 20000, expected, atol=0.04)


def test_the_scale_of_random_features():
    features = keras.layers.experimental.RandomFourierFeatures
    fixed, trained = features(4), features(4, "laplacian", trainable=True)
    for layer in (fixed, trained):
        layer.build((None, 8))
    assert (fixed.scale, trained.scale) == (2.0, 1.0)
    assert fixed.trainable_weights == []
    assert trained.trainable_weights == [trained.kernel_scale]
    assert [each.shape for each in fixed.weights] == [(1,), (8, 4), (4,)]
    again = features.from_config(features(4, keras.initializers.Ones(), 3.0).get_config())
    np.testing.assert_allclose(
        again(np.ones((2, 3))), np.cos(np.asarray(again.bias) + [[1.0], [1.0]]), rtol=1e-5
    )


@pytest.mark.parametrize("arguments", [{"output_dim": 0}, {"kernel_initializer": "linear"}, {"scale": 0.0}])
def test_random_features_that_are_none(arguments):
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} is"):
        keras.layers.experimental.RandomFourierFeatures(**{"output_dim": 4, **arguments})
