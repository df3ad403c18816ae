"""Copy variables' values that are referenced elsewhere, so that a step may donate them.

``target.assign(variable)`` gives two variables one array, and ``before = variable.value`` keeps one that a
step would delete. TensorFlow copies there. Here a step does, when it finds that its state is held elsewhere
as well, by Python's reference counts; nothing else is copied. Other arrays that share the memory, such as
``addressable_data`` returns, are not found.
"""

import sys
from collections.abc import Sequence
from typing import Any

import jax

from muster.program.variables._initial_values import donatable_copy
from muster.program.variables._keras_internals import values_of


def unshared_values(variables: Sequence[Any]) -> list[jax.Array]:
    """Return the values of variables, after copying those that anything else holds, too."""
    values = values_of(variables)
    if not values or max(map(sys.getrefcount, values)) <= _UNSHARED:
        return values
    shared = [count > _UNSHARED for count in map(sys.getrefcount, values)]
    return [copy_of(value) if each else value for value, each in zip(values, shared, strict=True)]


def copy_of(value: Any) -> Any:
    """Copy an array on its devices; return anything that is no array, is traced or was deleted itself."""
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer) or value.is_deleted():
        return value
    if len(value.sharding.device_set) == 1:
        return donatable_copy(value, str(value.dtype))  # uncommitted: JAX may still move it
    parts = [donatable_copy(shard.data, str(value.dtype)) for shard in value.addressable_shards]
    return jax.make_array_from_single_device_arrays(value.shape, value.sharding, parts)


# The reference count of an object that a list and a variable hold.
_UNSHARED = next(map(sys.getrefcount, [object()])) + 1
