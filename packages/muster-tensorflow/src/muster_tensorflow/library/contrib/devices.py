"""The devices, as ``tf.contrib.eager`` lists them."""

from muster_tensorflow.programs.v2 import config


def list_devices() -> list[str]:
    """Return the names of the devices.

    Source: tensorflow/python/eager/context.py, ``list_devices``, of TensorFlow 1.15.
    """
    return [f"/job:localhost/replica:0/task:0{each.name}" for each in config.list_logical_devices()]


def num_gpus() -> int:
    """Return how many GPUs there are.

    Source: tensorflow/python/eager/context.py, ``num_gpus``, of TensorFlow 1.15.
    """
    return len(config.list_logical_devices("GPU"))
