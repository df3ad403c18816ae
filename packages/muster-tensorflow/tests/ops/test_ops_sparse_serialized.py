"""``tf.io.serialize_sparse`` and what reads it."""

import numpy as np
import pytest

import muster_tensorflow as tf
from muster import DatasetError
from muster.data import SparseTensor


def row(*values: int) -> SparseTensor:
    return SparseTensor([[each] for each in range(len(values))], list(values), [len(values)])


def test_datasets_batch_sparse_tensors_as_texts() -> None:
    rows = [row(5, 256), row(7), row(0, 1, 0)]
    texts = tf.data.Dataset.from_generator(
        lambda: iter([tf.io.serialize_sparse(each) for each in rows]), tf.string, [3]
    )
    (batch,) = texts.padded_batch(3, [3]).map(lambda x: tf.io.deserialize_many_sparse(x, tf.int64, 1))
    assert batch.shape == (3, 3)
    np.testing.assert_array_equal(batch.to_dense(), [[5, 256, 0], [7, 0, 0], [0, 1, 0]])
    assert len(batch.plain_values) == 6


def test_rows_of_a_sparse_tensor_are_texts() -> None:
    whole = SparseTensor([[0, 1], [2, 0]], np.float32([1.5, 2]), [3, 2])
    texts = tf.io.serialize_many_sparse(whole)
    assert texts.shape == (3, 3)
    np.testing.assert_array_equal(
        tf.io.deserialize_many_sparse(texts, tf.float32).to_dense(), [[0, 1.5], [0, 0], [2, 0]]
    )
    with pytest.raises(ValueError, match="Rank of a serialized SparseTensor should be 2"):
        tf.io.deserialize_many_sparse(texts, tf.float32, 2)
    with pytest.raises(ValueError, match="should have 3 columns"):
        tf.io.deserialize_many_sparse(texts[0], tf.float32)
    with pytest.raises(ValueError, match="at least 1 serialized"):
        tf.io.deserialize_many_sparse(texts[:0], tf.float32)
    with pytest.raises(DatasetError, match="asked for int64"):
        tf.io.deserialize_many_sparse(texts, tf.int64)
