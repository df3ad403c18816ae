"""Name the rows of variables on servers, and the values that workers push for their updates."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from muster._errors import TraceError
from muster.distribute.engine._flat_arrays import Rows
from muster.distribute.engine._stored_tables import (
    HashedColumn,
    Readable,
    Source,
    StoredRows,
    nbytes_of,
    row_lookups,
)
from muster.program.passes import LookupStep, NotByRowsError, WorkerServerSplit
from muster.ps import ArraySpec

# A variable of which rows are looked up travels as a whole, if it must, up to this size.
_LARGEST_WHOLE_BYTES = 256 << 20


class VariableLayout:
    """Names rows of variables, and of what is pushed, on servers.

    Args:
        specs: Path -> shape and dtype of each variable.
        placed: Path -> where the rows of each variable on servers are, in order.
        pushed: The shape and dtype of each array that the worker computes for servers.
        hashed: Path of a hashed table -> what servers keep for each row, in order.
    """

    def __init__(
        self,
        specs: Mapping[str, jax.ShapeDtypeStruct],
        placed: Mapping[str, Sequence[StoredRows]],
        pushed: Sequence[jax.ShapeDtypeStruct],
        hashed: Mapping[str, Sequence[HashedColumn]],
    ) -> None:
        self.specs, self.placed, self.hashed = specs, placed, hashed
        self._pushed = pushed

    def rows(self, path: str, stored: StoredRows) -> Rows:
        """Return which rows of a variable are stored there."""
        server = stored.array.server
        whole = len(self.placed[path]) == 1
        return Rows(server) if whole else Rows(server, stored.start, stored.stop)

    def name_of(self, path: str, rows: Rows) -> str | None:
        """Return the name of rows of a variable, or of the whole, on the server that holds these."""
        is_number = math.prod(self.specs[path].shape) == 1
        for each in self.placed[path]:
            held = self.rows(path, each)
            if held == rows or (is_number and held == Rows(rows.server)):
                return each.array.name
        return None

    def readable(self, paths: Sequence[str], server: int) -> Readable:
        """Return those of some numbers that a server has, as its functions read them."""
        names = {path: name for path in paths if (name := self.name_of(path, Rows(server)))}
        shapes = [self.specs[path] for path in names]
        return Readable((*names,), (*names.values(),), shapes, list)

    def spec(self, source: Source) -> ArraySpec:
        """Return what is pushed."""
        spec = self.kind(source.key)
        name = source.key if isinstance(source.key, str) else f"push {source.key}"
        start, stop = source.rows.start, source.rows.stop
        shape = source.rows.shape_of(tuple(spec.shape))
        return ArraySpec(name if stop is None else f"{name}[{start}:{stop}]", shape, str(spec.dtype))

    def kind(self, key: str | int) -> jax.ShapeDtypeStruct:
        """Return the shape and dtype of a variable, or of an array that the worker computes."""
        return self.specs[key] if isinstance(key, str) else self._pushed[key]


def stored_lookups(step: WorkerServerSplit, places: VariableLayout, batch: Any) -> LookupStep | None:
    """Divide a step at its look-ups in variables that are so large that rows of them travel alone.

    Args:
        step: The step.
        places: Where variables are.
        batch: The shapes and dtypes of the arrays of the batch.

    Returns:
        The divided step; None if there is no such variable.

    Raises:
        TraceError: The step needs all rows of a variable that is too large for that.
    """
    lookups, refused = row_lookups(
        step, places.specs, places.placed, batch, lambda lookups, path: _apart(lookups, places, path)
    )
    for path, error in refused.items():
        if (nbytes := nbytes_of(places.specs[path])) > _LARGEST_WHOLE_BYTES:
            raise TraceError(
                f"{error} It has {nbytes >> 20} MiB, and at most {_LARGEST_WHOLE_BYTES >> 20} MiB of a "
                "variable travel to workers as a whole."
            ) from error
    return lookups


def _apart(lookups: LookupStep, places: VariableLayout, table: str) -> NotByRowsError | None:
    """Return an error if a server that holds rows of a table lacks those of its slots."""
    for stored in places.placed[table]:
        rows = places.rows(table, stored)
        for path in lookups.columns[table]:
            if places.name_of(path, rows) is None:
                return NotByRowsError(table, f"the same rows of {path} are on another server")
    if kept := [column.path for column in places.hashed.get(table, ())]:
        for path in lookups.columns[table]:
            if path not in kept:
                return NotByRowsError(table, f"{path} is no slot of it")
    return None
