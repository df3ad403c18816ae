"""Divide the variables of a step, and how they are updated, among parameter servers.

Each server holds its rows in flat buffers, one for each dtype: `pulled` ones, which workers read, and `kept`
ones, which only updates read, such as an optimizer's slots. A push is flat, too. So a step costs one message
to each server and one back, whatever the number of variables. Beside that it holds rows of tables, of which
workers ask for those that a batch looks up first.
"""

import itertools
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import TraceError
from muster.checkpoint import MappedArray
from muster.distribute.engine._asked_rows import AskedRows
from muster.distribute.engine._flat_arrays import Buffers, FlatArrays, FlatPiece, Place, RowRange
from muster.distribute.engine._hashed_columns import ColumnKind, first_rows, stored_hash
from muster.distribute.engine._stored_tables import StoredTables, nbytes_of, row_lookups
from muster.distribute.engine._variable_layout import HashedColumn, Readable, VariableLayout
from muster.program.passes import LookupStep, NotByRowsError, UpdatePart, WorkerServerSplit
from muster.program.variables import InitialValue
from muster.ps import FirstValues, Held, MadeRows, PlanTable, Pushed
from muster.ps.contents import StoredArray

_log = logging.getLogger(__name__)

LEAST_ROWS_BYTES = 1 << 17
"""A table of fewer bytes travels as a whole: a message more in each step, for its rows, would cost more."""


_NONE: Mapping[str, ColumnKind] = MappingProxyType({})

# How much of a table is sent to a server in one message.
_SENT_BYTES = 8 << 20


@dataclass(frozen=True)
class ServerShare:
    """Describes the rows of one server, and how a push updates them.

    Attributes:
        pulled: The rows that workers read.
        kept: The rows that only updates read.
        pushed: The rows that each push brings.
        update: ``(pulled, kept, pushed) -> (pulled, kept)`` of buffers; pure, for JAX.
        columns: The rows of tables and of their slots, in the order of the tables.
    """

    pulled: FlatArrays
    kept: FlatArrays
    pushed: FlatArrays
    update: Callable[[Buffers, Buffers, Buffers], tuple[Buffers, Buffers]]
    columns: tuple[FlatPiece, ...] = ()


class Division:
    """A step's variables and updates, divided among servers.

    Args:
        step: The step.
        variables: Path -> shape and dtype of every variable that is not the worker's own.
        placed: Path -> its rows on servers, in order; at least those of the variables that workers read. A
            variable's slots lie where it lies, and numbers on each server that reads them.
        servers: The number of servers.
        batch: The batch, or the shapes and dtypes of its arrays; None if rows of no variable travel alone.
        hashed: What is kept for each id of hashed tables, by the paths of the variables that stand for it.

    Attributes:
        shares: What each server holds and does.
        paths: The paths of the variables, but for those of hashed tables.
        hashed: As given.
        pulled: The paths of those that workers read as a whole.
        tables: What workers ask for by rows, and how servers update it; None for nothing.
        lookups: The step, divided at its look-ups; None for nothing.
        whole: Path -> why a variable that is looked up in travels as a whole.

    Raises:
        TraceError: The update of a variable that is divided computes rows from others; or a hashed table is
            used by something else than look-ups.
    """

    def __init__(
        self,
        step: WorkerServerSplit,
        variables: Mapping[str, jax.ShapeDtypeStruct],
        placed: Mapping[str, Sequence[RowRange]],
        servers: int,
        batch: Any = None,
        hashed: Mapping[str, ColumnKind] = _NONE,
    ) -> None:
        self.hashed = hashed
        self.paths = tuple(path for path in variables if path not in hashed)
        self._step = step
        self._variables = variables
        self._servers = servers
        self._found: dict[str, list[RowRange]] = {}
        of_server: list[list[tuple[UpdatePart, RowRange]]] = [[] for _ in range(servers)]
        groups = {path: group for group in step.groups() for path in group}
        self.lookups: LookupStep | None = None
        self.whole: dict[str, NotByRowsError] = {}
        if batch is not None:
            self.lookups, self.whole = row_lookups(
                step, step.shapes, variables, batch, self._apart, LEAST_ROWS_BYTES
            )
        columns = {} if self.lookups is None else self.lookups.columns
        self._by_rows = {path for each in columns.values() for path in each}
        self._takes = step.takes if self.lookups is None else self.lookups.takes
        self.pulled = frozenset(self._takes)
        self._require_hashed()
        for table, paths in columns.items():
            everywhere = [RowRange(server) for server in range(servers)]
            if table not in hashed:
                everywhere = [*placed.get(table, [RowRange(0)])]
                self._found.update({path: [*everywhere] for path in paths})
            for number in dict.fromkeys(self._numbers(self.lookups, table)):
                for rows in everywhere:
                    self._hold(of_server, groups, number, RowRange(rows.server))
        for group in dict.fromkeys(groups.values()):
            if not self._by_rows.isdisjoint(group):
                continue
            main = next((path for path in group if path in placed), group[0])
            for rows in placed.get(main, [RowRange(0)]):
                self._add(of_server, groups, group, rows)
        for path in variables:  # what no update changes or reads
            if path not in self._found and path not in hashed:
                self._found[path] = [*placed.get(path, [RowRange(0)])]
        self._layout = VariableLayout(variables, {}, step.pushed)
        self.shares = [self._share(number, parts) for number, parts in enumerate(of_server)]
        self.tables: StoredTables | None = None
        if self.lookups is not None:
            stored = {path: self._stored(path) for path in self._by_rows}
            kept = {
                table: [HashedColumn(each.name, each.shape, each.dtype) for each in kinds]
                for table, kinds in self.tables_by_id.items()
            }
            layout = VariableLayout(step.shapes, stored, step.pushed, kept, self._readable)
            self.tables = StoredTables(self.lookups, layout, batch, servers)

    @property
    def tables_by_id(self) -> dict[str, list[ColumnKind]]:
        """The hashed tables by path, each with what is kept for an id: the row, and its slots."""
        columns = {} if self.lookups is None else self.lookups.columns
        return {
            table: [self.hashed[path] for path in paths]
            for table, paths in columns.items()
            if table in self.hashed
        }

    def _require_hashed(self) -> None:
        """Raise TraceError if a hashed table, or a slot of one, is not used by ids alone."""
        for path in self.hashed:
            if path not in self._by_rows:
                raise self.whole.get(path) or TraceError(
                    f"{path} is of a hashed table, of which the step looks nothing up. Leave it out, or call "
                    "the layer that has it."
                )

    def log_what_travels(self) -> None:
        """Log which variables travel by rows, and which large ones cannot, and why."""
        if self.lookups is not None:
            _log.info("Rows of %s travel alone, by the ids of each batch.", ", ".join(self.lookups.tables))
        for path, error in self.whole.items():
            _log.warning(
                "%s So all of its %.1f MB travel to this worker and back at every step.",
                error,
                nbytes_of(self._variables[path]) / 1e6,
            )

    def _apart(self, lookups: LookupStep, table: str) -> NotByRowsError | None:
        """Return an error if the rows of a table cannot be updated from what travels, or is a number."""
        for path in self._numbers(lookups, table):
            if math.prod(self._variables[path].shape) != 1:
                return NotByRowsError(table, f"its update reads {path}, which has other rows")
        if table not in self.hashed and not lookups.leaves_other_rows(table):
            slots = ", ".join(path for path in lookups.columns[table] if path != table)
            changes = f"its optimizer changes the others, too, at every step{slots and ' by '}{slots}"
            return NotByRowsError(table, changes)
        return None

    def _numbers(self, lookups: LookupStep | None, table: str) -> list[str]:
        """Return what the update of a table reads besides its rows."""
        part = None if lookups is None else lookups.update(table, 1)
        if part is None or lookups is None:
            return []
        return [path for path in part.takes if path not in lookups.columns[table]]

    def _hold(
        self,
        of_server: list[list[tuple[UpdatePart, RowRange]]],
        groups: Mapping[str, tuple[str, ...]],
        path: str,
        here: RowRange,
    ) -> None:
        """Let a server have a number that updates read, and update it."""
        if path in groups:
            self._add(of_server, groups, groups[path], here)
        if here not in self._found.setdefault(path, []):
            self._found[path].append(here)

    def _add(
        self,
        of_server: list[list[tuple[UpdatePart, RowRange]]],
        groups: Mapping[str, tuple[str, ...]],
        group: tuple[str, ...],
        rows: RowRange,
    ) -> None:
        """Let a server update rows of some variables, and what else it needs for that."""
        part = self._step.update(group)
        if any(each is rows or (p.updates == group and each == rows) for p, each in of_server[rows.server]):
            return
        of_server[rows.server].append((part, rows))
        for path in dict.fromkeys((*part.updates, *part.takes)):
            # Of a number, such as a count of steps, this server has its own.
            others = {} if path in group else groups
            self._hold(of_server, others, path, self._rows_for(path, group, rows))

    def _rows_for(self, path: str, group: tuple[str, ...], rows: RowRange) -> RowRange:
        """Return which rows of a variable an update reads that changes some rows of others."""
        shape, others = self._variables[path].shape, self._variables[group[0]].shape
        if rows.stop is not None and math.prod(shape) == 1:
            return RowRange(rows.server)  # each server has its own
        is_alike = rows.stop is not None and shape[0] == others[0]
        return rows if path in group or is_alike else RowRange(rows.server)

    def _share(self, server: int, parts: Sequence[tuple[UpdatePart, RowRange]]) -> ServerShare:
        held = [
            (path, rows)
            for path, all_rows in self._found.items()
            for rows in all_rows
            if rows.server == server and path not in self._by_rows
        ]
        is_pulled = [path in self._takes and rows in self._sources(path) for path, rows in held]
        pieces = [self._piece(path, rows, self._variables[path]) for path, rows in held]
        pulled = FlatArrays(itertools.compress(pieces, is_pulled))
        kept = FlatArrays(itertools.compress(pieces, (not each for each in is_pulled)))
        brought = dict.fromkeys((number, rows) for part, rows in parts for number in part.pushes)
        pushed = FlatArrays(self._piece(number, rows, self._step.pushed[number]) for number, rows in brought)
        functions = [self._layout.update(part, rows) for part, rows in parts]

        def update(old: Buffers, slots: Buffers, gradients: Buffers) -> tuple[Buffers, Buffers]:
            state = {**pulled.unpack(old), **kept.unpack(slots)}
            given = pushed.unpack(gradients)
            new = dict(state)
            for (part, rows), function in zip(parts, functions, strict=True):
                taken = [state[path, self._rows_for(path, part.updates, rows)] for path in part.takes]
                made = function(*taken, *(given[number, rows] for number in part.pushes))
                places = [(path, self._rows_for(path, part.updates, rows)) for path in part.updates]
                new.update(zip(places, made, strict=True))
            return pulled.pack(new), kept.pack(new)

        columns = [
            self._piece(path, rows, self._variables[path])
            for paths in (self.lookups.columns.values() if self.lookups else ())
            for rows in self._found.get(paths[0], ())
            if rows.server == server
            for path in paths
        ]
        return ServerShare(pulled, kept, pushed, update, tuple(columns))

    def _piece(self, key: str | int, rows: RowRange, spec: jax.ShapeDtypeStruct) -> FlatPiece:
        return FlatPiece(key, rows, rows.shape_of(spec.shape), str(spec.dtype))

    def _sources(self, path: str) -> list[RowRange]:
        """Return the rows from which workers read a variable: of copies, the first."""
        found = self._found[path]
        return sorted(found, key=lambda rows: rows.start) if found[0].stop is not None else found[:1]

    def _stored(self, path: str) -> list["StoredTableRows"]:
        """Return where the rows of a table or slot are."""
        found = []
        if path in self.hashed:
            table = next(table for table, kinds in self.tables_by_id.items() if self.hashed[path] in kinds)
            kind = self.hashed[path]
            for server in range(self._servers):
                part = StoredArray(table, server, (0, *kind.shape), kind.dtype, by_rows=True)
                found.append(StoredTableRows(part, server, server + 1))
            return found
        for rows in self._sources(path):
            piece = self._piece(path, rows, self._variables[path])
            array = StoredArray(piece.spec.name, rows.server, piece.shape, piece.dtype, by_rows=True)
            found.append(StoredTableRows(array, *rows.span(piece.shape)))
        return found

    def _readable(self, paths: Sequence[str], server: int) -> Readable:
        """Return the numbers that a server has in its buffers."""
        share = self.shares[server]
        found = {}
        for kind, arrays in (("pulled", share.pulled), ("kept", share.kept)):
            there = {piece.key for piece in arrays.pieces}
            if not there.isdisjoint(paths):
                found[kind] = arrays
        buffers = [spec for kind, arrays in found.items() for spec in arrays.buffers(kind)]

        def values(given: Sequence[jax.Array]) -> list[jax.Array]:
            left = iter(given)
            numbers: dict[str | int, jax.Array] = {}
            for arrays in found.values():
                flat = {dtype: next(left) for dtype in arrays.shapes}
                numbers.update({key: array for (key, _), array in arrays.unpack(flat).items()})
            return [numbers[path] for path in paths]

        shapes = [jax.ShapeDtypeStruct(spec.shape, jnp.dtype(spec.dtype)) for spec in buffers]
        return Readable(tuple(paths), tuple(spec.name for spec in buffers), shapes, values)

    def describe(self) -> list[str]:
        """Return what each server holds and does, as texts that are equal for equal ones."""
        return [
            f"{share.pulled.pieces} {share.kept.pieces} {share.pushed.pieces} "
            f"{jax.make_jaxpr(share.update)(share.pulled.shapes, share.kept.shapes, share.pushed.shapes)}"
            for share in self.shares
        ] + ([] if self.tables is None else [self.tables.meaning])

    def plan_tables(self, server: int) -> tuple[PlanTable, ...]:
        """Return the tables of the plan of a server."""
        if self.tables is None:
            return ()
        columns, hashed = iter(self.shares[server].columns), self.tables_by_id
        tables = []
        for use in self.tables.uses[server]:
            if (kinds := hashed.get(use.columns[0])) is not None:
                part = stored_hash(kinds, server, self._servers)
                tables.append(PlanTable(columns=(), use=use, hashed=part))
            else:
                tables.append(PlanTable(columns=tuple(next(columns).spec for _ in use.columns), use=use))
        return tuple(tables)

    def read_pulled(self, pulled: Sequence[Mapping[str, Any]], paths: Iterable[str]) -> dict[str, Any]:
        """Return variables that workers read from the buffers of each server; traceable."""
        arrays: dict[Place, Any] = {}
        for share, buffers in zip(self.shares, pulled, strict=True):
            arrays.update(share.pulled.unpack(buffers))
        return self._whole(arrays, paths)

    def read(self, held: Sequence[Held]) -> dict[str, Any]:
        """Return all variables from what each server holds."""
        arrays: dict[Place, Any] = {}
        for share, (pulled, kept, columns) in zip(self.shares, held, strict=True):
            arrays.update({**share.pulled.unpack(pulled), **share.kept.unpack(kept)})
            for piece, column in zip(share.columns, columns, strict=True):
                arrays[piece.place] = column.reshape(piece.shape)
        return self._whole(arrays, self.paths)

    def _whole(self, arrays: Mapping[Place, Any], paths: Iterable[str]) -> dict[str, Any]:
        """Return variables from the rows that servers hold of them, by path."""
        result = {}
        for path in paths:
            parts = [arrays[path, rows] for rows in self._sources(path)]
            result[path] = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        return result

    def held(self) -> dict[str, list[FlatPiece]]:
        """Return the pieces on servers of which each variable consists, by its path, in the order of rows."""
        pieces = {
            piece.place: piece
            for share in self.shares
            for piece in (*share.pulled.pieces, *share.kept.pieces, *share.columns)
        }
        return {path: [pieces[path, rows] for rows in self._sources(path)] for path in self.paths}

    def shape(self, path: str) -> tuple[int, ...]:
        """Return the shape of a variable."""
        return tuple(self._variables[path].shape)

    def split(self, values: Mapping[str, Any]) -> list[FirstValues]:
        """Return what each server has first of variables, by their paths."""
        tables = {path: _in_pieces(values[path]) for path in self._by_rows if path not in self.hashed}
        return [
            FirstValues(
                _on_host(share.pulled.pack_rows(values)),
                _on_host(share.kept.pack_rows(values)),
                [_first_rows(tables[str(piece.key)], piece) for piece in share.columns],
                [first_rows(kinds, values, server, self._servers) for kinds in self.tables_by_id.values()],
            )
            for server, share in enumerate(self.shares)
        ]

    def asked(self, ids: Mapping[str, Any]) -> AskedRows:
        """Return the rows that a batch asks for, by what `LookupStep.ids` returns.

        Raises:
            DatasetError: A table has no such row.
        """
        tables = () if self.tables is None else self.tables.tables
        return AskedRows(tables, [ids[table.name] for table in tables])

    def numbers(self, asked: AskedRows) -> dict[str, np.ndarray[Any, Any]]:
        """Return the numbers of the ids that a batch asks for, by the path of each hashed table."""
        tables = () if self.tables is None else self.tables.tables
        return dict(zip([table.name for table in tables if table.hashed], asked.numbers, strict=True))

    def work(
        self,
        pulled: Sequence[Buffers],
        rows: Sequence[jax.Array],
        local: Sequence[jax.Array],
        batch: Any,
    ) -> tuple["Pushes", list[jax.Array], Any]:
        """Compute a worker's part of the step; pure, for JAX.

        Args:
            pulled: The buffers of each server.
            rows: The ids and the rows of each table, as `AskedRows.taken` returns them.
            local: The values of the worker's own variables.
            batch: The batch.

        Returns:
            What to push, the new values of the worker's own variables, and the results.
        """
        taken = self.read_pulled(pulled, self._takes)
        if self.lookups is None or self.tables is None:
            pushes, local, results = self._step.work([*taken.values()], local, batch)
            flat = [share.pushed.pack_rows(dict(enumerate(pushes))) for share in self.shares]
            return Pushes(flat), local, results
        given = dict(zip(self.lookups.tables, zip(rows[::2], rows[1::2], strict=True), strict=True))
        pushes, local, results = self.lookups.work(given, [*taken.values()], local, batch)
        arrays = dict(enumerate(pushes))
        flat = [share.pushed.pack_rows(arrays) for share in self.shares]
        whole = [[arrays[each.key] for each in brought] for brought in self.tables.brought]  # type: ignore[index]
        by_rows = [pushes[number] for each in self.lookups.row_pushes.values() for number in each]
        return Pushes(flat, whole, by_rows), local, results

    def pushed(self, pushes: "Pushes", asked: AskedRows, following: AskedRows | None = None) -> list[Pushed]:
        """Return what to push to each server, on the host.

        Args:
            pushes: What `work` has computed.
            asked: The rows that it was given.
            following: The rows that answers are to bring; None for none.
        """
        rows = asked.pushed(pushes.rows, self._servers)
        asks = [[] for _ in self.shares] if following is None else following.ids(self._servers)
        whole = pushes.whole or [[] for _ in self.shares]
        return [
            Pushed(_on_host(flat), [np.asarray(each) for each in of_server], of_tables, some)
            for flat, of_server, of_tables, some in zip(pushes.flat, whole, rows, asks, strict=True)
        ]


class StoredTableRows(NamedTuple):
    """Rows of a table on a server: see `StoredRows`."""

    array: StoredArray
    start: int
    stop: int


class Pushes(NamedTuple):
    """The gradients and other values that a worker pushes to servers.

    Attributes:
        flat: The buffers for each server.
        whole: What each server is pushed for its tables as a whole.
        rows: What is pushed by rows, table by table.
    """

    flat: list[Buffers]
    whole: Sequence[Sequence[jax.Array]] = ()
    rows: Sequence[jax.Array] = ()


def _on_host(buffers: Buffers) -> dict[str, np.ndarray[Any, Any]]:
    return {dtype: np.asarray(buffer) for dtype, buffer in buffers.items()}


def _first_rows(value: Any, piece: FlatPiece) -> MadeRows | Iterator[np.ndarray[Any, Any]]:
    """Return the rows of a table's column, flat, some at a time; or what makes them."""
    start, stop = piece.rows.span(piece.shape)
    if isinstance(value, bytes):
        return MadeRows(value, start)
    many = max(1, _SENT_BYTES // max(1, value.nbytes // len(value)))
    read = value.rows if isinstance(value, MappedArray) else value.__getitem__
    return (
        np.ascontiguousarray(read(np.arange(first, min(first + many, stop)))).reshape(-1)
        for first in range(start, stop, many)
    )


def _in_pieces(value: Any) -> Any:
    """Return a table as what makes its rows, as it lies in files, or, once for all servers, in memory."""
    if isinstance(value, InitialValue) and value.function is not None:
        return value.function
    return value if isinstance(value, MappedArray) else np.asarray(value)
