"""The contents of a server's store: named arrays, and the functions that read and change them."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from muster.ps._array_spec import ArraySpec, check_specs
from muster.ps.tables import Keeping, TableSpec

_LONGEST_NAME = 1 << 10


class StoredName(NamedTuple):
    """An array by its server's number and its name, which no other has there."""

    server: int
    name: str


class StoredArray(msgspec.Struct, frozen=True):
    """A variable, or rows of one, on a server.

    Args:
        name: Its name: ``dense/kernel``, or ``dense/kernel[0:100]`` of rows.
        server: The number of the server.
        shape: Its shape.
        dtype: The name of its dtype.
        by_rows: Whether functions will use some of its rows at a time. It is held for that at the latest when
            such a function is registered, but then it has to be copied.
    """

    name: str
    server: int
    shape: tuple[int, ...]
    dtype: str
    by_rows: bool = False

    @property
    def key(self) -> StoredName:
        """The name by which it is read and assigned."""
        return StoredName(self.server, self.name)

    @property
    def spec(self) -> ArraySpec:
        """The array, as its server knows it."""
        return ArraySpec(self.name, self.shape, self.dtype)


class StoredHash(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a hashed table that a server has.

    Args:
        name: Its name, which no array there has.
        server: The number of the server.
        spec: What its rows consist of.
        keeping: Which ids get rows, and for how long.
        part: Which part this is: of the ids whose owner it is, as `owners` says.
        parts: How many there are.
    """

    name: str
    server: int
    spec: TableSpec
    keeping: Keeping = Keeping()
    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.part < self.parts:
            raise ValueError(f"Part {self.part} of {self.parts} of table {self.name!r} is none.")

    @property
    def row(self) -> ArraySpec:
        """A row of it."""
        return ArraySpec(self.name, self.spec.shape, self.spec.dtype)

    def is_extended_by(self, other: "StoredHash") -> bool:
        """Return whether another one is the same, but for further slots."""
        first = msgspec.structs.replace(other.spec, slots=other.spec.slots[: len(self.spec.slots)])
        return msgspec.structs.replace(other, spec=first) == self


class TableUse(msgspec.Struct, frozen=True, kw_only=True):
    """A function's use of some rows of a table.

    Args:
        columns: The names of the table's array and of those of its slots, with a row for each of its rows; or
            the name of a hashed table.
        slots: How many slots of a hashed table the update takes, the first ones of its spec: others may come
            later.
        update: A serialized ``jax.export.Exported`` for any number of rows, of ``update(*rows of columns,
            *row_pushes, *reads, *pushed) -> rows of columns``. It computes each row from the same row of its
            arguments: others come along that do not count. Empty if rows are looked up only.
        reads: The names of the arrays that it reads as a whole, as they are before the function's own update.
        pushed: What a worker pushes for it as a whole.
        row_pushes: What a worker pushes for each row: the shape and dtype of one.
        start: The id of the first row; 0 of a hashed table.
    """

    columns: tuple[str, ...]
    update: bytes = b""
    reads: tuple[str, ...] = ()
    pushed: tuple[ArraySpec, ...] = ()
    row_pushes: tuple[ArraySpec, ...] = ()
    start: int = 0
    slots: int = 0


class StoredFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a function that one server has.

    Args:
        fingerprint: The name of the function, the same on all servers: what distinguishes it from others.
        takes: The names of the arrays that workers read for it.
        reads: Those that its update reads.
        updates: Those that its update changes.
        pushed: What a worker pushes.
        update: A serialized ``jax.export.Exported`` of ``update(*reads, *pushed) -> updates``, in the order
            of these lists; empty if nothing is changed.
        tables: The tables of which it uses rows.
    """

    fingerprint: str
    takes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    pushed: tuple[ArraySpec, ...] = ()
    update: bytes = b""
    tables: tuple[TableUse, ...] = ()

    @property
    def whole(self) -> tuple[str, ...]:
        """The arrays that it needs as a whole, each once: those that it changes first."""
        return tuple(dict.fromkeys((*self.updates, *self.reads, *self.takes)))

    @property
    def names(self) -> tuple[str, ...]:
        """All arrays that it needs, each once."""
        of_tables = (name for table in self.tables for name in (*table.columns, *table.reads))
        return tuple(dict.fromkeys((*self.whole, *of_tables)))

    @property
    def changes(self) -> bool:
        """True if it changes values."""
        return bool(self.updates) or any(table.update for table in self.tables)


class TableSignature(msgspec.Struct, frozen=True):
    """One row of a table as workers read it, what they push for each row, and as a whole."""

    row: ArraySpec
    row_pushes: tuple[ArraySpec, ...] = ()
    pushed: tuple[ArraySpec, ...] = ()


class FunctionSignature(msgspec.Struct, frozen=True):
    """The arrays that workers read and push for a function, its tables, and whether it changes values."""

    takes: tuple[ArraySpec, ...] = ()
    pushed: tuple[ArraySpec, ...] = ()
    changes: bool = False
    tables: tuple[TableSignature, ...] = ()


def same_function(one: StoredFunction, other: StoredFunction) -> bool:
    """Return whether two functions are the same but for the bytes of their updates: those of equal ones may
    differ in the places of the source that they name."""
    return _without_updates(one) == _without_updates(other)


def _without_updates(function: StoredFunction) -> StoredFunction:
    tables = tuple(msgspec.structs.replace(table, update=b"") for table in function.tables)
    return msgspec.structs.replace(function, update=b"", tables=tables)


def check_function(
    function: StoredFunction, held: Mapping[str, ArraySpec], hashed: Mapping[str, TableSpec]
) -> None:
    """Raise ValueError, with a clause about it, if a function contradicts itself or what a server holds.

    Args:
        function: The function.
        held: The server's arrays, by name.
        hashed: Its hashed tables, by name.
    """
    if not 0 < len(function.fingerprint) <= _LONGEST_NAME:
        raise ValueError("its fingerprint is empty or too long")
    for kind in ("takes", "reads", "updates"):
        _check_names(f"it {kind}", getattr(function, kind), held)
    check_specs("pushed", function.pushed)
    if bool(function.update) != bool(function.updates):
        has, lacks = (
            ("an update", "nothing to change") if function.update else ("arrays to change", "no update")
        )
        raise ValueError(f"it has {has}, and {lacks}")
    if function.pushed and not function.update:
        raise ValueError("it has no update for what is pushed")
    for table in function.tables:
        _check_table(table, held, hashed)
    changed = Counter(table.columns[0] for table in function.tables if table.update)
    if several := [name for name, count in changed.items() if count > 1]:
        raise ValueError(f"it changes rows of {several[0]} by two updates")


def _check_table(table: TableUse, held: Mapping[str, ArraySpec], hashed: Mapping[str, TableSpec]) -> None:
    if not table.columns:
        raise ValueError("it uses rows of a table without arrays")
    if table.columns[0] in hashed:
        if len(table.columns) > 1 or table.start:
            raise ValueError(f"it names arrays or a first row of {table.columns[0]}, which is a hashed table")
        if not 0 <= table.slots <= (known := len(hashed[table.columns[0]].slots)):
            raise ValueError(f"it takes {table.slots} slots of {table.columns[0]}, which has {known} here")
    else:
        _check_arrays(table, held)
    _check_names(f"the update of rows of {table.columns[0]} reads", table.reads, held)
    check_specs("pushed", table.pushed)
    check_specs("pushed", table.row_pushes)
    if (table.pushed or table.row_pushes or table.reads) and not table.update:
        raise ValueError(f"it has no update for what is pushed for rows of {table.columns[0]}")


def _check_arrays(table: TableUse, held: Mapping[str, ArraySpec]) -> None:
    _check_names("it uses rows of", table.columns, held)
    for spec in (held[name] for name in table.columns):
        if not spec.shape or not spec.size:
            raise ValueError(f"it uses rows of {spec}, which has none")
        if spec.shape[0] != (rows := held[table.columns[0]].shape[0]):
            raise ValueError(f"it uses {spec} beside {table.columns[0]}, which has {rows} rows")


def _check_names(what: str, names: tuple[str, ...], held: Mapping[str, ArraySpec]) -> None:
    if doubled := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{what} {doubled[0]} twice")
    if unknown := [name for name in names if name not in held]:
        raise ValueError(f"{what} {unknown[0]}, which is not on this server. Create it first")
