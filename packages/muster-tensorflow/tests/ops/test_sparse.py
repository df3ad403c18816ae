"""``tf.sparse.to_dense``, and layers that merge the values of a dict."""

import numpy as np
import pytest

import muster_tensorflow as tf


def test_sparse_tensors_become_dense() -> None:
    given = tf.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2])
    np.testing.assert_array_equal(tf.sparse.to_dense(given), [[0, 5], [6, 0]])
    np.testing.assert_array_equal(tf.sparse.to_dense(given, default_value=-1), [[-1, 5], [6, -1]])


def test_what_layers_give_becomes_dense() -> None:
    layer = tf.keras.layers.CategoryEncoding(num_tokens=4, output_mode="count", sparse=True)
    counts = layer(tf.constant([[1, 3, 1]]), count_weights=tf.constant([[0.5, 2.0, 0.25]]))
    np.testing.assert_allclose(tf.sparse.to_dense(counts), [[0, 0.75, 0, 2]])
    with pytest.raises(ValueError, match="default_value must be 0 for what a layer gives, got 1"):
        tf.sparse.to_dense(counts, 1)


@pytest.mark.parametrize(("layer", "expected"), [("Concatenate", [1, 2]), ("Add", [3])])
def test_the_values_of_a_dict_are_merged(layer: str, expected: list[float]) -> None:
    merge = getattr(tf.keras.layers, layer)
    inputs = {name: tf.keras.Input((1,), name=name) for name in ("a", "b")}
    model = tf.keras.Model(inputs, merge()(inputs.values()))
    given = {"a": np.float32([[1]]), "b": np.float32([[2]])}
    np.testing.assert_array_equal(model(given), [expected])
    np.testing.assert_array_equal(merge()(given.values()), [expected])


A = tf.SparseTensor([[0, 2], [3, 4]], [31, 2], [4, 10])
B = tf.SparseTensor([[0, 2], [3, 0]], [56, 38], [4, 10])
C = tf.SparseTensor([[0, 1], [1, 0], [1, 1]], [13, 15, 17], (2, 2))


def _same(sparse: tf.SparseTensor, dense: object) -> None:
    np.testing.assert_array_equal(tf.sparse.to_dense(sparse), dense)


def test_parts_have_the_methods_of_tensors() -> None:
    assert (A.indices.numpy().tolist(), A.values.numpy().tolist()) == ([[0, 2], [3, 4]], [31, 2])
    assert (A.dense_shape.numpy().tolist(), A.shape.as_list()) == ([4, 10], [4, 10])
    assert [(place.numpy().tolist(), value.numpy()) for place, value in zip(A.indices, A.values, strict=True)]
    assert (tf.shape(A).numpy().tolist(), tf.rank(A), tf.is_tensor(A)) == ([4, 10], 2, True)


def test_sparse_tensors_are_added_and_multiplied() -> None:
    total = tf.sparse.add(A, B)
    assert total.indices.numpy().tolist() == [[0, 2], [3, 0], [3, 4]]
    assert total.values.numpy().tolist() == [87, 38, 2]
    assert tf.sparse.add(A, B, threshold=30).values.numpy().tolist() == [87, 38]
    np.testing.assert_array_equal(tf.sparse.add(C, tf.ones((2, 2), tf.int32)), [[1, 14], [16, 18]])
    np.testing.assert_array_equal(tf.sparse.sparse_dense_matmul(C, [[4], [6]]), [[78], [162]])
    np.testing.assert_array_equal(tf.sparse.sparse_dense_matmul(C, [[4], [6]], adjoint_a=True), [[90], [154]])
    np.testing.assert_array_equal(tf.sparse.sparse_dense_matmul([[4, 6]], C), [[90, 154]])
    _same(C * 2, [[0, 26], [30, 34]])
    _same(C * tf.constant([[1, 2], [3, 4]]), [[0, 26], [45, 68]])
    _same(tf.abs(tf.SparseTensor([[1]], [-3], [2])), [0, 3])
    _same(tf.sparse.map_values(tf.add, C, 5), [[0, 18], [20, 22]])
    _same(tf.sparse.maximum(A, B), np.maximum(tf.sparse.to_dense(A), tf.sparse.to_dense(B)))
    with pytest.raises(TypeError, match="tf.sparse.add"):
        tf.add(A, B)


def test_sparse_tensors_change_their_shape() -> None:
    _same(tf.sparse.from_dense([[1, 0, 8], [0, 3, 0]]), [[1, 0, 8], [0, 3, 0]])
    _same(tf.sparse.concat(axis=1, sp_inputs=[C, C]), [[0, 13, 0, 13], [15, 17, 15, 17]])
    _same(tf.sparse.slice(C, [0, 1], [2, 5]), [[13], [17]])
    _same(tf.sparse.transpose(C), [[0, 15], [13, 17]])
    _same(tf.sparse.reshape(C, [1, -1]), [[0, 13, 15, 17]])
    _same(tf.sparse.expand_dims(C, 0), [[[0, 13], [15, 17]]])
    _same(tf.sparse.retain(C, [True, False, True]), [[0, 13], [0, 17]])
    _same(tf.sparse.eye(2), [[1, 0], [0, 1]])
    _same(tf.sparse.split(C, 2, axis=1)[1], [[13], [17]])
    _same(tf.sparse.reorder(C), tf.sparse.to_dense(C))
    filled, empty = tf.sparse.fill_empty_rows(A, 7)
    assert (empty.numpy().tolist(), filled.values.numpy().tolist()) == (
        [False, True, True, False],
        [31, 7, 7, 2],
    )


def test_values_are_reduced() -> None:
    assert tf.sparse.reduce_sum(C, 0).numpy().tolist() == [15, 30]
    assert tf.sparse.reduce_sum(C, axis=1, keepdims=True).numpy().tolist() == [[13], [32]]
    assert tf.sparse.reduce_sum(C).numpy() == 45
    assert tf.sparse.reduce_max(C, 1).numpy().tolist() == [13, 17]
    _same(tf.sparse.softmax(tf.cast(tf.sparse.eye(2), tf.float32)), [[1, 0], [0, 1]])


def test_functions_with_sparse_tensors_are_compiled() -> None:
    weights = tf.Variable([[1.0], [2.0]])
    product = tf.function(lambda x: tf.sparse.sparse_dense_matmul(x, weights))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(product(tf.cast(C, tf.float32)))
    np.testing.assert_array_equal(tape.gradient(loss, weights), [[15], [30]])
