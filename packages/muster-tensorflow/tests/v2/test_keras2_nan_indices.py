"""The place of the greatest value among NaN; it fails when what is used of Keras changes."""

import keras
import numpy as np
import pytest

import muster_tensorflow as tf

NAN = np.nan
# Each row, and what TensorFlow 2.15 finds in it.
ROWS = [
    ([NAN, 1, 2], 2, 1),
    ([1, NAN, 2], 2, 0),
    ([1, 2, NAN], 1, 0),
    ([NAN, NAN, NAN], 0, 0),
    ([NAN, 2, NAN, 1], 1, 3),
    ([1, NAN, NAN, 5, NAN, 3], 3, 0),
    ([-np.inf, NAN, -1], 2, 0),
]


@pytest.mark.parametrize(("row", "greatest", "least"), ROWS)
def test_nan_is_passed_over(row, greatest, least):
    for dtype in ("float32", "float16", "bfloat16"):
        values = tf.cast(row, dtype)
        assert (int(tf.argmax(values)), int(tf.argmin(values))) == (greatest, least)
        assert (int(keras.ops.argmax(values)), int(keras.ops.argmin(values))) == (greatest, least)
    assert int(tf.function(tf.argmax)(np.float32(row))) == greatest
    accuracy = keras.metrics.SparseCategoricalAccuracy()
    accuracy.update_state([greatest], np.float32([row]))
    assert accuracy.result() == 1
    assert int(keras.ops.argmax(np.int32([1, 3, 2]))) == 1
