"""The servers' part of a scheduled function: updates of the variables that they hold."""

import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from muster.distribute.engine._asked_rows import AskedTable
from muster.distribute.engine._flat_arrays import RowRange
from muster.distribute.engine._stored_tables import StoredTables
from muster.distribute.engine._variable_layout import Source, StoredRows, VariableLayout, exported
from muster.program.passes import LookupStep, UpdatePart, WorkerServerSplit
from muster.ps.contents import StoredFunction


class _Part(NamedTuple):
    """The update of some rows of some variables, and its inputs."""

    names: tuple[str, ...]
    inputs: tuple[str | Source, ...]
    function: Callable[..., list[jax.Array]]


class StoredFunctions:
    """The servers' parts of a step, and what a worker takes and pushes for them.

    An update runs where its variable is. What it reads besides, of another server, the worker brings along.

    Args:
        step: The step, divided between the worker and servers.
        lookups: The step, divided at its look-ups; None if there are no tables.
        places: Where variables are.
        batch: The shapes and dtypes of the arrays of the batch.
        servers: The number of servers.

    Attributes:
        name: The name of the function: its fingerprint.
        functions: The part of each server; None where it has none.
        pushed: How many arrays are pushed to each server as a whole; nothing if nothing is updated.
        shapes: The shape and dtype of each array that the worker takes as a whole, by server.
        tables: The tables of which it takes rows.
        row_shapes: The shapes and dtypes of the ids and of the rows that it is given of each table.

    Raises:
        TraceError: The update of a variable that is divided computes rows from others.
    """

    def __init__(
        self,
        step: WorkerServerSplit,
        lookups: LookupStep | None,
        places: VariableLayout,
        batch: Any,
        servers: int,
    ) -> None:
        self._step, self._lookups, self._places = step, lookups, places
        of_tables = None if lookups is None else StoredTables(lookups, places, batch, servers)
        self.tables: tuple[AskedTable, ...] = of_tables.tables if of_tables else ()
        self.row_shapes = of_tables.row_shapes if of_tables else []
        uses = of_tables.uses if of_tables else [[] for _ in range(servers)]
        parts: list[list[_Part]] = [[] for _ in range(servers)]
        for (server, rows), paths in self._units().items():
            parts[server].append(self._part(step.update(paths), rows))
        self._brought = [
            list(
                dict.fromkeys(each for part in of_server for each in part.inputs if not isinstance(each, str))
            )
            for of_server in parts
        ]
        # What travels to each server: what the function takes, then what each table does.
        self._pushed = self._brought
        if of_tables is not None:
            pairs = zip(self._brought, of_tables.brought, strict=True)
            self._pushed = [[*brought, *more] for brought, more in pairs]
        foreign = [each.key for each in itertools.chain(*self._pushed) if isinstance(each.key, str)]
        self._read = step.takes if lookups is None else lookups.takes
        # Which variable each array is of that the worker takes, by server.
        self._takes: list[list[tuple[str, StoredRows]]] = [[] for _ in range(servers)]
        for path in dict.fromkeys((*self._read, *foreign)):
            for piece in places.placed[path]:
                self._takes[piece.array.server].append((path, piece))
        self.shapes = [
            jax.ShapeDtypeStruct(rows.array.shape, places.specs[path].dtype)
            for path, rows in itertools.chain(*self._takes)
        ]
        exported = [self._exported(server, of_server) for server, of_server in enumerate(parts)]
        meanings = [meaning for meaning, _ in exported] + ([of_tables.meaning] if of_tables else [])
        self.name = hashlib.sha256("\n".join(meanings).encode()).hexdigest()
        self.functions = [
            StoredFunction(
                fingerprint=self.name,
                takes=tuple(rows.array.name for _, rows in takes),
                reads=self._reads(of_server),
                updates=tuple(name for part in of_server for name in part.names),
                pushed=tuple(places.spec(each) for each in brought),
                update=update,
                tables=tuple(of_use),
            )
            if takes or of_server or of_use
            else None
            for takes, of_server, brought, (_, update), of_use in zip(
                self._takes, parts, self._brought, exported, uses, strict=True
            )
        ]
        changes = any(parts) or any(use.update for use in itertools.chain(*uses))
        self.pushed = tuple(map(len, self._pushed)) if changes else ()

    def work(
        self, taken: Sequence[jax.Array], rows: Sequence[jax.Array], local: Sequence[jax.Array], batch: Any
    ) -> tuple[list[jax.Array], list[jax.Array], Any]:
        """Compute a worker's part of the step; pure, for JAX.

        Args:
            taken: The arrays of ``shapes``.
            rows: The arrays of ``row_shapes``.
            local: The values of the worker's own variables.
            batch: As of ``WorkerServerSplit``.

        Returns:
            What to push as a whole, server by server, and then by rows, table by table; the new values of the
            worker's own variables; and the results.
        """
        pieces: dict[str, list[tuple[int, jax.Array]]] = {}
        for (path, stored), array in zip(itertools.chain(*self._takes), taken, strict=True):
            pieces.setdefault(path, []).append((stored.start, array))
        values = {path: _joined(each) for path, each in pieces.items()}
        read = [values[path] for path in self._read]
        if self._lookups is None:
            pushes, local, results = self._step.work(read, local, batch)
        else:
            pairs = zip(self._lookups.tables, zip(rows[::2], rows[1::2], strict=True), strict=True)
            pushes, local, results = self._lookups.work(dict(pairs), read, local, batch)
        pushed = [
            each.rows.of(values[each.key] if isinstance(each.key, str) else pushes[each.key])
            for each in itertools.chain(*self._pushed)
        ]
        if self._lookups is not None:
            pushed += [pushes[number] for each in self._lookups.row_pushes.values() for number in each]
        return pushed, local, results

    def _units(self) -> dict[tuple[int, RowRange], list[str]]:
        """Return which variables are updated together: all whole ones of a server, and alike shards."""
        units: dict[tuple[int, RowRange], list[str]] = {}
        of_tables = self._lookups.columns.values() if self._lookups else ()
        for path in self._step.updated:
            if any(path in columns for columns in of_tables):
                continue
            for rows in self._places.placed[path]:
                unit = rows.array.server, self._places.rows(path, rows)
                units.setdefault(unit, []).append(path)
        return units

    def _part(self, update: UpdatePart, rows: RowRange) -> _Part:
        names = [name for path in update.updates if (name := self._places.name_of(path, rows)) is not None]
        inputs = (
            *(self._places.name_of(path, rows) or Source(path, rows) for path in update.takes),
            *(Source(number, rows) for number in update.pushes),
        )
        return _Part(tuple(names), inputs, self._places.update(update, rows))

    def _reads(self, parts: Sequence[_Part]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for part in parts for each in part.inputs if isinstance(each, str)))

    def _exported(self, server: int, parts: Sequence[_Part]) -> tuple[str, bytes]:
        """Return what a server computes, as a text that is the same for the same, and exported."""
        takes = [rows.array.name for _, rows in self._takes[server]]
        if not parts:
            return f"{takes}", b""
        reads, brought = self._reads(parts), self._brought[server]
        keys: list[str | Source] = [*reads, *brought]

        def update(*arrays: jax.Array) -> list[jax.Array]:
            values = dict(zip(keys, arrays, strict=True))
            made = [part.function(*(values[each] for each in part.inputs)) for part in parts]
            return list(itertools.chain(*made))

        of_names = {
            rows.array.name: jax.ShapeDtypeStruct(rows.array.shape, self._places.specs[path].dtype)
            for path, all_rows in self._places.placed.items()
            for rows in all_rows
        }
        shapes = [of_names[name] for name in reads]
        specs = [self._places.spec(each) for each in brought]
        shapes += [jax.ShapeDtypeStruct(spec.shape, jnp.dtype(spec.dtype)) for spec in specs]
        text, encoded = exported(update, *shapes)
        return f"{takes} {reads} {specs} {[part.names for part in parts]} {text}", encoded


def _joined(pieces: Sequence[tuple[int, jax.Array]]) -> jax.Array:
    in_order = [array for _, array in sorted(pieces, key=lambda piece: piece[0])]
    return in_order[0] if len(in_order) == 1 else jnp.concatenate(in_order)
