"""What a parameter server holds: arrays, tables and functions, and which requests have changed them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from muster._text import printable
from muster.ps import _messages as messages
from muster.ps._applied import Applied
from muster.ps._array_spec import ArraySpec
from muster.ps._bundles import bundle, bundle_columns, only, packed, unbundled, unbundled_columns, unpacked
from muster.ps._flat_layout import Array, FlatLayout
from muster.ps._plan import Plan, check_plan, difference, fingerprint, without_updates
from muster.ps._recovery import Found
from muster.ps._replies import RefusedError
from muster.ps._row_snapshots import RowSnapshot
from muster.ps._shard_snapshot import ShardSnapshot
from muster.ps.contents import Contents, Description, Device, StoredFunction, StoredHash

# Those who push closures, whose numbers no other closure has.
CLOSURES = ""


class _Described(msgspec.Struct, frozen=True):
    """What a snapshot says that is large: all but values, and the plan, with its function's fingerprint."""

    contents: Description
    plan: Plan | None = None
    fingerprint: str = ""


class StoreSnapshot(NamedTuple):
    """What is written of a store: its description, flat arrays, which do not change, and rows, which do."""

    plan: bytes
    arrays: tuple[Array, ...]
    rows: RowSnapshot | None


class Store:
    """Holds what the program of an origin has given: a coordinator by name, or a chief for a plan.

    A plan is arrays with one function, which updates them. Methods raise RefusedError, with a clause, if what
    is asked is wrong; nothing has changed then.

    Args:
        device: Where values live.
        origin: The random id of the program, or of the first values; empty for none yet.

    Attributes:
        contents: Arrays, tables and functions.
        plan: The plan; None for none.
        fingerprint: That of the plan, and of its function.
        begun: With what training by the plan has begun; None as long as it has no values.
        version: How many times the values were changed, but by changes by name.
        given: The version of the first values.
        changes: The number of the last change by name, or of first values.
    """

    def __init__(self, device: Device, origin: str = "") -> None:
        self.origin = origin
        self.contents = Contents(device)
        self.plan: Plan | None = None
        self.fingerprint = ""
        self.begun: messages.Initialize | None = None
        self.version = self.given = self.changes = 0
        self._device = device
        self._applied: dict[str, Applied] = {}

    @property
    def has_rows(self) -> bool:
        """True if there are rows, which change while they are written."""
        return bool(self.contents.values.by_rows or self.contents.hashed.tables)

    def applied(self, source: str) -> Applied:
        """Return which requests of a source were applied: numbered from 1 on, and closures from 0."""
        if (known := self._applied.get(source)) is None:
            known = self._applied[source] = Applied(int(source != CLOSURES))
        return known

    def forget(self, source: str) -> None:
        """Forget a source from which nothing comes any more."""
        self._applied.pop(source, None)

    def require_plan(self) -> Plan:
        """Return the plan."""
        if self.plan is None:
            raise RefusedError("this server has no plan yet. Offer one first")
        return self.plan

    def require_same(self, plan: Plan, found: str) -> None:
        """Refuse a plan with a fingerprint that differs from the one that is here."""
        if self.plan is not None and found != self.fingerprint:
            raise RefusedError(
                "its plan differs from that of the task that came first: "
                f"{printable(difference(self.plan, plan))}. Run the same program in all tasks, with the "
                "same cluster in TF_CONFIG"
            )

    def buffers(self) -> tuple[ArraySpec, ...]:
        """Return the arrays in which a plan's are, one after the other: those pulled, and those kept."""
        pulled, kept = self.require_plan().buffers()
        return (*pulled, *kept)

    def take_plan(self, encoded: bytes) -> None:
        """Take the first plan; others must be the same."""
        try:
            plan = msgspec.msgpack.decode(encoded, type=Plan)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError) as exc:
            raise RefusedError(f"its plan cannot be read: {printable(str(exc))}") from exc
        found = fingerprint(plan)
        if self.plan is not None:
            self.require_same(plan, found)
            return
        if self.origin:
            raise RefusedError(
                "this server holds variables of a coordinator's program, which has not ended the job. Give "
                "each job its own servers, or start this one again"
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
        contents.hashed.create(plan.hashed, contents.values.specs)
        contents.register(plan.function())
        self.contents, self.plan, self.fingerprint = contents, plan, found

    def change(self, message: messages.Change, arrays: Sequence[Array]) -> None:
        """Make a change by name, or give first values.

        Raises:
            BundleError: The arrays are not what they are to be.
        """
        contents = self.contents
        match message:
            case messages.Offer():
                self.take_plan(only(arrays, 1)[0].tobytes())
            case messages.Initialize():
                contents.values.require_filled(spec.name for spec in self.require_plan().columns)
                given = zip(self.buffers(), arrays, strict=True)
                contents.values.assign([(spec, array.reshape(spec.shape)) for spec, array in given])
                self.begun = message
                self.version += 1
                self.given = self.version
            case messages.Create():
                contents.create(unbundled(arrays), message.by_rows)
            case messages.Reserve():
                contents.reserve(unpacked(arrays, tuple[ArraySpec, ...]))
            case messages.Make():
                contents.make(message.name, message.first, only(arrays, 1)[0].tobytes())
            case messages.Assign():
                contents.values.assign(unbundled(arrays))
            case messages.AssignRows():
                contents.values.assign_rows(message.name, message.start, only(arrays, 1)[0])
            case messages.CreateHashed():
                contents.hashed.create(unpacked(arrays, tuple[StoredHash, ...]), contents.values.specs)
            case messages.AssignHashed():
                contents.hashed.named(message.name).assign(
                    *unbundled_columns(arrays),
                    clears=message.clears,
                    noted=message.noted,
                    waiting=message.waiting,
                    clock=message.clock,
                )
            case messages.Add():
                contents.values.add(unbundled(arrays))
            case messages.Delete():
                contents.delete(unpacked(arrays, tuple[str, ...]))
            case messages.Register():
                contents.register(unpacked(arrays, StoredFunction))

    def read(self, message: messages.Reading, arrays: Sequence[Array]) -> tuple[int, Sequence[Array]]:
        """Return what is asked for by name, in buffers, and where the rows of a hashed table go on."""
        match message:
            case messages.ReadRows():
                rows = self.contents.values.read_rows(message.name, message.start, message.count)
                return 0, bundle([rows])
            case messages.ReadHashed():
                table = self.contents.hashed.named(message.name).table
                following, ids, columns = table.read(message.start, message.count)
                return following, bundle_columns(ids, columns)
            case messages.Describe():
                signature = self.contents.signature(message.function)
                return 0, () if signature is None else [packed(signature)]
            case messages.Read():
                return 0, bundle(self.contents.values.read(unpacked(arrays, tuple[str, ...])))  # copies

    def begin_part(self, names: Sequence[str], whole: bool) -> ShardSnapshot:
        """Begin to give away arrays for a checkpoint.

        Args:
            names: Which; of a plan nothing, for all of its arrays.
            whole: As of `Contents.begin_part`.
        """
        if self.plan is None:
            return self.contents.begin_part(names, whole=whole)
        flat = iter(self.contents.values.flat())
        arrays: dict[str, Array] = {}
        for layout in (FlatLayout(self.plan.pulled), FlatLayout(self.plan.kept)):
            arrays.update(layout.unpack({dtype: next(flat) for dtype in layout.sizes}))
        names = [name for table in self.plan.tables for name in table.names]
        begun = self.contents.begin_part(names, whole=whole)
        return begun._replace(arrays={**arrays, **begun.arrays})

    def snapshot(self) -> StoreSnapshot:
        """Return what is to be written of all values."""
        plan = None if self.plan is None else without_updates(self.plan)
        described = _Described(self.contents.description(), plan, self.fingerprint)
        encoded = msgspec.msgpack.encode(described)
        return StoreSnapshot(encoded, self.contents.values.flat(), self.contents.begin_snapshot(encoded))

    def sources(self) -> Mapping[str, Applied]:
        """Return what was applied, by source."""
        return self._applied

    def restore(self, found: Found) -> None:
        """Take up what another process has written, with the changes since then."""
        saved = found.saved
        self.version, self.changes = saved.version, saved.changes
        if saved.plan:
            described = msgspec.msgpack.decode(saved.plan, type=_Described)
            self.contents.restore(described.contents, found.arrays, found.pieces, saved.clocks)
            self.plan, self.fingerprint = described.plan, described.fingerprint
            if self.plan is not None:
                self.begun = messages.Initialize(step=saved.step, shared=saved.shared, open=saved.open)
        self._applied = {source: Applied(*each) for source, each in saved.applied.items()}
        for change, arrays in found.changes:
            message: Any = change.message
            if message is not None:
                self.change(message, arrays)
                if change.client:
                    self.applied(change.client).forget(message.sequence + 1)
            self.changes = change.number
        self.origin = saved.origin
