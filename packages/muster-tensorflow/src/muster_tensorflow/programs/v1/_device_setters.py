"""Load balancing for functions that TensorFlow 1's programs give to ``tf.device``.

Such a function places each operation of a graph. Here `tf.device` takes it and never calls it: the strategy
chooses devices. Programs make them nevertheless, as TensorFlow's example of CIFAR-10 on several GPUs does.
"""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp


class NodeDef:
    """Stands for an operation of a serialized graph, for ``isinstance``: nothing here is one.

    Source: tensorflow/core/framework/node_def.proto, ``NodeDef``.
    """


class RoundRobinStrategy:
    """Returns the numbers of tasks in turn.

    Args:
        num_tasks: How many there are.

    Source: tensorflow/python/training/device_setter.py, ``_RoundRobinStrategy``.
    """

    def __init__(self, num_tasks: int) -> None:
        self._num_tasks = num_tasks
        self._next_task = 0

    def __call__(self, op: Any) -> int:
        task = self._next_task
        self._next_task = (task + 1) % self._num_tasks
        return task


class GreedyLoadBalancingStrategy:
    """Returns the number of the task that has the least load so far.

    Args:
        num_tasks: How many there are.
        load_fn: Returns the load of an operation.

    Source: tensorflow/contrib/training/python/training/device_setter.py, ``GreedyLoadBalancingStrategy``.
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[Any], float]) -> None:
        self._load_fn = load_fn
        self._loads = [0.0] * num_tasks

    def __call__(self, op: Any) -> int:
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load_fn(op)
        return task


def byte_size_load_fn(op: Any) -> float:
    """Return the size of the only output of an operation, in bytes.

    Args:
        op: Has ``outputs``, each with a shape and a dtype.

    Raises:
        ValueError: There is another number of outputs, or its shape is open.

    Source: tensorflow/contrib/training/python/training/device_setter.py, ``byte_size_load_fn``.
    """
    if len(op.outputs) != 1:
        raise ValueError(f"Op {op} must have a single output, and has {len(op.outputs)}.")
    shape = op.outputs[0].shape
    if None in tuple(shape):
        raise ValueError(f"The shape {shape} of the output of {op} is open.")
    return float(math.prod(shape) * jnp.dtype(op.outputs[0].dtype).itemsize)
