"""What is said of a CPU device that is not there, in processes with one: the tests' own has several."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

MORE = """
import sys
import jax
from muster.distribute import CentralStorageStrategy, MirroredStrategy
from muster.distribute import OneDeviceStrategy, ReductionToOneDevice
makers = [
    OneDeviceStrategy,
    lambda name: MirroredStrategy(["/cpu:0", name]),
    lambda name: CentralStorageStrategy([name]),
    lambda name: CentralStorageStrategy(parameter_device=name),
    ReductionToOneDevice,
]
if len(sys.argv) > 1:
    exec(sys.argv[1])
for make in makers:
    try:
        make("/cpu:1")
        print("made")
    except (RuntimeError, ValueError) as error:
        print(error)
"""


def test_the_line_that_makes_more_cpu_devices_is_named_and_helps():
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}

    def told(*line):
        command = [sys.executable, "-c", MORE, *line]
        done = subprocess.run(
            command, env=environment | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    line = 'jax.config.update("jax_num_cpu_devices", 2)'
    message = (
        "There is no device '/cpu:1' here. JAX has: /cpu:0. To divide the CPU into 2 devices, write this "
        f"line before JAX is first used: {line}"
    )
    assert told() == [message] * 5
    assert told(line) == ["made"] * 5
