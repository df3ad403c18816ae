"""``tf.TensorShape``."""

import numpy as np
import pytest

import muster_tensorflow as tf


def test_tensor_shapes_are_tuples():
    shape = tf.TensorShape([None, 3, 2])
    assert shape == (None, 3, 2)
    assert (shape.rank, shape.as_list(), shape.num_elements()) == (3, [None, 3, 2], None)
    assert isinstance(shape[1:], tf.TensorShape)
    assert shape[1:].num_elements() == 6
    assert shape[1:].is_fully_defined()
    assert not shape.is_fully_defined()
    assert shape.is_compatible_with([7, 3, 2])
    assert not shape.is_compatible_with((7, 3))
    assert shape[1:] + [4] == shape[1:].concatenate(4) == tf.TensorShape((3, 2, 4))
    assert repr(shape) == "TensorShape([None, 3, 2])"
    assert str(shape) == "(None, 3, 2)"
    shape.assert_is_compatible_with([1, 3, 2])
    with pytest.raises(ValueError, match=r"\(None, 3, 2\) and \[3, 2\] are incompatible"):
        shape.assert_is_compatible_with([3, 2])
    assert np.zeros(tf.TensorShape([2])).shape == tf.TensorShape(2)
    with pytest.raises(ValueError, match=">= 0"):
        tf.TensorShape([-1])
    assert tf.TensorShape(None) is None


def test_zeros_and_ones_take_tensorflows_numbers_of_dtypes() -> None:
    assert tf.zeros(1, 1).dtype == np.float32
    assert tf.ones([2], 3).dtype == np.int32
    with pytest.raises(ValueError, match=r"99 is no dtype: give its name, or a number of 1 \(float32\)"):
        tf.zeros(1, 99)


def test_shapes_of_arrays_equal_lists() -> None:
    shape = tf.zeros([4, 2, 3]).shape
    assert shape == [4, 2, 3]
    assert shape[1:] == [2, 3]
    assert shape[1:] != [2, 4]
    assert shape == (4, 2, 3)
    assert hash(shape) == hash((4, 2, 3))
    assert tf.TensorShape([None, 2])[1:] == [2]
