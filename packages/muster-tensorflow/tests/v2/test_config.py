"""``tf.config``: which devices there are, and how programs set them up."""

import os
import subprocess
import sys

import jax.numpy as jnp
import pytest

import muster_tensorflow as tf


def test_what_programs_call_first():
    (cpu,) = tf.config.list_physical_devices("CPU")
    assert cpu == tf.config.PhysicalDevice("/physical_device:CPU:0", "CPU")
    assert tf.config.list_physical_devices() == tf.config.experimental.list_physical_devices("CPU") == [cpu]
    assert tf.config.get_visible_devices("GPU") == []
    first, second, *_ = tf.config.list_logical_devices("CPU")
    assert (first.name, second.name) == ("/device:CPU:0", "/device:CPU:1")
    assert tf.distribute.MirroredStrategy([first.name, second.name]).num_replicas_in_sync == 2
    tf.config.experimental_connect_to_cluster(None)
    tf.config.optimizer.set_jit(True)
    tf.tpu.experimental.initialize_tpu_system(None)


def test_options_of_the_optimizer_of_graphs_are_kept() -> None:
    before = tf.config.optimizer.get_experimental_options()
    assert before == {"disable_model_pruning": False, "disable_meta_optimizer": False}
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    assert tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"] is True
    tf.config.optimizer.set_experimental_options(before)
    assert tf.config.optimizer.get_experimental_options() == before


def test_devices_cannot_be_hidden():
    tf.config.set_visible_devices(tf.config.list_physical_devices("CPU"), "CPU")
    tf.config.set_visible_devices([], "GPU")  # there is none
    with pytest.raises(RuntimeError, match=r"CPU:0 would be hidden.*JAX_PLATFORMS"):
        tf.config.set_visible_devices([], "CPU")


@pytest.mark.processes
def test_a_cpu_becomes_several_before_it_is_used():
    code = """
import muster_tensorflow as tf
cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 3)
print(len(tf.config.list_logical_devices("CPU")))
"""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr


def test_what_cannot_be_divided():
    (cpu,) = tf.config.list_physical_devices("CPU")
    jnp.zeros(1)  # now JAX has its devices
    with pytest.raises(RuntimeError, match="Call this before all else"):
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    limited = [tf.config.LogicalDeviceConfiguration(memory_limit=1024)]
    with pytest.raises(ValueError, match="memory of /physical_device:CPU:0 cannot be limited"):
        tf.config.set_logical_device_configuration(cpu, limited)
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    with pytest.raises(RuntimeError, match="MEM_FRACTION"):
        tf.config.set_logical_device_configuration(gpu, limited)


def test_memory_growth_is_said_to_jax_elsewhere(caplog):
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    tf.config.experimental.set_memory_growth(gpu, False)
    assert not caplog.records
    tf.config.experimental.set_memory_growth(gpu, True)
    assert "XLA_PYTHON_CLIENT_PREALLOCATE=false" in caplog.text


def test_placement_that_is_jax_own_is_said_in_the_log(caplog):
    tf.config.set_soft_device_placement(False)
    tf.debugging.set_log_device_placement(False)
    assert not caplog.records
    tf.config.set_soft_device_placement(True)
    assert "does not exist is an error" in caplog.text
    tf.debugging.set_log_device_placement(True)
    assert "array.devices() says" in caplog.text
