"""Tables on servers, of which workers fetch and push only the rows that they need."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.export
import msgspec
import numpy as np

from muster._row_ids import LEAST_TABLE_BYTES
from muster.distribute.engine._asked_rows import AskedTable, TableRows
from muster.distribute.engine._flat_arrays import RowRange
from muster.distribute.engine._variable_layout import (
    HashedColumn,
    Readable,
    Source,
    StoredRows,
    VariableLayout,
    exported,
)
from muster.program.passes import LookupStep, NotByRowsError, UpdatePart, WorkerServerSplit, find_lookups
from muster.ps import ArraySpec
from muster.ps.contents import TableUse


def row_lookups(
    step: WorkerServerSplit,
    specs: Mapping[str, jax.ShapeDtypeStruct],
    paths: Iterable[str],
    batch: Any,
    check: Callable[[LookupStep, str], NotByRowsError | None],
    least_bytes: int = LEAST_TABLE_BYTES,
) -> tuple[LookupStep | None, dict[str, NotByRowsError]]:
    """Divide a step at its look-ups in variables that are so large that rows of them travel alone.

    Args:
        step: The step.
        specs: Path -> shape and dtype of each variable.
        paths: The paths of the variables that servers hold.
        batch: The shapes and dtypes of the arrays of the batch.
        check: Returns an error if rows of a table of the divided step cannot travel alone after all.
        least_bytes: The size of the smallest variable that counts as large.

    Returns:
        The divided step, or None if there is no such variable; and path -> error of those that are looked up
        in, and travel as a whole all the same.
    """
    candidates = {
        path for path in paths if len(specs[path].shape) >= 2 and nbytes_of(specs[path]) >= least_bytes
    }
    errors: dict[str, NotByRowsError] = {}
    while True:
        lookups, refused = find_lookups(step, candidates, specs, batch)
        tables = () if lookups is None else lookups.tables
        refused.update({path: error for path in tables if lookups and (error := check(lookups, path))})
        errors.update(refused)
        if refused.keys().isdisjoint(tables):
            return lookups, errors
        candidates -= refused.keys()


def nbytes_of(array: Any) -> int:
    """Return the size of an array in bytes, by its shape and dtype."""
    return int(math.prod(array.shape) * np.dtype(array.dtype).itemsize)


class StoredTables:
    """The tables of a step, as servers have them.

    Args:
        lookups: The step, divided at its look-ups.
        places: Where variables are.
        batch: The shapes and dtypes of the arrays of the batch.
        servers: The number of servers.

    Attributes:
        tables: The tables, as workers know them.
        uses: How each server uses its rows of tables.
        brought: What workers bring for that as a whole, by server.
        meaning: A text that is the same for the same.
    """

    def __init__(self, lookups: LookupStep, places: VariableLayout, batch: Any, servers: int) -> None:
        self._lookups, self._places = lookups, places
        (self._symbol,) = jax.export.symbolic_shape("rows")
        self._exported: dict[Any, tuple[str, bytes]] = {}
        self.uses: list[list[TableUse]] = [[] for _ in range(servers)]
        self.brought: list[list[Source]] = [[] for _ in range(servers)]
        self.meaning = ""
        local = [places.specs[path] for path in lookups.local]
        asked = jax.eval_shape(lookups.ids, local, batch)
        self.tables = tuple(self._table(path, asked[path].size) for path in lookups.tables)
        for path in lookups.tables:
            part = lookups.update(path, self._symbol)
            for stored in places.placed[path]:
                self._add(path, part, stored)

    @property
    def row_shapes(self) -> list[jax.ShapeDtypeStruct]:
        """The shapes and dtypes of the ids and rows that a worker is given, table by table."""
        return [shape for table in self.tables for shape in table.row_shapes]

    def _table(self, path: str, asked: int) -> AskedTable:
        spec = self._places.specs[path]
        stored = self._places.placed[path]
        stops = [each.stop for each in stored]
        if path not in self._places.hashed:
            stops = [each.start + each.array.shape[0] for each in stored]
        return AskedTable(
            name=path,
            shape=tuple(spec.shape),
            dtype=str(spec.dtype),
            given=max(1, min(asked, spec.shape[0])),
            hashed=path in self._places.hashed,
            pushed=len(self._lookups.row_pushes[path]),
            parts=tuple(
                TableRows(each.array.server, each.start, stop)
                for each, stop in zip(stored, stops, strict=True)
            ),
        )

    def _add(self, table: str, part: UpdatePart | None, stored: StoredRows) -> None:
        """Let a server use the rows of a table that it holds."""
        server, rows = stored.array.server, self._places.rows(table, stored)
        names = [self._places.name_of(path, rows) for path in self._lookups.columns[table]]
        columns, start, slots = tuple(name for name in names if name is not None), stored.start, 0
        if (kept := self._places.hashed.get(table)) is not None:
            columns, start, slots = columns[:1], 0, len(kept) - 1
        if part is None:
            use = TableUse(columns=columns, start=start)
            self.uses[server].append(use)
            self.meaning += f"\n{server} {use}"
            return
        by_rows = self._lookups.row_pushes[table]
        numbers = [path for path in part.takes if path not in self._lookups.columns[table]]
        here = self._places.readable(numbers, server)
        others = [path for path in numbers if path not in here.paths]
        keys: list[str | int] = [*others, *(number for number in part.pushes if number not in by_rows)]
        brought = [Source(key, RowRange(server)) for key in keys]
        use = TableUse(
            columns=columns,
            reads=here.names,
            pushed=tuple(self._places.spec(each) for each in brought),
            row_pushes=tuple(self._row_push(number) for number in by_rows),
            start=start,
            slots=slots,
        )
        text, update = self._update(table, part, here, keys)
        self.meaning += f"\n{server} {use} {text}"
        self.uses[server].append(msgspec.structs.replace(use, update=update))
        self.brought[server] += brought

    def _row_push(self, number: int) -> ArraySpec:
        shape = self._lookups.row_shape(number)
        return ArraySpec(f"push {number}", tuple(shape.shape), str(shape.dtype))

    def _update(
        self, table: str, part: UpdatePart, here: Readable, brought: Sequence[str | int]
    ) -> tuple[str, bytes]:
        """Return the update of any number of rows, as a text and exported.

        Args:
            table: The table.
            part: The update.
            here: The numbers that it reads on the server.
            brought: What workers bring for it as a whole, in order.
        """
        known = table, here.names, tuple(map(str, here.shapes)), *brought
        if known in self._exported:
            return self._exported[known]
        kept = self._places.hashed.get(table) or [
            HashedColumn(path, tuple(spec.shape[1:]), str(spec.dtype))
            for path in self._lookups.columns[table]
            for spec in [self._places.specs[path]]
        ]
        columns = [column.path or f"slot {number}" for number, column in enumerate(kept)]
        by_rows = self._lookups.row_pushes[table]
        inputs: tuple[str | int, ...] = (*part.takes, *part.pushes)
        keys: list[str | int] = [*columns, *by_rows]

        def update(*arrays: jax.Array) -> list[jax.Array]:
            read = len(keys) + len(here.names)
            numbers = [*here.values(arrays[len(keys) : read]), *arrays[read:]]
            values = dict(zip([*keys, *here.paths, *brought], [*arrays[: len(keys)], *numbers], strict=True))
            made = part.function(*(values[each] for each in inputs))
            new: Mapping[str, jax.Array] = dict(zip(part.updates, made, strict=True))
            return [new.get(path, values[path]) for path in columns]

        rows = [jax.ShapeDtypeStruct((self._symbol, *each.shape), each.dtype) for each in kept]
        for number in by_rows:
            one = self._lookups.row_shape(number)
            rows.append(jax.ShapeDtypeStruct((self._symbol, *one.shape), one.dtype))
        shapes = [*rows, *here.shapes, *(self._places.kind(key) for key in brought)]
        made = self._exported[known] = exported(update, *shapes)
        return made
