"""Strategies on GPUs where there are none: the CPU computes, as with TensorFlow's soft placement."""

import jax
import pytest

import muster_tensorflow as tf
from muster import distribute


@pytest.mark.parametrize("names", [["/gpu:0", "/gpu:1"], ["GPU:0"], ("/device:GPU:0", "/device:GPU:1")])
def test_cpus_take_the_place_of_gpus_that_are_not_there(names, caplog):
    strategy = tf.distribute.MirroredStrategy(devices=names)
    assert isinstance(strategy, distribute.MirroredStrategy)
    assert strategy.num_replicas_in_sync == len(names)
    assert f"There is no {', '.join(names)} here" in caplog.text


def test_there_are_no_more_replicas_than_devices(caplog):
    few = len(jax.local_devices())
    strategy = tf.distribute.MirroredStrategy([f"/gpu:{number}" for number in range(few + 1)])
    assert strategy.num_replicas_in_sync == few
    assert f"for {few} replicas" in caplog.text


def test_one_device_is_the_cpu(caplog):
    strategy = tf.distribute.OneDeviceStrategy("/gpu:0")
    with strategy.scope():
        variable = tf.Variable(1.0)
    assert variable.value.devices() == {jax.local_devices()[0]}
    assert "the CPU computes, as TensorFlow lets it, for 1 replica." in caplog.text
    assert tf.contrib.distribute.OneDeviceStrategy("/gpu:0").num_replicas_in_sync == 1


def test_other_devices_have_to_be_there():
    with pytest.raises(ValueError, match="no device '/tpu:0'"):
        tf.distribute.OneDeviceStrategy("/tpu:0")
    with pytest.raises(ValueError, match="no device '/gpu:0'"):
        tf.distribute.MirroredStrategy(["/cpu:0", "/gpu:0"])
    with pytest.raises(ValueError, match="must be a list"):
        tf.distribute.MirroredStrategy("/gpu:0")
