"""The arrays of a store: whole arrays on a device, tables by rows in memory."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from muster._arrays import dtype_named
from muster._text import printable
from muster.ps._array_spec import ArraySpec, check_specs
from muster.ps._flat_layout import Array
from muster.ps._replies import RefusedError
from muster.ps.tables import Column, RowStore


class Memory(Protocol):
    """The memory of arrays that functions use as a whole."""

    def check(self, specs: Sequence[ArraySpec], held: int) -> None:
        """Raise ValueError, with a clause, if it cannot hold arrays beside some bytes that it holds."""

    def put(self, array: Array) -> Any:
        """Return a copy as a value, which is never changed but by updates."""

    def get(self, value: Any) -> Array:
        """Return the array of a value, without a copy; it is never changed afterwards."""


class StoredValues:
    """Holds arrays by name.

    Each method raises RefusedError, with a clause, if what is asked of it is wrong; it has changed nothing
    then.

    Args:
        memory: Where those are that functions use as a whole.

    Attributes:
        specs: The arrays, by name.
        nbytes: Their size in bytes.
    """

    def __init__(self, memory: Memory) -> None:
        self.specs: dict[str, ArraySpec] = {}
        self.nbytes = 0
        self._memory = memory
        self._whole: dict[str, Any] = {}
        self._rows: dict[str, RowStore] = {}
        self._filled: dict[str, int] = {}  # how many rows of those that were reserved have values

    def create(self, arrays: Sequence[tuple[ArraySpec, Array]], by_rows: Collection[str] = ()) -> None:
        """Take arrays, but for those that are here already.

        Args:
            arrays: The arrays.
            by_rows: The names of those that are to be held by rows.
        """
        needed = {spec.name for spec in self._new([spec for spec, _ in arrays])}
        new = [(spec, array) for spec, array in arrays if spec.name in needed]
        for spec, array in new:
            if spec.name in by_rows and spec.shape and spec.size:
                self._rows[spec.name] = _in_rows(spec, array)
            else:
                self._whole[spec.name] = self._memory.put(array)
            self.specs[spec.name] = spec
            self.nbytes += spec.nbytes

    def reserve(self, specs: Sequence[ArraySpec]) -> None:
        """Take arrays by rows, but for those that are here already.

        They are without content until all of their rows have been assigned.
        """
        try:
            check_specs("reserved", specs)
        except ValueError as exc:
            raise RefusedError(printable(str(exc))) from exc
        if empty := [spec for spec in specs if not spec.shape or not spec.size]:
            raise RefusedError(f"its array {_said(empty[0])} has no rows")
        for spec in self._new(specs):
            self._rows[spec.name] = _of_rows(spec)
            self._filled[spec.name] = 0
            self.specs[spec.name] = spec
            self.nbytes += spec.nbytes

    def declare(self, specs: Sequence[ArraySpec]) -> None:
        """Take arrays without content, which must be assigned before anything else is done."""
        for spec in self._new(specs):
            self.specs[spec.name] = spec
            self.nbytes += spec.nbytes

    def assign(self, arrays: Sequence[tuple[ArraySpec, Array]]) -> None:
        """Give arrays other values."""
        self._require_same(spec for spec, _ in arrays)
        for spec, array in arrays:
            self._set(spec.name, array)

    def add(self, arrays: Sequence[tuple[ArraySpec, Array]]) -> None:
        """Add to arrays."""
        self._require_same(spec for spec, _ in arrays)
        for spec, array in arrays:
            self._set(spec.name, np.asarray(self._get(spec.name) + array))

    def assign_rows(self, name: str, start: int, rows: Array) -> None:
        """Give some rows of an array that follow each other other values, given flat or as rows."""
        spec = self._with_rows(name)
        row = spec.size // spec.shape[0]
        count = -1 if rows.dtype != dtype_named(spec.dtype) or rows.size % row else rows.size // row
        if count < 0 or start + count > spec.shape[0]:
            raise RefusedError(
                f"its rows from {start} on are {rows.size} elements of {rows.dtype}, and those of "
                f"{_said(spec)} are others"
            )
        if start > (filled := self._filled.get(name, start)):
            raise RefusedError(f"rows from {filled} on of {printable(name)} come first")
        rows = rows.reshape(-1, *spec.shape[1:])
        if (store := self._rows.get(name)) is not None:
            store.write(slice(start, start + count), [rows])
        else:
            array = self._memory.get(self._whole[name]).copy()
            array[start : start + count] = rows
            self._whole[name] = self._memory.put(array)
        if name in self._filled:
            self._filled[name] = max(filled, start + count)

    def delete(self, names: Iterable[str]) -> set[str]:
        """Forget arrays, if they are here, and return which were."""
        gone = {name for name in names if name in self.specs}
        for name in gone:
            self.nbytes -= self.specs.pop(name).nbytes
            self._whole.pop(name, None)
            self._rows.pop(name, None)
            self._filled.pop(name, None)
        return gone

    def read(self, names: Sequence[str]) -> list[tuple[ArraySpec, Array]]:
        """Return arrays without copies, not to be kept: those that are held by rows change."""
        self._require(names)
        return [(self.specs[name], self._get(name)) for name in names]

    def read_rows(self, name: str, start: int, count: int) -> tuple[ArraySpec, Array]:
        """Return rows of an array that follow each other, without a copy, not to be kept."""
        spec = self._with_rows(name)
        if start + count > spec.shape[0]:
            raise RefusedError(f"its array {_said(spec)} has no {count} rows from {start} on")
        rows = self._get(name)[start : start + count]
        return ArraySpec(name, rows.shape, spec.dtype), rows

    def require_filled(self, names: Iterable[str]) -> None:
        """Refuse to go on if some rows of arrays that were reserved have no values."""
        for name in names:
            rows = self.specs[name].shape[0]
            if (filled := self._filled.get(name, rows)) < rows:
                raise RefusedError(
                    f"{_said(self.specs[name])} has {filled} rows with values so far. Give all rows first"
                )

    def rows(self, name: str) -> RowStore:
        """Return the rows of an array, which is held by rows from now on."""
        if name not in self._rows:
            spec = self.specs[name]
            self._rows[name] = _in_rows(spec, self._memory.get(self._whole.pop(name)))
        return self._rows[name]

    @property
    def by_rows(self) -> Mapping[str, RowStore]:
        """Those that are held by rows."""
        return self._rows

    def whole(self, names: Iterable[str]) -> dict[str, Any]:
        """Return values for functions, by name: these, and perhaps others.

        If they change, `replace` follows.
        """
        if copied := {name: self._memory.put(self._get(name)) for name in names if name in self._rows}:
            return {**self._whole, **copied}
        return self._whole

    def replace(self, values: dict[str, Any], names: Iterable[str]) -> None:
        """Take those that a function has changed among what `whole` has returned."""
        if values is not self._whole:
            for name in names:
                if name in self._rows:
                    self._set(name, self._memory.get(values[name]))
                else:
                    self._whole[name] = values[name]

    def flat(self) -> tuple[Array, ...]:
        """Return the arrays that are not held by rows, flat, in the order in which they came; they are never
        changed afterwards."""
        return tuple(
            self._memory.get(self._whole[name]).reshape(-1) for name in self.specs if name in self._whole
        )

    def restore(self, specs: Sequence[ArraySpec], by_rows: Sequence[str], arrays: Sequence[Array]) -> None:
        """Take up what another process has held, but for rows, which are without content.

        Args:
            specs: All arrays, in the order in which they came.
            by_rows: The names of those that are held by rows.
            arrays: The others, flat.
        """
        named = {spec.name: spec for spec in specs}
        flat = iter(arrays)
        self.create([(spec, next(flat).reshape(spec.shape)) for spec in specs if spec.name not in by_rows])
        for name in by_rows:
            self._rows[name] = _of_rows(named[name])
            self.nbytes += named[name].nbytes
        self.specs = named

    def _new(self, specs: Sequence[ArraySpec]) -> list[ArraySpec]:
        """Return those that are not here yet."""
        for spec in specs:
            if (known := self.specs.get(spec.name)) not in (None, spec):
                raise RefusedError(f"its array {_said(spec)} is here already, as {_said(known)}")
        new = [spec for spec in specs if spec.name not in self.specs]
        try:
            self._memory.check(new, self.nbytes)
        except ValueError as exc:
            raise RefusedError(printable(str(exc))) from exc
        return new

    def _get(self, name: str) -> Array:
        rows = self._rows.get(name)
        return self._memory.get(self._whole[name]) if rows is None else rows.column(0)

    def _set(self, name: str, array: Array) -> None:
        if (rows := self._rows.get(name)) is None:
            self._whole[name] = self._memory.put(array)
        else:
            rows.write(slice(0, len(rows)), [array])
            if name in self._filled:
                self._filled[name] = len(rows)

    def _require_same(self, specs: Iterable[ArraySpec]) -> None:
        for spec in specs:
            self._require([spec.name])
            if spec != (known := self.specs[spec.name]):
                raise RefusedError(f"its array {_said(spec)} is {_said(known)} here")

    def _require(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.specs:
                raise RefusedError(f"there is no array {printable(name)} on this server. Create it first")

    def _with_rows(self, name: str) -> ArraySpec:
        self._require([name])
        spec = self.specs[name]
        if not spec.size or not spec.shape:
            raise RefusedError(f"its array {_said(spec)} has no rows")
        return spec


def check_ids(table: str, ids: Array, start: int, stop: int) -> None:
    """Raise RefusedError unless ids are ascending numbers of rows that are here.

    Args:
        table: The table, for the text.
        ids: The ids.
        start: The first row.
        stop: The row after the last.
    """
    check_order(table, ids)
    if ids.size and (ids[0] < start or ids[-1] >= stop):
        wrong = ids[0] if ids[0] < start else ids[-1]
        raise RefusedError(
            f"id {wrong} is of no row of {printable(table)}: ids must be at least {start} and less than "
            f"{stop} here. Check the vocabulary and the input"
        )


def check_order(table: str, ids: Array) -> None:
    """Raise RefusedError unless ids are integers of 64 bits, each larger than the one before."""
    if ids.dtype != np.int64:
        raise RefusedError(f"its ids of rows of {printable(table)} are {ids.dtype}, and must be int64")
    if np.count_nonzero(ids[1:] > ids[:-1]) < len(ids) - 1:
        raise RefusedError(
            f"its ids of rows of {printable(table)} must be ascending, each once: add up what is pushed for "
            "one first"
        )


def _in_rows(spec: ArraySpec, array: Array) -> RowStore:
    store = _of_rows(spec)
    store.write(slice(0, len(store)), [array])
    return store


def _of_rows(spec: ArraySpec) -> RowStore:
    return RowStore([Column(spec.shape[1:], dtype_named(spec.dtype))], spec.shape[0])


def _said(spec: Any) -> str:
    return printable(str(spec))
