"""``tf.device``: where eager computations run."""

import contextlib
import logging
import re
from collections.abc import Callable
from typing import Any

import jax

from muster.extend import device_of
from muster_tensorflow.programs.v2.devices._device_spec import DeviceSpec

_log = logging.getLogger(__name__)

_ONLY_A_TASK = re.compile(r"(/?(job:\w+|replica:\d+|task:\d+))+")


def device(
    device_name: str | DeviceSpec | jax.Device | Callable[[Any], Any] | None,
) -> contextlib.AbstractContextManager[object]:
    """Make a device the default in a ``with`` block, for JAX's computations and Keras' variables.

    A compiled function runs where its strategy says. NumPy values stay on the host.

    Args:
        device_name: A TensorFlow device string such as ``"/GPU:0"``, or a ``jax.Device``; None changes
            nothing, and nor does a task without a device, since each task of a job runs the program, or a GPU
            where there are none, as with TensorFlow's soft placement. So does a function, by which
            TensorFlow 1 places the operations of a graph: strategies say which devices compute steps.

    Raises:
        RuntimeError: There is no such device.

    Source: tensorflow/python/framework/ops.py, ``device_v2``.
    """
    if isinstance(device_name, DeviceSpec):
        device_name = device_name.to_string()
    if not device_name or callable(device_name):
        return contextlib.nullcontext()
    text = getattr(device_name, "name", device_name)
    if isinstance(text, str) and _ONLY_A_TASK.fullmatch(text):
        return contextlib.nullcontext()
    if isinstance(text, str) and text.lower().lstrip("/") in ("cpu", "gpu", "device:cpu", "device:gpu"):
        device_name = f"{text}:0"
    try:
        device = device_of(device_name)
    except ValueError as exc:
        if isinstance(text, str) and "gpu" in text.lower() and jax.default_backend() == "cpu":
            _log.warning("There is no %s here: the CPU computes, as TensorFlow lets it.", text)
            return contextlib.nullcontext()
        raise RuntimeError(str(exc)) from exc  # TensorFlow programs catch this error
    chosen: contextlib.AbstractContextManager[object] = jax.default_device(device)
    return chosen
