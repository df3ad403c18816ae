"""The worker's part of a scheduled function, as exported: a function of flat arrays."""

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp

from muster.distribute.coordinator._stored_functions import StoredFunctions
from muster.program.passes import LookupStep, NumberedStep

Part = tuple[Callable[..., list[jax.Array]], Sequence[jax.ShapeDtypeStruct]]
"""A function, and the shapes and dtypes of its arguments."""


def worker_parts(
    functions: StoredFunctions,
    lookups: LookupStep | None,
    numbered: NumberedStep | None,
    local: Sequence[jax.ShapeDtypeStruct],
    batch: Sequence[jax.ShapeDtypeStruct],
) -> dict[str, Part]:
    """Return what a worker computes, by the name of the field of ``ClosureProgram``.

    Args:
        functions: What servers compute.
        lookups: The step, divided at its look-ups; None if there are no tables.
        numbered: The step that is given numbers of ids; None if there are no hashed tables.
        local: The shapes and dtypes of the worker's own variables.
        batch: Those of the batch.
    """
    given = {} if numbered is None else numbered.numbers
    asked = [table.name for table in functions.tables if table.hashed]
    taken = len(functions.shapes)
    tables = taken + len(functions.row_shapes)
    kept = tables + len(local)
    end = kept + len(batch)

    def compute(*flat: jax.Array) -> list[jax.Array]:
        numbers = _all_numbers(given, dict(zip(asked, flat[end:], strict=True)))
        arrays = [*flat[kept:end], *numbers]
        pushes, own, results = functions.work(flat[:taken], flat[taken:tables], flat[tables:kept], arrays)
        return [*pushes, *own, *results]

    shapes = [*functions.shapes, *functions.row_shapes, *local, *batch, *(given[path] for path in asked)]
    parts: dict[str, Part] = {"compute": (compute, shapes)}
    if lookups is not None:

        def ids(*flat: jax.Array) -> list[jax.Array]:
            own, arrays = flat[: len(local)], list(flat[len(local) :])
            found = lookups.ids(own, [*arrays, *_all_numbers(given, {})])
            if numbered is not None:
                found.update(numbered.ids(own, arrays))
            return [found[table.name] for table in functions.tables]

        parts["ids"] = ids, [*local, *batch]
    return parts


def _all_numbers(
    shapes: Mapping[str, jax.ShapeDtypeStruct], known: Mapping[str, jax.Array]
) -> list[jax.Array]:
    """Return the numbers of ids of each hashed table; zeros for those on which nothing depends."""
    return [
        known[path] if path in known else jnp.zeros(shape.shape, shape.dtype)
        for path, shape in shapes.items()
    ]
