"""Functions of stores that are exported by JAX."""

import jax
import jax.export
import numpy as np

from muster.ps._plan import ArraySpec
from muster.ps.store import StoredArray, StoredFunction


def exported(update, *specs):
    shapes = [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in specs]
    return bytes(jax.export.export(jax.jit(update), platforms=("cpu",))(*shapes).serialize())


def descent(size, name="descent", rate=0.5, server=0):
    """A variable, how often it was changed, and a function that subtracts what is pushed."""
    kernel, count = ArraySpec("kernel", (size,), "float32"), ArraySpec("count", (), "int32")
    pushed = ArraySpec("gradient", (size,), "float32")
    function = StoredFunction(
        fingerprint=name,
        takes=("kernel",),
        reads=("count", "kernel"),
        updates=("kernel", "count"),
        pushed=(pushed,),
        update=exported(
            lambda count, value, gradient: (value - rate * gradient, count + 1), count, kernel, pushed
        ),
    )
    return [StoredArray(spec.name, server, spec.shape, spec.dtype) for spec in (kernel, count)], function


def filled(array, value):
    return np.full(array.shape, value, array.dtype)
