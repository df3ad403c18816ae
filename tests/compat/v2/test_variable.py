"""``tf.Variable``."""

import numpy as np
import pytest

import muster.compat.tensorflow as tf


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_variables_of_64_bit_have_32():
    epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.dtypes.int64), name="epoch")
    epoch.assign_add(1)
    assert epoch.numpy() < 2
    assert epoch.dtype == epoch.value.dtype == "int32"
    assert tf.Variable(np.float64(1.5)).dtype == "float32"
    with pytest.raises(ValueError, match="too large for: set jax_enable_x64"):
        tf.Variable(2**40)
