"""Functions of Keras 2's backend: numbers are those of TensorFlow 2.15."""

import numpy as np
import pytest

import muster_tensorflow as tf

K = tf.keras.backend
X = np.arange(12, dtype=np.float32).reshape(2, 3, 2) / 10
IMAGE = np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2) / 10
VOLUME = IMAGE.reshape(1, 2, 2, 4, 2)
KERNEL = np.arange(16, dtype=np.float32).reshape(2, 2, 2, 2) / 10
SMALL = IMAGE[:, :2, :2]
MASK = np.array([[1, 1, 0], [0, 1, 1]], bool)
LOCAL = np.arange(24, dtype=np.float32).reshape(2, 4, 3) / 10
TRANSPOSED = [0.01, 0.03, 0.08, 0.2, 0.18, 0.54, 1.44, 2.32]
BY_PLACE = [[[0.42, 0.48, 0.54], [2.46, 2.6, 2.74]], [[1.5, 1.8, 2.1], [6.42, 6.8, 7.18]]]


@pytest.mark.parametrize(
    ("name", "arguments", "options", "expected"),
    [
        ("conv3d", (VOLUME, KERNEL.reshape(2, 2, 2, 2, 1)), {}, [[[[[22.8], [25.2], [27.6]]]]]),
        (
            "conv2d_transpose",
            (SMALL, KERNEL, (1, 2, 2, 2)),
            {"padding": "same"},
            np.reshape(TRANSPOSED, (1, 2, 2, 2)),
        ),
        (
            "pool3d",
            (VOLUME, (2, 2, 2)),
            {"pool_mode": "avg"},
            [[[[[1.3, 1.4], [1.5, 1.6], [1.7, 1.8]]]]],
        ),
        ("local_conv1d", (X, LOCAL, (2,), (1,)), {}, BY_PLACE),
        (
            "local_conv2d",
            (IMAGE, np.arange(32, dtype=np.float32).reshape(4, 8, 1) / 10, (2, 2), (2, 2), (2, 2)),
            {},
            [[[[2.28], [9.48]], [[34.28], [56.84]]]],
        ),
        ("spatial_3d_padding", (VOLUME,), {}, np.pad(VOLUME, ((0, 0), (1, 1), (1, 1), (1, 1), (0, 0)))),
        ("resize_images", (SMALL, 2, 1, "channels_last"), {}, np.repeat(SMALL, 2, 1)),
        (
            "resize_volumes",
            (VOLUME, 1, 2, 2, "channels_last"),
            {},
            np.repeat(np.repeat(VOLUME, 2, 2), 2, 3),
        ),
        ("binary_focal_crossentropy", ([[1.0, 0]], [[0.8, 0.2]]), {}, [[0.00892573, 0.00892573]]),
        ("categorical_focal_crossentropy", ([[1.0, 0]], [[0.8, 0.2]]), {}, [0.00223144]),
        ("map_fn", (lambda x: x * 2, np.array([1.0, 2])), {}, [2, 4]),
        ("foldl", (lambda total, x: total - x, np.array([1.0, 2, 4])), {}, -5),
        ("foldr", (lambda total, x: total - x, np.array([1.0, 2, 4])), {}, 1),
        ("switch", ([True, False], [[1.0, 2], [3, 4]], [[5.0, 6], [7, 8]]), {}, [[1, 6], [3, 8]]),
        ("switch", ([[True], [False]], [[1.0, 2], [3, 4]], [[5.0, 6], [7, 8]]), {}, [[1, 2], [7, 8]]),
        ("switch", (True, lambda: 1.0, lambda: 2.0), {}, 1),
        ("cast_to_floatx", ([1, 2],), {}, [1.0, 2.0]),
    ],
)
def test_functions_return_what_tensorflow_does(name, arguments, options, expected):
    np.testing.assert_allclose(getattr(K, name)(*arguments, **options), expected, rtol=1e-5)


def test_convolutions_by_channel():
    found = K.depthwise_conv2d(IMAGE, KERNEL, strides=(2, 2))
    np.testing.assert_allclose(found[0, 0, 0], [1.92, 2.12, 2.64, 2.88], rtol=1e-5)
    found = K.separable_conv2d(IMAGE, KERNEL, KERNEL.reshape(1, 1, 4, 4), strides=(2, 2))
    np.testing.assert_allclose(found[0, 0, 0], [6.416, 7.372, 8.328, 9.284], rtol=1e-5)


def test_normalizing_a_batch():
    found = K.batch_normalization(X, *np.array([[0.1, 0.2], [1, 2], [0.3, 0.4], [1.5, 0.5]], np.float32))
    np.testing.assert_allclose(found[1, 2], [1.6493256, 0.7181185], rtol=1e-5)
    found, mean, var = K.normalize_batch_in_training(
        X, np.float32([1.5, 0.5]), np.float32([0.3, 0.4]), [0, 1]
    )
    np.testing.assert_allclose(found[1, 2], [2.4864247, 1.1288084], rtol=1e-5)
    np.testing.assert_allclose([mean, var], [[0.5, 0.6], [0.11666667, 0.11666667]], rtol=1e-5)
    found, _, var = K.normalize_batch_in_training(
        X, np.float32([1.5, 0.5, 1]), np.float32([0.3, 0.4, 0]), (0, -1)
    )
    np.testing.assert_allclose(found[0, :, 0], [-1.4169338, -0.1723111, -1.1446224], rtol=1e-5)
    np.testing.assert_allclose(var, [0.0925] * 3, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "last", "states"),
    [
        ({}, [[0.6, 0.9], [2.4, 2.7]], [[0.6, 0.9], [2.4, 2.7]]),
        ({"go_backwards": True, "unroll": True}, [[0.6, 0.9], [2.4, 2.7]], [[0.6, 0.9], [2.4, 2.7]]),
        ({"mask": MASK}, [[0.2, 0.4], [1.8, 2.0]], [[0.2, 0.4], [1.8, 2.0]]),
        ({"mask": MASK, "zero_output_for_mask": True}, [[0, 0], [1.8, 2.0]], [[0.2, 0.4], [1.8, 2.0]]),
    ],
)
def test_steps_in_time(options, last, states):
    def step(x, states):
        return x + states[0], [x + states[0]]

    output, outputs, after = K.rnn(step, X, [np.zeros((2, 2), np.float32)], **options)
    np.testing.assert_allclose(output, last, rtol=1e-5)
    np.testing.assert_allclose(outputs[:, -1], last, rtol=1e-5)
    np.testing.assert_allclose(after[0], states, rtol=1e-5)


def test_sparse_values():
    sparse = K.ctc_label_dense_to_sparse([[1, 2, 3], [4, 5, 0]], [3, 2])
    assert K.is_sparse(sparse)
    assert not K.is_sparse(X)
    assert np.asarray(sparse.values).tolist() == [1, 2, 3, 4, 5]
    assert np.asarray(K.to_dense(sparse)).tolist() == [[1, 2, 3], [4, 5, 0]]


def test_random_variables_and_names(capsys):
    assert K.random_normal_variable((2, 3), 0.0, 1.0).shape == (2, 3)
    drawn = K.get_value(K.random_uniform_variable((9,), 2.0, 3.0, seed=1))
    assert 2 <= drawn.min() <= drawn.max() < 3
    K.print_tensor(tf.constant([1.0, 2.0]), message="x is")
    assert capsys.readouterr().out == "x is [1 2]\n"
    K.reset_uids()
    assert tf.keras.layers.Dense(1).name == "dense"


def test_the_learning_phase():
    drop = tf.keras.layers.Dropout(0.9, seed=1)
    ones = np.ones((1, 50), np.float32)
    assert K.learning_phase() == 0
    assert (K.in_train_phase(1, 2), K.in_test_phase(lambda: 1, lambda: 2)) == (2, 1)
    with K.learning_phase_scope(1):
        assert K.learning_phase() == 1
        assert (K.in_train_phase(1, 2), K.in_test_phase(1, 2)) == (1, 2)
        assert np.asarray(drop(ones)).min() == 0
        assert np.asarray(drop(ones, training=False)).min() == 1
        x = tf.keras.Input((50,))
        model = tf.keras.Model(x, drop(x))
    assert np.asarray(drop(ones)).min() == 1
    assert [np.asarray(model(ones, training=each)).min() for each in (None, False, True)] == [1, 1, 0]
    K.set_learning_phase(1)
    tf.keras.backend.clear_session()
    assert K.learning_phase() == 0
    with pytest.raises(ValueError, match="0 or 1, got 2"):
        K.set_learning_phase(2)


def test_the_phase_of_the_layer_around():
    class Own(tf.keras.layers.Layer):
        def call(self, x, training=None):
            return K.in_train_phase(x + 1, x)

    assert Own()(np.zeros(1, np.float32), training=True).tolist() == [1]
    assert Own()(np.zeros(1, np.float32), training=False).tolist() == [0]
