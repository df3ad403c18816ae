"""Give JAX's devices the string methods that programs call on ``tensor.device``.

``x.device.endswith("GPU:0")`` and ``"CPU" in x.device`` are about TensorFlow's name of the device. The
methods are new names, which JAX's class does not have.
"""

from typing import Any

import jax

from muster import keras
from muster.extend import StoredVariables, VariableShard, storage_of
from muster_tensorflow.patches import change


def _name(device: Any) -> str:
    """Return TensorFlow's name of a device of this process."""
    number = jax.local_devices(backend=device.platform).index(device)
    return f"/job:localhost/replica:0/task:0/device:{device.platform.upper()}:{number}"


def _endswith(self: Any, suffix: str | tuple[str, ...]) -> bool:
    return _name(self).endswith(suffix)


def _startswith(self: Any, prefix: str | tuple[str, ...]) -> bool:
    return _name(self).startswith(prefix)


def _contains(self: Any, part: str) -> bool:
    return part in _name(self)


def _split(self: Any, separator: str | None = None, limit: int = -1) -> list[str]:
    return _name(self).split(separator, limit)


def _server_of(variable: Any) -> int | None:
    """Return the number of the parameter server that has a variable; None if none has it."""
    if isinstance(variable, VariableShard):
        return variable.place
    storage = storage_of(variable)
    rows = storage.rows_of(variable) if isinstance(storage, StoredVariables) else ()
    return rows[0].array.server if rows else None


def _of_variable(self: Any) -> str:
    """Return TensorFlow's name of the device of a variable's value; in a step, of the first device.

    That of a variable in shards is the device of its first shard.
    """
    server = _server_of(self)
    if server is not None:
        return f"/job:ps/replica:0/task:{server}/device:CPU:0"
    value = self.value
    known = isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
    return _name(min(value.devices(), key=lambda each: each.id) if known else jax.local_devices()[0])


def patch() -> None:
    """Give JAX's devices the methods of TensorFlow's names, and variables a device."""
    methods = {
        "endswith": _endswith,
        "startswith": _startswith,
        "split": _split,
        "__contains__": _contains,
    }
    for name, method in methods.items():
        change(jax.Device, name, method)
    change(keras.Variable, "device", property(_of_variable))
