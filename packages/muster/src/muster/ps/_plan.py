"""The plan of one parameter server: its arrays in order, and the update that each push runs."""

import hashlib
import itertools
from collections.abc import Iterator

import msgspec

from muster.ps._array_spec import ArraySpec, check_specs
from muster.ps._flat_layout import FlatLayout
from muster.ps.contents import FunctionSignature, StoredFunction, StoredHash, TableSignature, TableUse, row_of
from muster.ps.tables import Constant


class PlanTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a plan, or some of its rows, of which workers ask for rows by their numbers.

    Args:
        columns: Its array, and those of its slots, with a row for each of its rows; nothing of a hashed one.
        use: How workers use its rows. Its update reads buffers of the plan, as `Plan.buffers` names them.
        hashed: The server's part of a hashed table; None for another one.
    """

    columns: tuple[ArraySpec, ...]
    use: TableUse
    hashed: StoredHash | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its arrays, or of the hashed table."""
        return tuple(spec.name for spec in self.columns) if self.hashed is None else (self.hashed.name,)

    @property
    def signature(self) -> TableSignature:
        """The layout of the rows that workers read and push."""
        row = row_of(self.columns[0]) if self.hashed is None else self.hashed.row
        return TableSignature(row, self.use.row_pushes, self.use.pushed)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The arrays of one server, and their update. Each list is stored as `FlatLayout` says.

    Args:
        pulled: What workers read: weights, moving statistics.
        kept: What only updates read and write: the slots of optimizers.
        pushed: What a push brings.
        update: A serialized ``jax.export.Exported`` of
            ``update(*pulled, *kept, *pushed) -> [*pulled, *kept]`` of flat arrays, one for each dtype, in the
            order of `FlatLayout`; empty if nothing is updated.
        tables: What workers read and push by rows.
        meaning: The update as text, equal for equal updates. The serialized one names places in the source.
        server: The number of the server.
        servers: How many servers there are.
        max_staleness: How many steps a worker may be ahead of the slowest one; None for any number. With 0
            workers push in rounds, and the update runs once in each, on the mean of what was pushed.
    """

    pulled: tuple[ArraySpec, ...] = ()
    kept: tuple[ArraySpec, ...] = ()
    pushed: tuple[ArraySpec, ...] = ()
    update: bytes = b""
    tables: tuple[PlanTable, ...] = ()
    meaning: str = ""
    server: int = 0
    servers: int = 1
    max_staleness: int | None = None

    def encode(self) -> bytes:
        """Return the plan in bytes, for `Plan.decode` and `fingerprint`."""
        return msgspec.msgpack.encode(self)

    @property
    def columns(self) -> tuple[ArraySpec, ...]:
        """The arrays that are held by rows."""
        return tuple(itertools.chain.from_iterable(table.columns for table in self.tables))

    @property
    def hashed(self) -> tuple[StoredHash, ...]:
        """The hashed tables."""
        return tuple(table.hashed for table in self.tables if table.hashed is not None)

    @property
    def signature(self) -> FunctionSignature:
        """The buffers and rows of tables that workers read and push for its function."""
        flat = _buffers("pulled", self.pulled), _buffers("pushed", self.pushed)
        return FunctionSignature(*flat, True, tuple(table.signature for table in self.tables))

    def buffers(self) -> tuple[tuple[ArraySpec, ...], tuple[ArraySpec, ...]]:
        """Return the flat arrays of what is pulled, and of what is kept."""
        return _buffers("pulled", self.pulled), _buffers("kept", self.kept)

    def function(self) -> StoredFunction:
        """Return what a push runs, as a function of the buffers and tables."""
        pulled, kept = ([spec.name for spec in each] for each in self.buffers())
        return StoredFunction(
            fingerprint=fingerprint(self),
            takes=tuple(pulled),
            reads=(*pulled, *kept) if self.update else (),
            updates=(*pulled, *kept) if self.update else (),
            pushed=_buffers("pushed", self.pushed),
            update=self.update,
            tables=tuple(table.use for table in self.tables),
        )


def fingerprint(plan: Plan) -> str:
    """Return what distinguishes a plan from others that hold or mean something else.

    Each task draws the seeds of hashed tables for itself; those of the plan that comes first count.
    """
    alike = without_updates(plan) if plan.meaning else plan
    tables = tuple(
        table if table.hashed is None else msgspec.structs.replace(table, hashed=_without_seed(table.hashed))
        for table in alike.tables
    )
    return hashlib.sha256(msgspec.structs.replace(alike, tables=tables).encode()).hexdigest()


def _without_seed(table: StoredHash) -> StoredHash:
    initial = table.spec.initial
    if isinstance(initial, Constant):
        return table
    unseeded = msgspec.structs.replace(initial, seed=0)
    return msgspec.structs.replace(table, spec=msgspec.structs.replace(table.spec, initial=unseeded))


def without_updates(plan: Plan) -> Plan:
    """Return a plan without its serialized updates, which are large."""
    tables = tuple(
        msgspec.structs.replace(table, use=msgspec.structs.replace(table.use, update=b""))
        for table in plan.tables
    )
    return msgspec.structs.replace(plan, update=b"", tables=tables)


def check_plan(plan: Plan) -> None:
    """Raise ValueError, with what is wrong, if a plan contradicts itself."""
    for kind, specs in _lists(plan):
        check_specs(kind, specs)
    if plan.pushed and not plan.update:
        raise ValueError("it has no update for what is pushed")
    for table in plan.tables:
        if table.use.columns != table.names:
            raise ValueError(f"it uses {table.use.columns} of a table that consists of {table.names}")


def _buffers(kind: str, specs: tuple[ArraySpec, ...]) -> tuple[ArraySpec, ...]:
    sizes = FlatLayout(specs).sizes
    return tuple(ArraySpec(f"{kind} {dtype}", (size,), dtype) for dtype, size in sizes.items())


def difference(ours: Plan, theirs: Plan) -> str:
    """Return what differs first between two plans, as a clause about theirs."""
    if (theirs.server, theirs.servers) != (ours.server, ours.servers):
        return (
            f"it is for ps {theirs.server} of {theirs.servers} in all, and this is ps {ours.server} of "
            f"{ours.servers}"
        )
    for (kind, here), (_, there) in zip(_lists(ours), _lists(theirs), strict=True):
        for mine, other in itertools.zip_longest(here, there):
            if mine != other:
                if other is None:
                    return f"it lacks the {kind} array {mine}"
                if mine is None:
                    return f"it has one more {kind} array, {other}"
                return f"its {kind} array {other} is {mine} here"
    for mine, other in itertools.zip_longest(ours.hashed, theirs.hashed):
        if mine is None or other is None or _without_seed(mine) != _without_seed(other):
            return f"its hashed table {other} is {mine} here"
    if ours.max_staleness != theirs.max_staleness:
        return f"its max_staleness is {theirs.max_staleness}, and {ours.max_staleness} here"
    return "its arrays are the same, and its update differs: another optimizer, or another setting of it"


def _lists(plan: Plan) -> Iterator[tuple[str, tuple[ArraySpec, ...]]]:
    yield from (
        ("pulled", plan.pulled),
        ("kept", plan.kept),
        ("table's", plan.columns),
        ("pushed", plan.pushed),
    )
