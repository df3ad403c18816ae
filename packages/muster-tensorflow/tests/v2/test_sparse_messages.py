"""Sparse tensors as bytes; what the messages hold is as in TensorFlow 2.15."""

import numpy as np

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1


def test_a_sparse_tensor_is_three_messages() -> None:
    sparse = tf.SparseTensor([[0, 1], [2, 0]], tf.constant([1.5, 2.5]), [3, 4])
    found = tf.io.serialize_sparse(sparse)
    assert found.shape == (3,)
    indices, values, shape = found.numpy()
    assert tf.io.parse_tensor(indices, tf.int64).tolist() == [[0, 1], [2, 0]]
    assert tf.io.parse_tensor(values, tf.float32).tolist() == [1.5, 2.5]
    assert shape == b'\x08\t\x12\x04\x12\x02\x08\x02"\x10\x03' + b"\x00" * 7 + b"\x04" + b"\x00" * 7
    assert len(tf.train.BytesList(value=found.numpy()).value) == 3


def test_rows_become_a_sparse_tensor_again() -> None:
    sparse = tf.SparseTensor([[0, 1], [2, 0], [2, 2]], ["a", "b", "c"], [3, 4])
    rows = tf1.serialize_many_sparse(sparse)
    assert rows.shape == (3, 3)
    again = tf.io.deserialize_many_sparse(rows, tf.string)
    np.testing.assert_array_equal(again.indices, sparse.indices)
    assert again.values.numpy().tolist() == [b"a", b"b", b"c"]
    assert again.dense_shape.tolist() == [3, 4]
    single = tf.io.serialize_sparse(tf.SparseTensor([[4]], [7], [6]))
    other = tf.io.serialize_sparse(tf.SparseTensor([[0]], [8], [2]))
    both = tf.io.deserialize_many_sparse(tf.stack([single, other]), tf.int64)
    assert tf.sparse.to_dense(both).tolist() == [[0, 0, 0, 0, 7, 0], [8, 0, 0, 0, 0, 0]]


def test_encoded_images_are_tensors() -> None:
    image = np.zeros((2, 2, 3), np.uint8)
    for encode in (tf.io.encode_jpeg, tf.image.encode_png):
        data = encode(image)
        assert isinstance(data.numpy(), bytes)
        np.testing.assert_array_equal(tf.io.decode_image(data), image)
