"""Functions of stores that are exported by JAX."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from muster.ps._array_spec import ArraySpec
from muster.ps.contents import StoredArray, StoredFunction, TableUse


def exported(update, *specs):
    shapes = [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in specs]
    return bytes(jax.export.export(jax.jit(update), platforms=("cpu",))(*shapes).serialize())


def exported_rows(update, columns, row_pushes, others=()):
    """An update of any number of rows; columns are arrays, and row_pushes single rows."""
    (count,) = jax.export.symbolic_shape("rows")
    rows = [jax.ShapeDtypeStruct((count, *spec.shape[1:]), spec.dtype) for spec in columns]
    rows += [jax.ShapeDtypeStruct((count, *spec.shape), spec.dtype) for spec in row_pushes]
    whole = [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in others]
    return bytes(jax.export.export(jax.jit(update), platforms=("cpu",))(*rows, *whole).serialize())


def adagrad(rows, dim, server=0, start=0, name="adagrad"):
    """A table with its slot and a rate, and a function that trains rows of it."""
    table, slot = ArraySpec("table", (rows, dim), "float32"), ArraySpec("slot", (rows, dim), "float32")
    rate, gradient = ArraySpec("rate", (), "float32"), ArraySpec("gradient", (dim,), "float32")

    def update(weights, sums, gradients, rate):
        sums = sums + gradients**2
        return weights - rate * gradients / jnp.sqrt(sums), sums

    use = TableUse(
        columns=("table", "slot"),
        update=exported_rows(update, [table, slot], [gradient], [rate]),
        reads=("rate",),
        row_pushes=(gradient,),
        start=start,
    )
    function = StoredFunction(fingerprint=name, tables=(use,))
    arrays = [
        StoredArray(spec.name, server, spec.shape, spec.dtype, by_rows=bool(spec.shape))
        for spec in (table, slot, rate)
    ]
    return arrays, function


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
