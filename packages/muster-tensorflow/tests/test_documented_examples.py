"""What TensorFlow's documentation shows by examples, with the values that TensorFlow 2.15 has there."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

keras, v1 = tf.keras, tf.compat.v1


def test_parts_of_results_have_names() -> None:
    top = tf.math.top_k([1.0, 3.0, 2.0], k=2)
    assert (top.values.tolist(), top.indices.tolist()) == ([3, 2], [1, 2])
    assert tf.unique([4, 4, 5]).idx.tolist() == [0, 0, 1]
    assert tf.unique_with_counts([4, 4, 5]).count.tolist() == [2, 1]
    np.testing.assert_allclose(abs(tf.linalg.qr(tf.eye(2)).q), np.eye(2))
    assert tf.linalg.slogdet(tf.eye(2)).log_abs_determinant == 0
    assert v1.setdiff1d([1, 2], [1]).out.tolist() == [2]
    inputs = keras.Input([3])
    model = keras.Model(inputs, tf.math.top_k(inputs, 1).indices)
    assert model(np.array([[1.0, 3.0, 2.0]])).tolist() == [[1]]


def test_ranges_have_the_dtype_of_their_bounds() -> None:
    assert tf.range(3).dtype == tf.int32
    assert tf.range(0).dtype == tf.int32
    assert tf.range(np.int64(3)).dtype == tf.int64
    assert tf.range(3.0).dtype == tf.float32
    assert tf.range(3, dtype=tf.float32).dtype == tf.float32
    assert keras.backend.arange(0, 3, 1.5).tolist() == [0, 1.5]


def test_text_is_bytes_for_functions_of_python() -> None:
    def upper(text: bytes) -> str:
        return text.decode().upper()

    assert tf.numpy_function(upper, ["abc"], tf.string) == "ABC"
    data = tf.data.Dataset.from_tensor_slices(["ab", "cd"])
    assert list(data.as_numpy_iterator()) == [b"ab", b"cd"]
    assert list(data.batch(2).as_numpy_iterator())[0].tolist() == [b"ab", b"cd"]
    mapped = data.map(lambda text: v1.py_func(upper, [text], tf.string))
    assert list(mapped.as_numpy_iterator()) == [b"AB", b"CD"]
    assert tf.py_function(lambda text: text.numpy().decode(), ["abc"], tf.string) == "abc"

    def changed(values: Any) -> Any:
        values[0] = 5
        return values

    assert tf.numpy_function(changed, [tf.constant([1, 2])], tf.int32).tolist() == [5, 2]


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")  # of Keras' confusion matrices
def test_losses_and_metrics_of_whole_numbers_are_of_floats() -> None:
    sums = v1.losses.Reduction.SUM_OVER_BATCH_SIZE
    loss = v1.losses.mean_squared_error([1, 2, 3], [1, 3, 5], weights=[0, 1, 0.25], reduction=sums)
    np.testing.assert_allclose(loss, 2 / 3, rtol=1e-6)
    metric = keras.metrics.Poisson()
    metric.update_state([[0, 1], [0, 0]], [[1, 1], [0, 0]])
    np.testing.assert_allclose(metric.result(), 0.5, rtol=1e-6)
    metric = keras.metrics.SparseCategoricalCrossentropy()
    metric.update_state([1, 2], [[0.05, 0.95, 0], [0.1, 0.8, 0.1]])
    np.testing.assert_allclose(metric.result(), 1.1769392, rtol=1e-5)
    metric = keras.metrics.MeanIoU(num_classes=2)
    metric.update_state([0, 0, 1, 1], [0, 1, 0, 1], sample_weight=[0.3, 0.3, 0.3, 0.1])
    np.testing.assert_allclose(metric.result(), 0.23809525, rtol=1e-6)
    first, second = keras.metrics.Mean(), keras.metrics.Mean()
    first.update_state([1.0])
    second.update_state([2.0, 3.0])
    first.merge_state([second])
    assert first.result() == 2


def test_padding_is_given_for_each_axis() -> None:
    image = np.ones([1, 2, 2, 1], np.float32)
    sides = [[0, 0], [1, 0], [0, 1], [0, 0]]
    assert tf.nn.conv2d(image, np.ones([2, 2, 1, 1]), 1, sides).ravel().tolist() == [2, 1, 4, 2]
    assert tf.nn.depthwise_conv2d(image, np.ones([2, 2, 1, 1]), [1] * 4, sides).ravel().tolist() == [
        2,
        1,
        4,
        2,
    ]
    assert tf.nn.max_pool2d(-image, 2, 2, [[0, 0], [1, 1], [1, 1], [0, 0]]).ravel().tolist() == [-1] * 4
    with pytest.raises(ValueError, match="pair of numbers"):
        tf.nn.conv2d(image, np.ones([2, 2, 1, 1]), 1, "FULL")


def test_datasets_of_elements_that_differ() -> None:
    assert [each.tolist() for each in tf.data.experimental.from_list([[1], [2, 3]])] == [[1], [2, 3]]
    pairs = list(tf.data.experimental.from_list([(1, "a"), (2, "b")]).as_numpy_iterator())
    assert pairs == [(1, b"a"), (2, b"b")]
    rows = tf.data.Dataset.range(2).map(lambda x: tf.range(x)).ragged_batch(2)
    assert next(iter(rows)).to_list() == [[], [0]]
    assert tf.experimental.Optional.from_value(3).element_spec == tf.TensorSpec([], tf.int32)


def test_smaller_things() -> None:
    assert tf.as_dtype("float") == tf.float32
    assert tf.cast(np.array([True]), "float").dtype == tf.float32
    matrix = tf.constant([[1, 2], [3, 4]])
    assert tf.gather(matrix, [[1, 0], [0, 1]], batch_dims=-1).tolist() == [[2, 1], [3, 4]]
    sparse = tf.sparse.from_dense([[1, 0], [0, 2]])
    assert tf.sparse.to_dense(sparse.with_values([5, 6])).tolist() == [[5, 0], [0, 6]]
    tf.debugging.assert_type(sparse, sparse.dtype)
    joined = tf.strings.unsorted_segment_join([["a", "b"], ["c", "d"]], [0, 0], 1, separator=":")
    assert joined.tolist() == [["a:c", "b:d"]]
    assert (tf.zeros([2, 3]).shape[:1] + tf.zeros([4]).shape).as_list() == [2, 4]
    assert tf.nest.map_structure(lambda a, b: a + b, (1, [2]), [3, (4,)], check_types=False) == (4, [6])
    tf.nest.assert_same_structure((1, [2]), [3, (4,)], check_types=False)
    with pytest.raises(ValueError, match="leaves"):
        tf.nest.assert_same_structure([1], [1, 2], check_types=False)
    quality = tf.image.adjust_jpeg_quality(np.zeros([2, 2, 3], np.float32), 50)
    assert quality.numpy().shape == (2, 2, 3)


def test_keras_takes_what_keras_2_took() -> None:
    assert keras.Sequential(keras.layers.Dense(2))(np.ones([1, 3])).shape == (1, 2)
    assert keras.backend.placeholder(shape=(2, 3)).shape == (2, 3)
    assert keras.backend.placeholder(ndim=2).shape == (None, None)
    assert keras.backend.ones_like(keras.backend.variable([[1.0, 2.0]])).tolist() == [[1, 1]]
    scaled = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam(beta_1=0.8))
    assert scaled.beta_1 == 0.8
    with pytest.raises(AttributeError, match="no_such"):
        getattr(scaled, "no" + "_such")
    variable = tf.Variable(1.0)
    keras.optimizers.legacy.SGD(0.1).minimize(lambda: variable**2 / 2, [variable])
    np.testing.assert_allclose(variable, 0.9, rtol=1e-6)
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    decay = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * tf.math.exp(-0.1))
    history = model.fit(np.ones([2, 1]), np.ones([2, 1]), epochs=2, verbose=0, callbacks=[decay]).history
    np.testing.assert_allclose(history["learning_rate"][1], 0.01 * np.exp(-0.2), rtol=1e-5)
