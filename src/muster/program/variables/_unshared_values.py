"""Values of variables that nothing but their variable holds, so that a step may overwrite them.

``target.assign(variable)`` gives two variables one array, and ``before = variable.value`` keeps one that a
step would delete. TensorFlow copies there. Here a step does, when it finds that its state is held elsewhere
as well: by the counts of references that Python keeps, so that nothing is copied otherwise. Other arrays on
the same memory, as ``addressable_data`` gives, are not seen.
"""

import sys
from collections.abc import Sequence
from typing import Any

import jax

from muster.program.variables._initial_values import own_array
from muster.program.variables._keras_internals import values_of

Array = Any


def unshared_values(variables: Sequence[Any]) -> list[Array]:
    """The values of variables; a copy of each that anything else holds."""
    values = values_of(variables)
    if not values or max(map(sys.getrefcount, values)) <= _UNSHARED:
        return values
    shared = [count > _UNSHARED for count in map(sys.getrefcount, values)]
    return [copy_of(value) if each else value for value, each in zip(values, shared, strict=True)]


def copy_of(value: Any) -> Any:
    """A copy of an array, where it is; what is no array, is traced or has been deleted, as it is."""
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer) or value.is_deleted():
        return value
    if len(value.sharding.device_set) == 1:
        return own_array(value, str(value.dtype))  # may still be moved by what uses it, as before
    parts = [own_array(shard.data, str(value.dtype)) for shard in value.addressable_shards]
    return jax.make_array_from_single_device_arrays(value.shape, value.sharding, parts)


# What is counted for something that a list holds, and a variable.
_UNSHARED = next(map(sys.getrefcount, [object()])) + 1
