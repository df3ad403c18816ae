"""``tf.device``."""

import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow as tf
from muster._keras import keras


def test_device_says_where_jax_computes():
    with tf.device("/device:CPU:1"):
        variable = keras.Variable(np.ones(2, np.float32))
        assert [device.id for device in jnp.ones(2).devices()] == [1]
        assert [device.id for device in variable.value.devices()] == [1]
        with tf.device(None), tf.device(lambda operation: "/device:CPU:0"):
            assert [device.id for device in jnp.ones(2).devices()] == [1]
    assert [device.id for device in jnp.ones(2).devices()] == [0]
    with pytest.raises(RuntimeError, match=r"no device '/cpu:17' here.*/cpu:0"):
        tf.device("/cpu:17")


def test_a_device_without_a_number_is_the_first_and_a_gpu_may_be_missing(caplog):
    with tf.device("/device:CPU:1"), tf.device("cpu"):
        assert [device.id for device in jnp.ones(2).devices()] == [0]
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("there is a GPU")
    with caplog.at_level("WARNING", "muster"), tf.device("GPU"):
        assert [device.id for device in jnp.ones(2).devices()] == [0]
    assert "There is no GPU here: the CPU computes" in caplog.text


def test_what_list_logical_devices_has_can_be_given_to_strategies():
    devices = tf.config.list_logical_devices("CPU")[:2]
    assert tf.distribute.MirroredStrategy(devices).num_replicas_in_sync == 2
    with tf.device(devices[1]):
        assert [device.id for device in jnp.ones(2).devices()] == [1]


def test_a_task_without_a_device_is_the_one_that_runs_the_program():
    for name in ("/job:worker", "/job:localhost/replica:0/task:0", "job:worker/task:1"):
        with tf.device(name):
            assert tf.constant(1.0).device.endswith("CPU:0")
