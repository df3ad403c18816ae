"""TensorFlow's operations under ``muster.compat.tensorflow``: on NumPy values, and while a step is traced."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster.compat.tensorflow as tf
from muster.program import Program
from oracles import cases

X = np.array([[1.5, -2.0, 0.25], [4.0, 0.5, -1.0]], np.float32)

# Each gives the same on NumPy values, where it stays NumPy, and traced.
ON_BOTH = {
    "cast": (lambda x: tf.cast(x, tf.int32), np.array([[1, -2, 0], [4, 0, -1]], np.int32)),
    "reduce_sum": (lambda x: tf.reduce_sum(x, axis=1), np.float32([-0.25, 3.5])),
    "reduce_mean of integers": (lambda x: tf.reduce_mean(tf.cast(x, tf.int32)), np.int32(0)),
    "reduce_max keepdims": (lambda x: tf.reduce_max(x, [0], keepdims=True), np.float32([[4, 0.5, 0.25]])),
    "argmax": (lambda x: tf.cast(tf.argmax(x), tf.int32), np.int32([1, 1, 0])),
    "argmax of rows": (lambda x: tf.argmax(x, 1, output_type=tf.int32), np.int32([0, 0])),
    "squeeze": (lambda x: tf.squeeze(tf.expand_dims(x, 0), axis=[0]), X),
    "reshape": (lambda x: tf.reshape(x, [-1, 2]), X.reshape(3, 2)),
    "concat": (lambda x: tf.concat([x, x], axis=0), np.concatenate([X, X])),
    "stack": (lambda x: tf.stack([x, x], axis=1), np.stack([X, X], 1)),
    "transpose": (lambda x: tf.transpose(x, [1, 0]), X.T),
    "maximum with a number": (lambda x: tf.maximum(x, 0.0), np.maximum(X, 0)),
    "clip_by_value": (lambda x: tf.clip_by_value(x, -1, 1), np.clip(X, -1, 1)),
    "clip_by_norm": (lambda x: tf.clip_by_norm(x[0], 1.0), X[0] / np.linalg.norm(X[0])),
    "where": (lambda x: tf.where(x > 0, x, tf.zeros_like(x)), np.maximum(X, 0)),
    "one_hot": (lambda x: tf.one_hot(tf.cast(x[:, 0], tf.int32), 5), np.eye(5, dtype=np.float32)[[1, 4]]),
    "matmul": (lambda x: tf.matmul(x, x, transpose_b=True), X @ X.T),
    "pow": (lambda x: tf.pow(x, 2), X**2),
    "math.log1p": (lambda x: tf.math.log1p(tf.abs(x)), np.log1p(np.abs(X))),
    "equal": (lambda x: tf.equal(x, [[1.5, 0, 0.25], [4, 0.5, 0]]), X == [[1.5, 0, 0.25], [4, 0.5, 0]]),
    "split": (lambda x: tf.split(x, [1, 2], axis=1)[1], X[:, 1:]),
    "unstack": (lambda x: tf.unstack(x, axis=1)[2], X[:, 2]),
    "tile": (lambda x: tf.tile(x, [1, 2]), np.tile(X, (1, 2))),
    "gather": (lambda x: tf.gather(x, [2, 0], axis=1), X[:, [2, 0]]),
    "pad": (lambda x: tf.pad(x, [[0, 0], [1, 0]]), np.pad(X, ((0, 0), (1, 0)))),
    "cumsum": (lambda x: tf.cumsum(x, axis=1), np.cumsum(X, 1)),
    "add_n": (lambda x: tf.add_n([x, x, x]), X + X + X),
    "squared_difference": (lambda x: tf.math.squared_difference(x, 1.0), (X - 1) ** 2),
    "norm": (lambda x: tf.norm(x), np.float32(np.linalg.norm(X))),
    "broadcast_to": (lambda x: tf.broadcast_to(x[0], [2, 3]), np.stack([X[0], X[0]])),
    "reduce_all": (lambda x: tf.reduce_all(x > -3, axis=0), np.array([True, True, True])),
}


@pytest.mark.parametrize("name", ON_BOTH)
def test_operations_on_numpy_values_and_traced(name: str) -> None:
    operation, expected = ON_BOTH[name]
    on_host = operation(X)
    assert isinstance(on_host, np.ndarray | np.generic)
    traced = jax.jit(operation)(X)
    for found in (on_host, traced):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_64_bit_types_are_respected_on_numpy_values() -> None:
    assert tf.cast(np.uint8(3), tf.int64).dtype == np.int64
    assert tf.cast(X, tf.float64).dtype == np.float64
    assert tf.argmax(X).dtype == np.int64


def test_cast_copies() -> None:
    image = np.ones(3, np.float32)
    scaled = tf.cast(image, tf.float32)
    scaled /= 255
    assert image.sum() == 3


def test_numbers_of_python_have_tensorflows_types() -> None:
    assert tf.constant(1).dtype == tf.int32
    assert tf.constant([1.0, 2.0]).dtype == tf.float32
    assert tf.constant(2**40).dtype == tf.int64
    assert tf.constant(3, tf.float64, shape=[2]).tolist() == [3.0, 3.0]
    assert tf.range(3).tolist() == [0, 1, 2]
    assert tf.fill([2], 1.5).tolist() == [1.5, 1.5]
    assert tf.shape(X).tolist() == [2, 3]
    assert (tf.size(X), tf.rank(X)) == (6, 2)
    assert tf.zeros([2]).dtype == tf.ones(2).dtype == tf.eye(2).dtype == tf.float32


def test_one_hot_of_what_is_out_of_range_is_off() -> None:
    assert tf.one_hot([-1, 1, 2], 2, on_value=5, off_value=1).tolist() == [[1, 1], [1, 5], [1, 1]]
    assert tf.one_hot([0, 1], 3, axis=0).shape == (3, 2)


def test_where_without_values_is_refused() -> None:
    with pytest.raises(ValueError, match="needs x and y"):
        tf.where(X > 0)


@pytest.mark.parametrize(
    "case", cases("optimizers", lambda case: case["name"].startswith(("clip_by_global_norm", "clip_by_norm")))
)
def test_clipping_is_tensorflows(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expect"]
    if given["api"] == "tf.clip_by_norm":
        found = tf.clip_by_norm(np.float32(given["value"]), given["clip_norm"])
        np.testing.assert_allclose(found, expected["value"], rtol=1e-6)
        return
    gradients = [None if g == "None" else np.float32(g) for g in given["gradients"]]
    clipped, norm = tf.clip_by_global_norm(gradients, given["clip_norm"])
    assert float(norm) == pytest.approx(expected["global_norm"])
    for ours, theirs in zip(clipped, expected["clipped"], strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_cross_entropies_agree_with_each_other_and_with_numpy() -> None:
    labels = np.array([2, 0])
    probabilities = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    expected = -np.log(probabilities[[0, 1], labels])
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, X)
    dense = tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(labels, 3), X)
    np.testing.assert_allclose(sparse, expected, rtol=1e-5)
    np.testing.assert_allclose(dense, expected, rtol=1e-5)
    assert np.isnan(tf.nn.sparse_softmax_cross_entropy_with_logits([3, -1], X)).all()
    z = np.float32([[0, 1, 1], [1, 0, 0]])
    sigmoid = 1 / (1 + np.exp(-X))
    np.testing.assert_allclose(
        tf.nn.sigmoid_cross_entropy_with_logits(z, X),
        -(z * np.log(sigmoid) + (1 - z) * np.log(1 - sigmoid)),
        rtol=1e-5,
    )


def test_in_top_k_counts_ties_for_the_target() -> None:
    scores = np.float32([[1, 3, 3], [2, 1, 0]])
    assert tf.nn.in_top_k([2, 2], scores, 1).tolist() == [True, False]
    assert tf.nn.top_k(scores, 2)[1].tolist() == [[1, 2], [0, 1]]


def test_identity_names_a_value_of_the_step() -> None:
    def step(x: Any) -> tuple[dict[str, Any], None]:
        tf.identity(x * 2, name="twice")
        tf.summary.scalar("half", x / 2)
        return {}, None

    program = Program(step, jnp.float32(3.0))
    _, outputs = program.step(program.initial, jnp.float32(3.0))
    assert (float(outputs["twice"]), float(outputs["half"])) == (6.0, 1.5)
    assert program.summaries == {"half": "half"}


def test_identity_with_a_name_means_nothing_in_an_input_function() -> None:
    data = tf.data.Dataset.from_tensor_slices(X).map(lambda row: tf.identity(row, name="row"))
    assert (next(iter(data)) == X[0]).all()


def test_map_respects_the_dtypes_asked_for() -> None:
    def scale(image: Any, label: Any) -> Any:
        image = tf.cast(image, tf.float32)
        image /= 255
        return image, label

    images = np.full((4, 2), 255, np.uint8)
    data = tf.data.Dataset.from_tensor_slices((images, np.arange(4))).map(scale).batch(4)
    scaled, labels = next(iter(data))
    assert (scaled.dtype, labels.dtype) == (np.float32, np.int64)
    assert (scaled == 1).all()
    assert (images == 255).all()


def test_keras_has_what_it_dropped() -> None:
    loss = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE
    )
    assert loss(np.array([0, 1]), X).shape == (2,)
    for reduction in ("AUTO", "SUM", "SUM_OVER_BATCH_SIZE"):
        reduced = tf.losses.MeanSquaredError(reduction=getattr(tf.losses.Reduction, reduction))(X, X)
        assert reduced.shape == ()
    assert tf.optimizers.SGD is tf.keras.optimizers.SGD
    assert tf.metrics.Mean is tf.keras.metrics.Mean


def test_tensorflow_1_has_tensorflow_2s_names_too() -> None:
    import muster.compat.tensorflow.compat.v1 as tf1

    assert tf1 is tf.compat.v1
    assert tf1.cast is tf.cast
    assert tf1.train is tf.train
    assert tf1.metrics is not tf.metrics
    with pytest.raises(AttributeError, match="Session"):
        _ = tf1.Session
