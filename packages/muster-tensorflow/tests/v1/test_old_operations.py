"""TensorFlow 1's names of operations; the values are TensorFlow's."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf


@pytest.mark.parametrize(
    ("found", "expect"),
    [
        (lambda: tf.batch_gather(np.arange(6).reshape(2, 3), [[0], [2]]), [[0], [5]]),
        (lambda: tf.sparse_to_dense([[0, 1], [1, 2]], [2, 3], [5, 6], -1), [[-1, 5, -1], [-1, -1, 6]]),
        (lambda: tf.sparse_to_dense([0, 2], [3], 1.0), [1, 0, 1]),
        (lambda: tf.clip_by_average_norm([3.0, 4.0], 1.0), [1.2, 1.6]),
        (lambda: tf.arg_max([[1, 3, 2]], 1), [1]),
        (lambda: tf.arg_min([[1, 3, 2]], 1), [0]),
        (lambda: tf.accumulate_n([[1.0], [2.0]], shape=[1]), [3]),
        (lambda: tf.setdiff1d([1, 2, 3, 4], [2, 4])[0], [1, 3]),
        (lambda: tf.setdiff1d([1, 2, 3, 4], [2, 4])[1], [0, 2]),
        (lambda: tf.to_complex64([1.0]), [1 + 0j]),
        (lambda: tf.reduce_join([["a", "b"], ["c", "d"]], 1, keep_dims=True), [["ab"], ["cd"]]),
        (lambda: tf.realdiv([1.0, 4.0], [2.0, 0.5]), [0.5, 8]),
        (lambda: tf.depth_to_space(np.arange(4.0).reshape(1, 1, 1, 4), 2), [[[[0], [1]], [[2], [3]]]]),
        (lambda: tf.reverse_v2([1, 2, 3], [0]), [3, 2, 1]),
        (lambda: tf.matrix_square_root([[4.0, 0.0], [0.0, 9.0]]), [[2, 0], [0, 3]]),
    ],
)
def test_values(found: Any, expect: Any) -> None:
    if isinstance(np.ravel(expect)[0], str):
        np.testing.assert_array_equal(found(), expect)
    else:
        np.testing.assert_allclose(found(), expect, rtol=1e-5)


def test_patches_by_their_old_argument() -> None:
    images = np.arange(16.0, dtype=np.float32).reshape(1, 4, 4, 1)
    patches = tf.extract_image_patches(
        images, ksizes=[1, 2, 2, 1], strides=[1, 2, 2, 1], rates=[1, 1, 1, 1], padding="VALID"
    )
    np.testing.assert_array_equal(patches[0, 0, 1], [2, 3, 6, 7])
    with pytest.raises(ValueError, match="ksizes"):
        tf.extract_image_patches(images)


@pytest.mark.parametrize(
    ("name", "expect"),
    [
        ("update", [8, 2, 4]),
        ("add", [9, 2, 7]),
        ("sub", [-7, 2, -1]),
        ("mul", [8, 2, 12]),
        ("div", [0.125, 2, 0.75]),
        ("min", [1, 2, 3]),
        ("max", [8, 2, 4]),
    ],
)
def test_scatter(name: str, expect: list[float]) -> None:
    variable = tf.Variable([1.0, 2.0, 3.0])
    getattr(tf, f"scatter_{name}")(variable, [0, 2], [8.0, 4.0])
    np.testing.assert_allclose(variable, expect)


@pytest.mark.parametrize(("name", "expect"), [("update", 9), ("add", 13), ("sub", -5)])
def test_scatter_nd(name: str, expect: float) -> None:
    variable = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    getattr(tf, f"scatter_nd_{name}")(variable, [[1, 1]], [9.0])
    np.testing.assert_allclose(variable, [[1, 2], [3, expect]])


def test_sparse_values_stay_sparse() -> None:
    sparse = tf.SparseTensor([[0]], [1.0], [2])
    assert tf.convert_to_tensor_or_sparse_tensor(sparse) is sparse
    rows = tf.IndexedSlices(np.ones((1, 2)), np.array([0]))
    assert tf.convert_to_tensor_or_indexed_slices(rows) is rows
    assert tf.convert_to_tensor_or_sparse_tensor([1.0]).shape == (1,)
