"""What ``tf.device`` says of a CPU device that is not there, and TensorFlow's functions as reductions."""

import os
import subprocess
import sys

import pytest

import muster_tensorflow as tf
from muster.distribute import ReductionToOneDevice

LINE = 'jax.config.update("jax_num_cpu_devices", 2)'
# In processes with one device: the tests' own has several.
PROGRAM = """
import sys
import jax
import muster_tensorflow as tf
if len(sys.argv) > 1:
    exec(sys.argv[1])
try:
    tf.device("/cpu:1")
    print("made")
except (RuntimeError, ValueError) as error:
    print(error)
"""


@pytest.mark.processes
def test_the_line_that_makes_more_cpu_devices_is_named_and_helps():
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}

    def told(*line):
        command = [sys.executable, "-c", PROGRAM, *line]
        done = subprocess.run(
            command, env=environment | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    assert told() == [
        "There is no device '/cpu:1' here. JAX has: /cpu:0. To divide the CPU into 2 devices, write this "
        f"line before JAX is first used: {LINE}"
    ]
    assert told(LINE) == ["made"]


def test_add_n_adds():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"], ReductionToOneDevice("/cpu:1", tf.add_n))
    assert strategy.num_replicas_in_sync == 1
