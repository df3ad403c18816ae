"""NumPy's dtypes have the attributes of TensorFlow's."""

import numpy as np
import pytest

import muster_tensorflow as tf


def test_dtypes_say_what_they_are() -> None:
    assert tf.float32.is_floating
    assert tf.bfloat16.is_floating
    assert not tf.int32.is_floating
    assert tf.int32.is_integer
    assert tf.uint8.is_unsigned
    assert tf.bool.is_bool
    assert tf.complex64.is_complex
    assert tf.complex64.real_dtype == tf.float32.real_dtype == tf.float32.base_dtype == tf.float32
    assert tf.float32.is_compatible_with("float32")
    assert not tf.float32.is_compatible_with(tf.int32)
    assert tf.float32.as_numpy_dtype is np.float32
    assert tf.string.as_numpy_dtype is object
    assert [each.as_datatype_enum for each in (tf.float32, tf.string, tf.bool)] == [1, 7, 10]
    assert (tf.float64.size, tf.string.size) == (8, 1)


def test_dtypes_have_limits() -> None:
    assert tf.float32.max == np.finfo(np.float32).max == -tf.float32.min
    assert tf.uint8.limits == (0, 255)
    assert tf.bool.limits == (0, 1)
    assert float(tf.bfloat16.max) > 3e38


def test_those_of_values_have_them_too() -> None:
    assert tf.constant([1.0]).dtype.is_floating
    assert tf.Variable(1).dtype.is_integer
    assert tf.Variable(1.0).dtype.max == tf.float32.max
    assert tf.keras.Input([2]).dtype.base_dtype == "float32"
    with pytest.raises(AttributeError, match="no_such"):
        getattr(tf.Variable(1.0).dtype, "no" + "_such")
    with pytest.raises(AttributeError, match="no_such"):
        getattr(tf.float32, "no" + "_such")


def test_text_has_the_dtype_of_the_name_string() -> None:
    data = tf.data.Dataset.from_tensor_slices(["a", "bcd"])
    kinds = []
    for each in (data, data.batch(2)):
        list(each.map(lambda x: kinds.append(x.dtype) or x))
    kinds += [tf.string, tf.constant("a").dtype, tf.constant(["bcd"]).dtype, data.element_spec.dtype]
    assert len(kinds) > 6
    assert all(kind == "string" and kind != "float32" for kind in kinds)
    assert tf.constant(1.0).dtype != "string"
