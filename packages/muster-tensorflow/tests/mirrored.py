"""Runs a program inside of the scope of a MirroredStrategy of two CPU devices.

Usage: ``mirrored.py PROGRAM``.
"""

import runpy
import sys
from pathlib import Path

import muster_tensorflow as tf

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    assert strategy.num_replicas_in_sync == 2
    with strategy.scope():
        runpy.run_path(sys.argv[0], run_name="__main__")
