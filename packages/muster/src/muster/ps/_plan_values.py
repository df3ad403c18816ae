"""Hold a plan and the values of its arrays, and check what is sent for them."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from muster._text import printable
from muster.ps import _messages as messages
from muster.ps._array_spec import ArraySpec
from muster.ps._flat_layout import Array, Flat, FlatLayout
from muster.ps._plan import Plan, check_plan, difference, fingerprint
from muster.ps._replies import RefusedError
from muster.ps._row_snapshots import Piece, RowSnapshot
from muster.ps._shard_snapshot import ShardSnapshot
from muster.ps.contents import Contents, Device, RowPush

# The longest encoded plan, in bytes.
MAX_PLAN = 1 << 28


class PlanValues:
    """The plan of a server, once a worker has offered it, and the values, once the chief has given them.

    Args:
        device: Where values live.

    Attributes:
        plan: The plan.
        fingerprint: That of the plan; empty for none.
        initialized: Whether there are values.
        version: How many times the values were changed.
    """

    def __init__(self, device: Device) -> None:
        self.initialized = False
        self.version = 0
        self._device = device
        self._sums: list[Array] = []
        self._added = 0  # how many pushes are in the sums
        self._row_pushes: list[list[RowPush]] = []  # of these pushes
        self._take(Plan(), "", Contents(device))

    def take_plan(self, encoded: bytes) -> str:
        """Take the first plan, and return the fingerprint of this one, which is the same."""
        try:
            plan = msgspec.msgpack.decode(encoded, type=Plan)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError) as exc:
            raise RefusedError(f"its plan cannot be read: {printable(str(exc))}") from exc
        if (found := fingerprint(plan)) == self.fingerprint:
            return found
        if self.fingerprint:
            raise RefusedError(
                "its plan differs from that of the task that came first: "
                f"{printable(difference(self.plan, plan))}. Run the same program in all tasks, with the "
                "same cluster in TF_CONFIG"
            )
        try:
            check_plan(plan)
            # Before the flat buffers, since it says which array is too large, or has a dtype of no use.
            self._device.check((*plan.pulled, *plan.kept, *plan.pushed, *plan.columns), 0)
        except ValueError as exc:
            raise RefusedError(f"its plan cannot be used: {printable(str(exc))}") from exc
        contents = Contents(self._device)
        pulled, kept = plan.buffers()
        contents.declare((*pulled, *kept), plan.columns)
        contents.register(plan.function())
        self._take(plan, found, contents)
        return found

    def _take(self, plan: Plan, found: str, contents: Contents) -> None:
        self.plan, self.fingerprint, self._contents = plan, found, contents
        self._pulled, self._kept, self._pushed = map(FlatLayout, (plan.pulled, plan.kept, plan.pushed))
        self._buffers = plan.buffers()
        self._rows = plan.rows
        self._taken: tuple[Array, ...] | None = None  # what workers read as a whole, as it is now
        self._columns = {spec.name: spec for spec in plan.columns}
        self._filled = dict.fromkeys(self._columns, 0)  # how many rows have first values

    def check_sizes(self, message: messages.Request, given: Sequence[tuple[str, int]]) -> None:
        """Raise RefusedError if other buffers are to follow a request than the plan says.

        Args:
            message: The request.
            given: The name of the dtype and the number of elements of each buffer.
        """
        wanted: list[tuple[str, int]] = []
        match message:
            case messages.Offer():
                if len(given) == 1 and given[0][0] == "uint8" and 0 <= given[0][1] <= MAX_PLAN:
                    return
                raise RefusedError(f"a plan must come in one buffer of at most {MAX_PLAN} bytes")
            case messages.Fill():
                return self._check_fill(message, given)
            case messages.Make():
                self._column(message.name)
                if len(given) == 1 and given[0][0] == "uint8" and 0 <= given[0][1] <= MAX_PLAN:
                    return
                raise RefusedError(f"a function must come in one buffer of at most {MAX_PLAN} bytes")
            case messages.Initialize():
                wanted = [(spec.dtype, spec.size) for spec in self._all]
            case messages.LookUp():
                self._check_counts(message.counts)
                wanted = self._rows.asked_sizes(message.counts)
            case messages.Push():
                self._check_counts(message.counts)
                wanted = [*self._pushed.sizes.items(), *self._rows.pushed_sizes(message.counts)]
                if message.asks:
                    self._check_counts(message.asks)
                    wanted += self._rows.asked_sizes(message.asks)
        if list(given) != wanted:
            described, planned = (
                ", ".join(f"{size} of {dtype}" for dtype, size in each) or "none" for each in (given, wanted)
            )
            raise RefusedError(
                f"its {messages.name_of(message)} has other elements than the plan: {printable(described)}; "
                f"the plan has {planned}"
            )

    def fill(self, name: str, start: int, rows: Array) -> None:
        """Take the first values of some rows of a table's array: the next ones, or others again."""
        spec = self._column(name)
        if start > self._filled[name]:
            raise RefusedError(f"rows from {self._filled[name]} on of {printable(name)} come first")
        rows = rows.reshape(-1, *spec.shape[1:])
        self._contents.values.fill(name, start, rows)
        self._filled[name] = start + len(rows)

    def make(self, name: str, first: int, function: bytes) -> None:
        """Make the first values of all rows of a table's array.

        Args:
            name: The array.
            first: The number of its first row in the whole table.
            function: As of `Device.make`.
        """
        self._column(name)
        self._filled[name] = self._contents.make(name, first, function)

    def set(self, arrays: Sequence[Array]) -> None:
        """Take copies of values: pulled and kept; the rows of tables have theirs."""
        self._require_plan()
        for name, spec in self._columns.items():
            if self._filled[name] < spec.shape[0]:
                raise RefusedError(
                    f"{printable(str(spec))} has {self._filled[name]} rows with values so far. Give all "
                    "rows first"
                )
        given = zip(self._all, arrays, strict=True)
        self._contents.values.assign([(spec, array.reshape(spec.shape)) for spec, array in given])
        self._taken = None
        self.initialized = True
        self.version += 1

    def restore(self, plan: bytes, arrays: Sequence[Array], rows: Iterable[Piece], version: int) -> None:
        """Take up a plan and values where another process left them."""
        self.take_plan(plan)
        buffers = itertools.chain(*self._buffers)
        self._contents.values.assign(list(zip(buffers, arrays, strict=True)))
        self._contents.restore_rows(rows)
        self.initialized, self.version = True, version

    def unpacked(self, arrays: Sequence[Array], counts: Sequence[int] = ()) -> "Push":
        """Return what was pushed; raises RefusedError if a row is none of a table.

        Args:
            arrays: The buffers that were pushed, which the result refers to.
            counts: How many rows there are of each table.
        """
        self._require_plan()
        flat = dict(zip(self._pushed.sizes, arrays, strict=False))
        if not self._rows.tables:
            return Push(flat)
        _, rows = self._rows.unpack_pushed(arrays[len(flat) :], counts)
        return Push(flat, rows, self._contents.prepare(self.fingerprint, rows))

    def apply(self, push: "Push") -> None:
        """Run the update on what was pushed."""
        self._taken = None  # else the update could not write in place
        self._taken = self._contents.run(self.fingerprint, push.flat, push.updates)
        self.version += 1

    def add(self, push: "Push") -> None:
        """Add a push to those of its round, which `apply_mean` applies."""
        self._sums = self._sums or [np.empty_like(array) for array in push.flat.values()]
        for total, array in zip(self._sums, push.flat.values(), strict=True):
            _add(total, array, first=not self._added)
        if push.rows:  # copies, since the next push is received where this one is
            self._row_pushes.append([_copied(each) for each in push.rows])
        self._added += 1

    def apply_mean(self) -> bool:
        """Run the update once on the mean of the pushes of a round, and return whether there are any.

        Of integers, those of the last push count; what is true or false must be true in all pushes. Rows
        that were not pushed are zeros, or false where one that says so is enough.
        """
        if not self._added:
            return False
        count, self._added = self._added, 0
        for total in self._sums:
            _divide(total, count)
        pushes = [mean_of_rows(each) for each in zip(*self._row_pushes, strict=True)]
        self._row_pushes = []
        pushed = dict(zip(self._pushed.sizes, self._sums, strict=True))
        self.apply(Push(pushed, pushes, self._contents.prepare(self.fingerprint, pushes)))
        return True

    def pulled(self) -> tuple[Array, ...]:
        """Return what workers read as a whole, in the order of the dtypes' names."""
        self._require_plan()
        if self._taken is None:
            self._taken = self._contents.pull(self.fingerprint)
        return self._taken

    def asked(self, counts: Sequence[int], arrays: Sequence[Array]) -> list[Array]:
        """Return the ids of each table in a buffer; raises RefusedError if a table has no such row."""
        self._require_plan()
        ids = self._rows.unpack_ids(arrays, counts)
        self._contents.check_ids(self.fingerprint, ids)
        return ids

    def look_up(self, ids: Sequence[Array]) -> tuple[Array, ...]:
        """Return rows of each table, flat, by ids."""
        return self._contents.look_up(self.fingerprint, ids)

    def everything(self) -> tuple[Array, ...]:
        """Return what workers read, what only updates read and write, and copies of the columns of tables."""
        flat = self._contents.values.flat()
        columns = self._contents.values.read([spec.name for spec in self.plan.columns])
        return (*flat, *(array.reshape(-1).copy() for _, array in columns))

    def begin_part(self, whole: bool) -> ShardSnapshot:
        """Begin to give away all arrays by their names in the plan.

        Args:
            whole: As of `Contents.begin_part`.
        """
        flat = iter(self._contents.values.flat())
        arrays: dict[str, Array] = {}
        for layout in (self._pulled, self._kept):
            arrays.update(layout.unpack({dtype: next(flat) for dtype in layout.sizes}))
        begun = self._contents.begin_part([spec.name for spec in self.plan.columns], whole=whole)
        return begun._replace(arrays=arrays)

    def snapshot(self) -> tuple[tuple[Array, ...], RowSnapshot | None]:
        """Return the flat buffers, which do not change, and begin to give away rows."""
        return self._contents.values.flat(), self._contents.begin_snapshot(self.fingerprint.encode())

    @property
    def _all(self) -> tuple[ArraySpec, ...]:
        return (*self._buffers[0], *self._buffers[1])

    def _column(self, name: str) -> ArraySpec:
        if (spec := self._columns.get(name)) is None:
            raise RefusedError(f"the plan has no table with an array {printable(name)}")
        return spec

    def _check_fill(self, message: messages.Fill, given: Sequence[tuple[str, int]]) -> None:
        spec = self._column(message.name)
        row = spec.size // spec.shape[0]
        count = given[0][1] if len(given) == 1 and given[0][0] == spec.dtype else -1
        if count < 0 or count % row or message.start + count // row > spec.shape[0]:
            raise RefusedError(
                f"its rows from {message.start} on are {printable(str(list(given)))}, and those of "
                f"{printable(str(spec))} are others"
            )

    def _check_counts(self, counts: Sequence[int]) -> None:
        if len(counts) != self._rows.tables:
            raise RefusedError(
                f"it has rows of {len(counts)} tables, and the plan has {self._rows.tables} tables"
            )

    def _require_plan(self) -> None:
        if not self.fingerprint:
            raise RefusedError("this server has no plan yet. Offer one first")


class Push(NamedTuple):
    """One push of a worker, checked.

    Attributes:
        flat: Flat buffers, by the name of their dtype.
        rows: What there is for rows of each table.
        updates: Update these rows, when they are called.
    """

    flat: Flat
    rows: Sequence[RowPush] = ()
    updates: Sequence[Callable[[], None]] = ()


def mean_of_rows(pushes: Sequence[RowPush]) -> RowPush:
    """Return the mean of what workers have pushed for rows of a table: see `PlanValues.apply_mean`."""
    ids = np.unique(np.concatenate([push.ids for push in pushes]))
    rows = [np.zeros((len(ids), *each.shape[1:]), each.dtype) for each in pushes[0].rows]
    whole = [each.copy() for each in pushes[0].whole]
    for number, push in enumerate(pushes):
        places = np.searchsorted(ids, push.ids)
        for total, array in zip(rows, push.rows, strict=True):
            if array.dtype.kind == "b":
                total[places] |= array
            elif array.dtype.kind in "iu":
                total[places] = array
            else:
                total[places] += array
        for total, array in zip(whole, push.whole, strict=True):
            _add(total, array, first=not number)
    for total in (*rows, *whole):
        _divide(total, len(pushes))
    return RowPush(ids, tuple(rows), tuple(whole))


def _copied(push: RowPush) -> RowPush:
    rows, whole = (tuple(array.copy() for array in each) for each in (push.rows, push.whole))
    return RowPush(push.ids.copy(), rows, whole)


def _add(total: Array, array: Array, *, first: bool) -> None:
    if not first and array.dtype.kind == "b":
        total &= array
    elif not first and array.dtype.kind not in "iu":
        total += array
    else:
        total[...] = array


def _divide(total: Array, count: int) -> None:
    if total.dtype.kind not in "biu":
        total /= total.dtype.type(count)
