"""The store of a parameter server as a machine: requests in, answers out, without sockets or clocks."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from muster._text import printable
from muster.ps._array_spec import ArraySpec
from muster.ps._flat_layout import Array, sizes_of
from muster.ps._journal import Record, Recorded
from muster.ps._messages import Caller, Done, End, Ended, Refused, SavePart, Seen, Stats, name_of
from muster.ps._recovery import Find, Recovery, no_snapshot
from muster.ps._replies import RefusedError, Reply, require_versions
from muster.ps._shard_snapshot import ShardSnapshot
from muster.ps._snapshots import Taken
from muster.ps.contents import Contents, Description, Device, StoredFunction, StoredHash
from muster.ps.store import _messages as messages
from muster.ps.store._bundles import (
    BundleError,
    bundle,
    bundle_columns,
    check_room,
    only,
    packed,
    unbundled,
    unbundled_columns,
    unpacked,
)
from muster.ps.store._saved import SavedStore

_log = logging.getLogger(__name__)


class Applied:
    """Remembers the numbers of closures that were applied.

    Closures end in any order, and one whose worker was lost comes again, perhaps twice. Those below a
    watermark have all ended, and need not be remembered one by one.

    Args:
        watermark: The number below which all closures have ended.
        numbers: Those that were applied, from there on.
    """

    def __init__(self, watermark: int = 0, numbers: Iterable[int] = ()) -> None:
        self.watermark = watermark
        self._numbers = set(numbers)

    def __contains__(self, number: int) -> bool:
        return number < self.watermark or number in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, number: int) -> None:
        """Note a closure that was applied."""
        self._numbers.add(number)

    def forget(self, watermark: int) -> None:
        """Forget the closures below a watermark, which come no more; a lower one than before says nothing."""
        if watermark > self.watermark:
            self.watermark = watermark
            self._numbers = {number for number in self._numbers if number >= watermark}

    def numbers(self) -> tuple[int, ...]:
        """Return those that are remembered."""
        return tuple(sorted(self._numbers))


_LOST = (
    "this server was started again, and has no snapshot of the values that it had. Start the job again: it "
    "goes on from its last checkpoint. With a snapshot_dir, servers go on by themselves"
)
_OTHER = "another coordinator has begun a job on this server since. Start one at a time"


class _Peer(NamedTuple):
    """A task that has joined: its store, its client, and a flag for the coordinator."""

    origin: str
    client: str
    starts: bool


class StoreMachine:
    """Answers the requests of a coordinator and of workers, each at once.

    A store belongs to an origin, one coordinator's program. Who joins for another origin is refused, unless
    it is a coordinator and the one before is gone: then the store begins anew.

    Args:
        device: Where values live.
        name: The task, for the log, such as ``"ps 0"``.
        run: The random id of this process.
        versions: The versions of software that callers must have, too.
        find: Finds what it goes on from if it was killed.
        record: Called with each change that the coordinator makes, and its arrays, before it is answered.

    Attributes:
        ended: Whether the coordinator has ended the job.
        version: How many pushes have changed the values.
    """

    header: ClassVar[type[Any]] = messages.Header
    first: ClassVar[type[Any]] = messages.Join
    repeated: ClassVar[type[Any]] = messages.Apply
    many: ClassVar[bool] = True

    def __init__(
        self,
        device: Device,
        *,
        name: str,
        run: str,
        versions: Mapping[str, str],
        find: Find[SavedStore] = no_snapshot,
        record: Record | None = None,
    ) -> None:
        self.ended = False
        self.name = name
        self.version = 0
        self.milestones = 0  # none: what must not be missed is recorded at once
        self._device = device
        self._run = run
        self._versions = versions
        self._recovery: Recovery[SavedStore] = Recovery(name, run, find)
        self._record = record
        self._origin = ""
        self._contents = Contents(device)
        self._applied = Applied()
        self._sequences: dict[str, int] = {}  # of each client, its last change
        self._changes = 0  # how many changes were recorded
        self._peers: dict[Caller, _Peer] = {}
        self._counts = dict.fromkeys(
            ("applies", "pulls", "repeated", "refused", "received_bytes", "sent_bytes"), 0
        )

    @property
    def updates(self) -> int:
        """The number of pushes that have changed the values."""
        return self.version

    def check_sizes(self, message: messages.Request, sizes: Sequence[tuple[str, int]]) -> None:
        """Raise RefusedError if other buffers are to follow a request than fit it.

        Args:
            message: The request.
            sizes: The name of the dtype and the number of elements of each buffer.
        """
        match message:
            case messages.Apply():
                self._contents.check_pushed(message.function, message.counts, sizes)
            case messages.Pull():
                self._contents.check_pulled(message.function, message.counts, sizes)
            case (
                messages.Create()
                | messages.Reserve()
                | messages.Make()
                | messages.Assign()
                | messages.AssignRows()
                | messages.CreateHashed()
                | messages.AssignHashed()
                | messages.Add()
                | messages.Delete()
                | messages.Register()
                | messages.Read()
                | messages.ReadRows()
            ):
                check_room(sizes)
            case _:
                if sizes:
                    raise RefusedError(f"its {name_of(message)} has buffers, and takes none")

    def handle(
        self, caller: Caller, message: messages.Request, arrays: Sequence[Array], now: float
    ) -> list[Reply]:
        """Return the answer to a request.

        Args:
            caller: Who calls.
            message: The request.
            arrays: The flat arrays that follow it. They are not used after this call.
            now: The time in seconds, of any clock that does not go back.
        """
        self._counts["received_bytes"] += sum(array.nbytes for array in arrays)
        try:
            answer, sent = self._answer(caller, message, arrays, now)
        except RefusedError as exc:
            self._counts["refused"] += 1
            answer, sent = Refused(text=str(exc)), ()
        self._counts["sent_bytes"] += sum(array.nbytes for array in sent)
        return [Reply(caller, answer, tuple(sent))]

    def lost(self, caller: Caller) -> list[Reply]:
        """Forget a connection that is gone."""
        self._peers.pop(caller, None)
        return []

    def recall(self, now: float) -> list[Reply]:
        """Return the answers that time makes possible: none."""
        return []

    def statistics(self) -> messages.StoreStatistics:
        """Return what this server has counted."""
        return messages.StoreStatistics(
            version=self.version,
            variables=len(self._contents.values.specs),
            nbytes=self._contents.values.nbytes + self._contents.hashed.nbytes,
            tables=self._contents.hashed.statistics(),
            functions=self._contents.functions,
            remembered=len(self._applied),
            lost_updates=self._recovery.lost_updates,
            lost_secs=self._recovery.lost_secs,
            **self._counts,
        )

    def snapshot(self, at: float) -> Taken[SavedStore]:
        """Return all that this server needs to go on from here.

        Args:
            at: The time in seconds since the epoch.
        """
        saved = SavedStore(
            origin=self._origin,
            plan=(plan := msgspec.msgpack.encode(self._contents.description())),
            version=self.version,
            at=at,
            watermark=self._applied.watermark,
            applied=self._applied.numbers(),
            sequences=dict(self._sequences),
            changes=self._changes,
            clocks=self._contents.hashed.clocks(),
        )
        return Taken(saved, self._contents.values.flat(), self._contents.begin_snapshot(plan))

    def begin_part(self, save: SavePart, whole: bool, now: float) -> ShardSnapshot:
        """Begin to give away arrays as they are now, for a checkpoint.

        Args:
            save: What the coordinator asks for.
            whole: See `StoredValues.begin_part`.
            now: The time, as for `handle`.

        Raises:
            RefusedError: This server has not all of them, or those of another coordinator.
        """
        if not self._origin:
            self._restore(Seen(origin=save.origin), now)
        if save.origin != self._origin:
            raise RefusedError(_OTHER if self._origin else _LOST)
        return self._contents.begin_part(save.arrays, whole=whole)

    def _answer(
        self, caller: Caller, message: messages.Request, arrays: Sequence[Array], now: float
    ) -> tuple[Any, Sequence[Array]]:
        if isinstance(message, messages.Join):
            return self._join(caller, message, now), ()
        if (peer := self._peers.get(caller)) is None:
            raise RefusedError("it has not joined. Join first")
        if isinstance(message, Stats):
            return self.statistics(), ()
        if self.ended:
            return Ended(), ()
        if peer.origin != self._origin:
            raise RefusedError(_OTHER)
        self.check_sizes(message, sizes_of(arrays))
        try:
            return self._done(peer, message, arrays)
        except BundleError as exc:
            raise RefusedError(f"its {name_of(message)} is none: {printable(str(exc))}") from exc

    def _done(
        self, peer: _Peer, message: messages.Request, arrays: Sequence[Array]
    ) -> tuple[Any, Sequence[Array]]:
        match message:
            case messages.Apply():
                return self._apply(message, arrays)
            case messages.Pull():
                values = self._contents.pull(message.function, message.counts, arrays)
                self._counts["pulls"] += 1
                return messages.Values(version=self.version), values
            case messages.Read():
                found = self._contents.values.read(unpacked(arrays, tuple[str, ...]))
                return messages.Values(version=self.version), bundle(found)  # copies
            case messages.ReadRows():
                rows = self._contents.values.read_rows(message.name, only(arrays, 1)[0])
                return messages.Values(version=self.version), bundle([rows])
            case messages.ReadHashed():
                table = self._contents.hashed.named(message.name).table
                following, ids, columns = table.read(message.start, message.count)
                given = bundle_columns(ids, columns)
                return messages.Values(version=self.version, next=following), given
            case messages.Describe():
                signature = self._contents.signature(message.function)
                return messages.Described(), () if signature is None else [packed(signature)]
        if not peer.starts:
            raise RefusedError("it is not the coordinator, which alone changes what is here and ends the job")
        if isinstance(message, End):
            self.ended = True
        elif not isinstance(message, messages.Change):
            raise RefusedError(f"its {name_of(message)} comes at the wrong time")
        elif message.sequence <= self._sequences.get(peer.client, 0):
            self._counts["repeated"] += 1
        else:
            _change(self._contents, message, arrays)
            self._sequences[peer.client] = message.sequence
            self._changes += 1
            self._note(Recorded(self._changes, self._origin, peer.client, message), arrays)
        return Done(), ()

    def _apply(self, message: messages.Apply, arrays: Sequence[Array]) -> tuple[Any, Sequence[Array]]:
        if message.watermark > message.closure:
            raise RefusedError(
                f"closure {message.closure} is below its watermark {message.watermark}, and so has ended"
            )
        self._applied.forget(message.watermark)
        if repeated := message.closure in self._applied:
            self._counts["repeated"] += 1
            values = self._contents.pull(message.function)
        else:
            values = self._contents.apply(message.function, message.counts, arrays)
            self._applied.add(message.closure)
            self.version += 1
            self._counts["applies"] += 1
        return messages.Values(version=self.version, repeated=repeated), values

    def _note(self, change: Recorded[messages.Change], arrays: Sequence[Array] = ()) -> None:
        if self._record is not None:
            self._record(change, arrays)

    def _join(self, caller: Caller, message: messages.Join, now: float) -> Any:
        require_versions(self._versions, message.versions)
        if not message.origin:
            raise RefusedError("it names no coordinator's program")
        self._peers.pop(caller, None)
        if not self._origin:
            self._restore(msgspec.structs.replace(message.seen, origin=message.origin), now)
        if message.origin != self._origin:
            self._open(caller, message)
        self._recovery.count(message.seen, now)
        self._peers[caller] = _Peer(message.origin, message.client, message.starts)
        if self.ended:
            return Ended()
        sequence = self._sequences.get(message.client, 0)
        return messages.Joined(run=self._run, version=self.version, sequence=sequence)

    def _restore(self, seen: Seen, now: float) -> None:
        """Take up the snapshot of an origin, if there is one."""
        found = self._recovery.find(seen, now)
        if found is None:
            return
        saved, contents, sequences = found.saved, Contents(self._device), dict(found.saved.sequences)
        if saved.plan:
            description = msgspec.msgpack.decode(saved.plan, type=Description)
            contents.restore(description, found.arrays, found.pieces, saved.clocks)
        for change, arrays in found.changes:
            if change.message is not None:
                _change(contents, change.message, arrays)
                sequences[change.client] = change.message.sequence
        self._origin, self.version = saved.origin, saved.version
        self._changes = found.changes[-1][0].number if found.changes else saved.changes
        self._contents, self._sequences = contents, sequences
        self._applied = Applied(saved.watermark, saved.applied)

    def _open(self, caller: Caller, message: messages.Join) -> None:
        """Begin a new store, for a coordinator that comes first, or after another one."""
        if not message.starts:
            raise RefusedError(_OTHER if self._origin else _LOST)
        if message.seen.run:
            raise RefusedError(_LOST)
        others = [
            other.task
            for other, peer in self._peers.items()
            if peer.starts and (other.task, other.run) != (caller.task, caller.run)
        ]
        if others:
            raise RefusedError(
                f"{printable(others[0])} is the coordinator of a job on this server. End that first, or give "
                "each job its own servers"
            )
        if self._origin:
            _log.warning("%s begins anew, for another program of %s.", self.name, printable(caller.task))
        self._origin = message.origin
        self.version = self._changes = 0
        self._contents, self._applied, self._sequences = Contents(self._device), Applied(), {}
        self._note(Recorded(0, self._origin))


def _change(contents: Contents, message: messages.Change, arrays: Sequence[Array]) -> None:
    match message:
        case messages.Create():
            contents.create(unbundled(arrays), message.by_rows)
        case messages.Reserve():
            contents.reserve(unpacked(arrays, tuple[ArraySpec, ...]))
        case messages.Make():
            contents.make(message.name, message.first, only(arrays, 1)[0].tobytes())
        case messages.Assign():
            contents.values.assign(unbundled(arrays))
        case messages.AssignRows():
            contents.values.assign_rows(message.name, *only(arrays, 2))
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
