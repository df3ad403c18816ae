"""The arrays and functions of a store, and checks of requests for them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from muster._text import printable
from muster.checkpoint import clock_of, waiting_for
from muster.ps._array_spec import ArraySpec
from muster.ps._flat_layout import Array, AskedRows, Flat
from muster.ps._replies import RefusedError
from muster.ps._row_snapshots import RowPiece, RowSnapshot, RowSnapshots, SnapshotPart
from muster.ps._shard_snapshot import ShardSnapshot
from muster.ps.contents._function_layout import FunctionLayout, RowPush
from muster.ps.contents._hashed import HashedTables
from muster.ps.contents._row_uses import NumberedRows, RowChange, RowUse, columns_of
from muster.ps.contents._stored import (
    FunctionSignature,
    StoredFunction,
    StoredHash,
    check_function,
    same_function,
)
from muster.ps.contents._values import Memory, StoredValues
from muster.ps.tables import Column, RowBuffers

# For how many numbers of rows a function keeps memory.
_MOST_BUFFERS = 4


class DeviceFunction(Protocol):
    """A function on a device. What it returns is never changed afterwards."""

    def pull(self, values: Mapping[str, Any]) -> Flat:
        """Return what workers take, of the values by name."""

    def apply(
        self, values: dict[str, Any], pushed: Flat, rows: RowBuffers, whole: Sequence[Sequence[Array]]
    ) -> tuple[Flat, list[Sequence[Array]]]:
        """Replace the values that the update changes, and return what workers take then, and new rows.

        Args:
            values: The values by name.
            pushed: What is pushed for the function itself.
            rows: What the updates of rows are given. What they read as a whole counts as it is before the
                function's own update.
            whole: What is pushed for each table of which there are rows, as a whole.

        Returns:
            What workers take, and the new rows of all columns of each table.
        """

    def update_rows(
        self, values: Mapping[str, Any], rows: RowBuffers, whole: Sequence[Sequence[Array]]
    ) -> list[Sequence[Array]]:
        """Return new rows, as `apply` does, and change nothing else."""


class Device(Memory, Protocol):
    """The device of a store's values, which compiles functions of them."""

    def compile(
        self, function: StoredFunction, held: Mapping[str, ArraySpec], tables: Sequence[Sequence[Column]]
    ) -> DeviceFunction:
        """Return a function of values that are held; raises ValueError with a clause about it.

        Args:
            function: The function.
            held: The arrays by name.
            tables: What each row of each of its tables has.
        """

    def make(self, function: bytes, spec: ArraySpec, first: int) -> Iterator[Array]:
        """Return the first rows of an array, some at a time; raises ValueError with a clause about it.

        Args:
            function: A serialized ``jax.export.Exported`` of a function of the numbers of some elements, in
                the order of rows: their high and their low 32 bits, uint32 of shape (n, ...). It returns
                these elements.
            spec: The array.
            first: The number of its first row in the whole table.
        """


class Description(msgspec.Struct, frozen=True):
    """The description of a store: all but its values."""

    arrays: tuple[ArraySpec, ...] = ()
    functions: tuple[StoredFunction, ...] = ()
    by_rows: tuple[str, ...] = ()
    hashed: tuple[StoredHash, ...] = ()


class CheckedPush(NamedTuple):
    """What was pushed for a function, checked.

    Attributes:
        flat: Flat buffers, by the name of their dtype.
        rows: What there is for rows of each table.
        changes: Begin to change these rows, when they are called; None for a table that is only looked up.
    """

    flat: Flat
    rows: Sequence[RowPush] = ()
    changes: Sequence[Callable[[], RowChange] | None] = ()


class _Known:
    """A function that is registered."""

    def __init__(
        self, function: StoredFunction, values: StoredValues, hashed: HashedTables, device: Device
    ) -> None:
        self.function = function
        of_tables = (name for use in function.tables for name in use.reads)
        self.whole = tuple(dict.fromkeys((*function.whole, *of_tables)))
        # Whether it needs an array as a whole, too, of which it changes rows.
        changed = {name for use in function.tables if use.update for name in use.columns}
        self.rows_first = not changed.isdisjoint(function.whole)
        columns = []
        for use in function.tables:
            known = hashed.tables.get(use.columns[0])
            columns.append(
                columns_of([values.specs[name] for name in use.columns])
                if known is None
                else known.columns(use).columns
            )
        self.compiled = device.compile(function, values.specs, columns)
        # Nothing is refused from here on.
        self.tables = [
            RowUse(use, hashed.tables.get(use.columns[0]) or NumberedRows(use, values))
            for use in function.tables
        ]
        self.signature = FunctionSignature(
            tuple(values.specs[name] for name in function.takes),
            function.pushed,
            function.changes,
            tuple(table.signature for table in self.tables),
        )
        self.layout = FunctionLayout(self.signature)
        self._buffers: dict[tuple[int, ...], RowBuffers] = {}

    def take(self, changes: Sequence[RowChange | None]) -> tuple[RowBuffers, list[Sequence[Array]]]:
        """Return what updates are given of the next rows that change, and of each table as a whole."""
        sizes = tuple([0 if change is None else change.size() for change in changes])
        if (rows := self._buffers.get(sizes)) is None:
            if len(self._buffers) == _MOST_BUFFERS:
                del self._buffers[next(iter(self._buffers))]
            rows = self._buffers[sizes] = RowBuffers([table.padded for table in self.tables], sizes)
        whole: list[Sequence[Array]] = []
        for change, into in zip(changes, rows.tables, strict=True):
            if change is not None and into is not None:
                change.take(into)
                whole.append(change.whole)
            else:
                whole.append(())
        return rows, whole

    def update_rows(self, values: Mapping[str, Any], changes: Sequence[RowChange | None]) -> None:
        """Update the next rows that change, without the function's own update."""
        _put(changes, self.compiled.update_rows(values, *self.take(changes)))


class Contents:
    """Holds arrays and functions by name.

    Each method raises RefusedError, with a clause, if what is asked of it is wrong; it has changed nothing
    then.

    Args:
        device: Where values live.

    Attributes:
        values: The arrays.
        hashed: The hashed tables.
    """

    def __init__(self, device: Device) -> None:
        self.values = StoredValues(device)
        self.hashed = HashedTables()
        self._snapshots, self._checkpoints = RowSnapshots(), RowSnapshots()
        self._device = device
        self._functions: dict[str, _Known] = {}

    @property
    def functions(self) -> int:
        """The number of functions."""
        return len(self._functions)

    def delete(self, names: Sequence[str]) -> None:
        """Forget arrays and tables, if they are here, and the functions that need them."""
        gone = self.values.delete(names) | self.hashed.delete(names)
        self._functions = {
            fingerprint: known
            for fingerprint, known in self._functions.items()
            if gone.isdisjoint(known.function.names)
        }

    def register(self, function: StoredFunction) -> None:
        """Take a function."""
        if (known := self._functions.get(function.fingerprint)) is not None:
            if not same_function(known.function, function):
                raise RefusedError("another function with its fingerprint is here already")
            return
        try:
            check_function(function, self.values.specs, self.hashed.specs)
            self._device.check(function.pushed, self.values.nbytes)
            self._functions[function.fingerprint] = _Known(function, self.values, self.hashed, self._device)
        except ValueError as exc:
            raise RefusedError(f"its function cannot be used: {printable(str(exc))}") from exc

    def signature(self, fingerprint: str) -> FunctionSignature | None:
        """Return what workers take and push for a function; None if it is not here."""
        known = self._functions.get(fingerprint)
        return None if known is None else known.signature

    def pull(self, fingerprint: str) -> tuple[Array, ...]:
        """Return what workers take for a function."""
        known = self._function(fingerprint)
        return tuple(known.compiled.pull(self.values.whole(known.function.takes)).values())

    def asked(self, fingerprint: str, counts: Sequence[int], arrays: Sequence[Array]) -> list[AskedRows]:
        """Return what looks up the rows of each table of a function whose ids are in a buffer.

        Args:
            fingerprint: The function.
            counts: How many rows of each table are asked for; nothing for none of any.
            arrays: The buffer, which the result does not refer to.
        """
        if not counts:
            return []
        known = self._function(fingerprint)
        ids = known.layout.unpack_ids(arrays, counts)
        return [table.find(wanted) for table, wanted in zip(known.tables, ids, strict=True)]

    def prepare(self, fingerprint: str, counts: Sequence[int], arrays: Sequence[Array]) -> CheckedPush:
        """Return what was pushed for a function, checked; changes nothing.

        Args:
            fingerprint: The function.
            counts: How many rows of each table are pushed.
            arrays: What is pushed, as `FunctionLayout` says, which the result refers to.
        """
        return self.checked(fingerprint, *self._function(fingerprint).layout.unpack_pushed(arrays, counts))

    def checked(self, fingerprint: str, flat: Flat, rows: Sequence[RowPush]) -> CheckedPush:
        """Return a push for a function as a whole and for its tables, whose rows are found."""
        tables = self._function(fingerprint).tables
        changes = [table.prepare(push) for table, push in zip(tables, rows, strict=True)]
        return CheckedPush(flat, rows, changes)

    def run(self, fingerprint: str, push: CheckedPush) -> tuple[Array, ...]:
        """Run the updates of a function on a push, and return what workers take then."""
        known = self._function(fingerprint)
        changes = [None if begin is None else begin() for begin in push.changes]
        values = self.values.whole(known.whole)
        while any([change is not None and change.goes_on for change in changes]):
            some = [change if change is not None and change.goes_on else None for change in changes]
            known.update_rows(values, some)
        if known.rows_first:
            known.update_rows(values, changes)
            values = self.values.whole(known.whole)
        rows, whole = known.take(changes)
        taken, new = known.compiled.apply(values, push.flat, rows, whole)
        _put(changes, new)
        self.values.replace(values, known.function.updates)
        return tuple(taken.values())

    def check_pulled(self, fingerprint: str, counts: Sequence[int], given: Sequence[tuple[str, int]]) -> None:
        """Raise RefusedError if other buffers ask for rows than ids of each table.

        Args:
            fingerprint: The function.
            counts: How many rows of each table; nothing for none of any.
            given: The name of the dtype and the number of elements of each buffer.
        """
        if counts or given:
            layout = self._function(fingerprint).layout
            _require_counts(layout, counts)
            require_sizes("ids are sent", given, layout.asked_sizes(counts))

    def check_pushed(
        self,
        fingerprint: str,
        counts: Sequence[int],
        asks: Sequence[int],
        given: Sequence[tuple[str, int]],
    ) -> None:
        """Raise RefusedError if other buffers are to be pushed than a function takes.

        Args:
            fingerprint: The function.
            counts: How many rows of each table are pushed.
            asks: How many rows of each table are asked for; nothing for none of any.
            given: The name of the dtype and the number of elements of each buffer.
        """
        layout = self._function(fingerprint).layout
        _require_counts(layout, counts)
        wanted = layout.pushed_sizes(counts)
        if asks:
            _require_counts(layout, asks)
            wanted += layout.asked_sizes(asks)
        require_sizes("elements are pushed", given, wanted)

    def require_changes(self, fingerprint: str) -> None:
        """Refuse what is pushed for a function that changes nothing."""
        if not self._function(fingerprint).function.changes:
            raise RefusedError("its function changes nothing on this server. Pull instead")

    def create(self, arrays: Sequence[tuple[ArraySpec, Array]], by_rows: Sequence[str]) -> None:
        """Take arrays: see `StoredValues`."""
        self._require_free([spec for spec, _ in arrays])
        self.values.create(arrays, by_rows)

    def reserve(self, specs: Sequence[ArraySpec]) -> None:
        """Take arrays whose rows will be assigned: see `StoredValues`."""
        self._require_free(specs)
        self.values.reserve(specs)

    def make(self, name: str, first: int, function: bytes) -> None:
        """Give all rows of an array that is held by rows other values.

        Args:
            name: The array.
            first: The number of its first row in the whole table.
            function: As of `Device.make`.
        """
        if name not in self.values.by_rows:
            raise RefusedError(
                f"there is no array {printable(name)} by rows on this server. Reserve it first"
            )
        start = 0
        try:
            for rows in self._device.make(function, self.values.specs[name], first):
                self.values.assign_rows(name, start, rows)
                start += len(rows)
        except ValueError as exc:
            raise RefusedError(f"its rows cannot be made: {printable(str(exc))}") from exc

    def declare(self, arrays: Sequence[ArraySpec], by_rows: Sequence[ArraySpec]) -> None:
        """Take arrays, some of them by rows, whose values are assigned before anything else is done."""
        self.values.declare(arrays)
        if by_rows:
            self.values.reserve(by_rows)

    def description(self) -> Description:
        """Return what this consists of, beside the values."""
        functions = tuple(known.function for known in self._functions.values())
        arrays, by_rows = tuple(self.values.specs.values()), tuple(self.values.by_rows)
        return Description(arrays, functions, by_rows, self.hashed.described)

    def begin_snapshot(self, description: bytes) -> RowSnapshot | None:
        """Begin to give away rows, which the description names; None if there are none."""
        parts = self._parts()
        return self._snapshots.begin(description, parts) if parts else None

    def begin_part(self, names: Sequence[str], *, whole: bool) -> ShardSnapshot:
        """Begin to give away arrays for a checkpoint.

        Args:
            names: Which, and which hashed tables.
            whole: Whether those that are held by rows are to be given away with all rows; else those that
                have changed since that was so are enough.
        """
        by_rows, hashed = self.values.by_rows, self.hashed.tables
        tables = tuple(name for name in names if name in by_rows)
        whole_ones = self.values.read([name for name in names if name not in by_rows and name not in hashed])
        arrays = {spec.name: array for spec, array in whole_ones}
        takers: list[SnapshotPart] = [by_rows[name].for_checkpoints for name in tables]
        keyed: dict[str, int] = {}
        for name in (name for name in names if name in hashed):
            table = hashed[name].table
            arrays[clock_of(name)] = np.array([table.clock])
            for key, rows in zip((name, waiting_for(name)), table.parts, strict=True):
                keyed[key] = len(rows)
                takers.append(rows.for_checkpoints)
        if not takers:
            return ShardSnapshot(arrays)
        of = tables, tuple(keyed), [taker.layout for taker in takers]
        return ShardSnapshot(arrays, tables, keyed, self._checkpoints.begin(of, takers, whole=whole))

    def restore(
        self,
        description: Description,
        arrays: Sequence[Array],
        pieces: Iterable[RowPiece],
        clocks: Mapping[str, int],
    ) -> None:
        """Take up what another process has described.

        Args:
            description: What it has described.
            arrays: The arrays that are not held by rows.
            pieces: The rows that were given away.
            clocks: How many pushes each hashed table has seen.
        """
        self.values.restore(description.arrays, description.by_rows, arrays)
        self.hashed.create(description.hashed, {})
        parts = self._parts()
        for part, ids, rows in pieces:
            parts[part].restore(ids, rows)
        self.hashed.set_clocks(clocks)
        for function in description.functions:
            self.register(function)

    def _require_free(self, specs: Sequence[ArraySpec]) -> None:
        for spec in specs:
            if spec.name in self.hashed.tables:
                raise RefusedError(f"its array {printable(str(spec))} is here already, as a hashed table")

    def _parts(self) -> list[SnapshotPart]:
        return [*(rows.for_snapshots for rows in self.values.by_rows.values()), *self.hashed.parts()]

    def _function(self, fingerprint: str) -> _Known:
        known = self._functions.get(fingerprint)
        if known is None:
            raise RefusedError(
                f"there is no function {printable(fingerprint)} on this server. The coordinator registers "
                "it first"
            )
        return known


def _put(changes: Sequence[RowChange | None], new: Sequence[Sequence[Array]]) -> None:
    """Put new rows back into each table from which some were taken."""
    for change, rows in zip(changes, new, strict=True):
        if change is not None and rows:
            change.put(rows)


def _require_counts(layout: FunctionLayout, counts: Sequence[int]) -> None:
    if len(counts) != layout.tables:
        raise RefusedError(f"it has rows of {len(counts)} tables for a function with {layout.tables}")


def require_sizes(what: str, given: Sequence[tuple[str, int]], wanted: Sequence[tuple[str, int]]) -> None:
    """Raise RefusedError if buffers have other dtypes or sizes than they must.

    Args:
        what: What they are sent for, as a clause, for the text.
        given: The name of the dtype and the number of elements of each.
        wanted: Those that they must have.
    """
    if list(given) != list(wanted):
        described, planned = (
            ", ".join(f"{size} of {dtype}" for dtype, size in each) or "none" for each in (given, wanted)
        )
        raise RefusedError(
            f"other {what} than its function takes: {printable(described)}; it takes {planned}"
        )
