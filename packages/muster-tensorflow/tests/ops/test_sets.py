"""tf.sets, and segments of rows at some indices; the values are TensorFlow's."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1

A, B = [[3, 1, 2], [2, 2, 5]], [[1, 9, 9], [2, 7, 8]]
ROWS = np.arange(12.0, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize(
    ("name", "indices", "values", "width"),
    [
        ("difference", [[0, 0], [0, 1], [1, 0]], [2, 3, 5], 2),
        ("intersection", [[0, 0], [1, 0]], [1, 2], 1),
        ("union", [[i, j] for i in range(2) for j in range(4)], [1, 2, 3, 9, 2, 5, 7, 8], 4),
    ],
)
def test_sets(name: str, indices: Any, values: Any, width: int) -> None:
    for a, b in ((A, B), (tf.sparse.from_dense(A), tf.sparse.from_dense(B))):
        found = getattr(tf.sets, name)(a, b)
        np.testing.assert_array_equal(found.indices, indices)
        np.testing.assert_array_equal(found.values, values)
        assert tuple(found.shape) == (2, width)
    assert getattr(tf1.sets, f"set_{name}") is getattr(tf.sets, name)


def test_a_difference_the_other_way_and_sizes() -> None:
    np.testing.assert_array_equal(tf.sets.difference([A[0]], [B[0]], aminusb=False).values, [9])
    np.testing.assert_array_equal(tf.sets.size(tf.sparse.from_dense([[3, 3, 2], [2, 0, 5]])), [2, 2])


@pytest.mark.parametrize(
    ("how", "expect"), [("sum", [6, 8, 10]), ("mean", [3, 4, 5]), ("sqrt_n", [4.242641, 5.656854, 7.071068])]
)
def test_segments_of_rows(how: str, expect: list[float]) -> None:
    for function in (getattr(tf.sparse, f"segment_{how}"), getattr(tf1, f"sparse_segment_{how}")):
        np.testing.assert_allclose(function(ROWS, [0, 2, 3], [0, 0, 1]), [expect, [9, 10, 11]], rtol=1e-5)
        longer = function(ROWS, [0, 2, 3], [0, 0, 2], num_segments=4)
        np.testing.assert_allclose(longer, [expect, [0, 0, 0], [9, 10, 11], [0, 0, 0]], rtol=1e-5)


def test_a_mask_of_rows() -> None:
    rows = tf.sparse.mask(tf.IndexedSlices(ROWS, tf.constant([1, 3, 5, 7])), [3, 7])
    np.testing.assert_array_equal(rows.indices, [1, 5])
    np.testing.assert_array_equal(rows.values, ROWS[[0, 2]])
