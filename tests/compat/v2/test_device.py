"""``tf.device``."""

import jax.numpy as jnp
import numpy as np
import pytest

import muster.compat.tensorflow as tf
from muster._keras import keras


def test_device_says_where_jax_computes():
    with tf.device("/device:CPU:1"):
        variable = keras.Variable(np.ones(2, np.float32))
        assert [device.id for device in jnp.ones(2).devices()] == [1]
        assert [device.id for device in variable.value.devices()] == [1]
        with tf.device(None):
            assert [device.id for device in jnp.ones(2).devices()] == [1]
    assert [device.id for device in jnp.ones(2).devices()] == [0]
    with pytest.raises(RuntimeError, match=r"no device '/gpu:7' here.*/cpu:0"):
        tf.device("/gpu:7")


def test_what_list_logical_devices_has_can_be_given_to_strategies():
    devices = tf.config.list_logical_devices("CPU")[:2]
    assert tf.distribute.MirroredStrategy(devices).num_replicas_in_sync == 2
    with tf.device(devices[1]):
        assert [device.id for device in jnp.ones(2).devices()] == [1]
