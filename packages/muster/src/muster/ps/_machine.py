"""The parameter server as a machine: requests in, answers out, without sockets, clocks or threads."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from muster._event_log import EventLog
from muster._text import printable
from muster.ps import _messages as messages
from muster.ps import _part_messages as parts
from muster.ps._bundles import BundleError, check_room
from muster.ps._flat_layout import Array, sizes_of
from muster.ps._journal import Record, Recorded
from muster.ps._messages import Caller, name_of
from muster.ps._recovery import Find, Recovery, no_snapshot
from muster.ps._replies import Asked, Event, Lost, RefusedError, Reply, require_versions
from muster.ps._shard_snapshot import ShardSnapshot
from muster.ps._snapshots import Saved, Taken
from muster.ps._statistics import Statistics, WorkerStats
from muster.ps._store import CLOSURES, Store
from muster.ps._sync_rounds import ROUNDS_OF_A_START
from muster.ps._tickets import OPEN_TICKETS, open_tickets
from muster.ps._training import TrainingTurns
from muster.ps.contents import Device, require_sizes

_log = logging.getLogger(__name__)

# The longest encoded plan, or function that makes rows, in bytes.
MAX_PLAN = 1 << 28

# How many events its log keeps.
_MOST_ENTRIES = 500

_COUNTS = (
    *("pushes", "pulls", "lookups", "staleness", "received_bytes", "sent_bytes"),
    *("duplicates", "late", "refused"),
)
_LOST = (
    "this server was started again, and has no snapshot of the values that it had. Start the job again: it "
    "goes on from its last checkpoint. With a snapshot_dir, servers go on by themselves"
)
# Requests for functions, and those of who trains by a plan.
_CALLS = messages.Pull, messages.Push
_STEPS = *_CALLS, messages.TakeTicket, messages.GiveBack
_OTHER = "another coordinator has begun a job on this server since. Start one at a time"


class _Member(NamedTuple):
    """Who has joined: a client of a coordinator's program, or, without an origin, who trains by a plan."""

    origin: str
    client: str
    starts: bool


def _bare(each: Any) -> Any:
    """Return an event or a reply without its arrays, for the log: they may be large, and they change."""
    return each if isinstance(each, Lost) else type(each)(each.caller, each.message, ())


class Machine:
    """Answers requests: those for a store at once, those of workers that train by its plan in their turn.

    A store belongs to an origin, one program. Who joins for another coordinator's program is refused, unless
    it is that coordinator and the one before is gone: then the store begins anew. Who trains by a plan hears
    the origin of its values from the server.

    A caller has one request outstanding at most. Its answer may come with that to a later event, of another
    caller: until the plan has values, or until there is a ticket.

    Args:
        device: Where values live.
        name: The task, for the log, such as ``"ps 0"``.
        run: The random id of this process.
        versions: The versions of software that callers must have, too.
        keeps_step: Whether this server keeps the global step and gives tickets: one of a job does.
        find: Finds what it takes up again if it was killed.
        record: Called with each change by name, and each first value, before it is answered.
        workers: How many workers the job has: the first round waits for them.

    Attributes:
        ended: Whether the chief or the coordinator has ended the job.
        coordinated: Whether a coordinator's program has joined, or workers of one.
        log: What happened of late, without arrays.
    """

    def __init__(
        self,
        device: Device,
        *,
        name: str,
        run: str,
        versions: Mapping[str, str],
        keeps_step: bool = False,
        find: Find = no_snapshot,
        record: Record | None = None,
        workers: int = 1,
    ) -> None:
        self.ended = self.coordinated = False
        self.name = name
        self.log: EventLog[Event, Reply] = EventLog("Machine", (name,), most=_MOST_ENTRIES, kept=_bare)
        self._device = device
        self._run = run
        self._versions = versions
        self._store = Store(device)
        self._recovery: Recovery = Recovery(name, run, find)
        self._record = record
        self._peers: dict[Caller, _Member] = {}
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._training = TrainingTurns(
            self._store, keeps_step=keeps_step, workers=workers, counts=self._counts
        )

    def handle(self, events: Sequence[Event], now: float) -> list[Reply]:
        """Take the events that have come, in their order; see `muster._event_log.StateMachine`.

        Without events, workers that stand still are named, and others go on without them if they wait.

        Returns:
            The answers that are possible now: mostly those to the events' requests.
        """
        return self.log.handle(self._handle, events, now)

    def _handle(self, events: Sequence[Event], now: float) -> list[Reply]:
        replies = []
        for event in events:
            match event:
                case Asked(caller, message, arrays):
                    self._counts["received_bytes"] += sum([array.nbytes for array in arrays])
                    try:
                        reply = self._answer(caller, message, arrays, now)
                    except RefusedError as exc:
                        self._counts["refused"] += 1
                        reply = Reply(caller, messages.Refused(text=str(exc)))
                    replies += [] if reply is None else [reply]
                case Lost(caller):
                    self._peers.pop(caller, None)
                    self._training.lost(caller)
        if not events:
            self._training.recall(now)
        return self._counted(replies)

    def check_sizes(self, message: messages.Request, sizes: Sequence[tuple[str, int]]) -> None:
        """Raise RefusedError if other buffers are to follow a request than fit it.

        Args:
            message: The request.
            sizes: The name of the dtype and the number of elements of each buffer.
        """
        contents = self._store.contents
        if isinstance(message, messages.Push):
            if message.function:
                contents.require_changes(message.function)
            contents.check_pushed(self._function(message), message.counts, message.asks, sizes)
        elif isinstance(message, messages.Pull):
            contents.check_pulled(self._function(message), message.counts, sizes)
        elif isinstance(message, messages.Initialize):
            wanted = [(spec.dtype, spec.size) for spec in self._store.buffers()]
            require_sizes("first elements are given", sizes, wanted)
        elif isinstance(message, messages.Offer | messages.Make):
            if len(sizes) != 1 or sizes[0][0] != "uint8" or not 0 <= sizes[0][1] <= MAX_PLAN:
                raise RefusedError(
                    f"its {name_of(message)} must come in one buffer of at most {MAX_PLAN} bytes"
                )
        elif isinstance(message, messages.Named | messages.Read):
            check_room(sizes)
        elif sizes:
            raise RefusedError(f"its {name_of(message)} has buffers, and takes none")

    @property
    def updates(self) -> int:
        """The number of changes of the values, but for those that are recorded."""
        return self._store.version - self._store.given

    @property
    def milestones(self) -> int:
        """How often something happened that a snapshot must not miss: the last step."""
        return self._training.milestones

    @property
    def has_rows(self) -> bool:
        """True if there are rows, which change while they are written."""
        return self._store.has_rows

    def begin_part(self, save: parts.SavePart, whole: bool, now: float) -> ShardSnapshot:
        """Begin to give away arrays as they are now, for a checkpoint: some by name, or all of a plan.

        The first server adds its open tickets if they say what steps compute.

        Args:
            save: What is asked for.
            whole: As of `Contents.begin_part`.
            now: The time, as for `handle`.

        Raises:
            RefusedError: This server has another plan, or not all of the arrays.
        """
        self._restore(messages.Seen(origin=save.origin), now)
        store = self._store
        if save.plan:
            if store.begun is None:
                raise RefusedError("this server was started again, and has no values that it could save")
            if save.plan != store.fingerprint:
                raise RefusedError(
                    "its plan differs from that of this task. Run the same program in all tasks"
                )
        elif save.origin != store.origin:
            raise RefusedError(_OTHER if store.origin else _LOST)
        part = store.begin_part(save.arrays, whole)
        if store.begun is None or store.begun.shared is None or not self._training.turns.keeps_step:
            return part
        return part._replace(arrays={**part.arrays, OPEN_TICKETS: open_tickets(self._training.turns.open)})

    def snapshot(self, at: float) -> Taken:
        """Return all that this server needs to go on from here; the arrays do not change.

        Args:
            at: The time in seconds since the epoch.
        """
        store = self._store
        applied = {source: (each.watermark, each.numbers()) for source, each in store.sources().items()}
        for task, worker in self._training.workers.items():
            if self._training.turns.rounds.holds(task):
                # What was pushed in an open round is not in the values yet, and comes again.
                applied[worker.source] = store.applied(worker.source).watermark - 1, ()
        taken = store.snapshot()
        saved = Saved(
            origin=store.origin,
            plan=taken.plan,
            version=store.version,
            at=at,
            changes=store.changes,
            applied=applied,
            clocks=store.contents.hashed.clocks(),
            step=self._training.turns.step,
            open=self._training.turns.open,
            shared=None if store.begun is None else store.begun.shared,
        )
        return Taken(saved, taken.arrays, taken.rows)

    def statistics(self, now: float) -> Statistics:
        """Return what this server has counted."""
        store = self._store
        workers = {
            task: WorkerStats(
                store.applied(worker.source).watermark - 1, now - worker.heard, worker.connected
            )
            for task, worker in self._training.workers.items()
        }
        return Statistics(
            version=store.version,
            variables=len(store.contents.values.specs),
            nbytes=store.contents.values.nbytes + store.contents.hashed.nbytes,
            functions=store.contents.functions,
            tables=store.contents.hashed.statistics(),
            step=self._training.turns.step,
            waiting=self._training.waiting,
            remembered=len(store.applied(CLOSURES)),
            lost_updates=self._recovery.lost_updates,
            lost_secs=self._recovery.lost_secs,
            ended=self.ended,
            workers=workers,
            **self._counts,
        )

    def _answer(
        self, caller: Caller, message: messages.Request, arrays: Sequence[Array], now: float
    ) -> Reply | None:
        if isinstance(message, messages.Join):
            return Reply(caller, self._join(caller, message, now))
        if (peer := self._peers.get(caller)) is None:
            raise RefusedError("it has not joined. Join first")
        if not peer.origin:
            self._training.workers.hear(caller, now)
        if isinstance(message, messages.Stats):
            return Reply(caller, self.statistics(now))
        if self.ended:
            return Reply(caller, messages.Ended())
        if peer.origin and peer.origin != self._store.origin:
            raise RefusedError(_OTHER)
        self._training.require_answered(caller, message)
        self.check_sizes(message, sizes_of(arrays))
        if isinstance(message, _CALLS) and message.function:
            return self._call(caller, message, arrays)
        if isinstance(message, _STEPS):
            if peer.origin:
                raise RefusedError(f"its {name_of(message)} is of one who trains by a plan")
            self._store.require_plan()
            return self._training.answer(caller, message, arrays)
        if isinstance(message, messages.Offer) and not peer.origin:
            self._store.take_plan(arrays[0].tobytes())
            return Reply(caller, self._joined(caller, peer, self._store.fingerprint))
        try:
            if isinstance(message, messages.Reading):
                return self._read(caller, peer, message, arrays)
            self._change(peer, message, arrays)
        except BundleError as exc:
            raise RefusedError(f"its {name_of(message)} is none: {printable(str(exc))}") from exc
        return Reply(caller, messages.Done())

    def _function(self, message: messages.Pull | messages.Push) -> str:
        if not message.function:
            self._store.require_plan()
        return message.function or self._store.fingerprint

    def _join(self, caller: Caller, message: messages.Join, now: float) -> messages.Joined | messages.Ended:
        require_versions(self._versions, message.versions)
        if not message.origin and not message.plan:
            raise RefusedError("it names no coordinator's program, and no plan")
        self.coordinated |= bool(message.origin)
        self._peers.pop(caller, None)
        seen = message.seen
        if message.origin:
            seen = msgspec.structs.replace(seen, origin=message.origin)
        self._restore(seen, now)
        if message.origin and message.origin != self._store.origin:
            self._open(caller, message)
        self._recovery.count(seen, now)
        peer = self._peers[caller] = _Member(message.origin, message.client, message.starts)
        if not peer.origin:
            self._training.join(caller, seen, now)
        return messages.Ended() if self.ended else self._joined(caller, peer, message.plan)

    def _joined(self, caller: Caller, peer: _Member, plan: str) -> messages.Joined:
        # With another plan it is asked for that, so that the error can say where they differ.
        store = self._store
        source = peer.client if peer.origin else self._training.workers[caller.task].source
        return messages.Joined(
            run=self._run,
            version=store.version,
            sequence=store.applied(source).watermark - 1,
            known=store.plan is not None and plan == store.fingerprint,
            initialized=store.begun is not None,
            origin=store.origin if store.begun is not None else "",
        )

    def _open(self, caller: Caller, message: messages.Join) -> None:
        """Begin a new store, for a coordinator that comes first, or after another one."""
        if not message.starts:
            raise RefusedError(_OTHER if self._store.origin else _LOST)
        if message.seen.run:
            raise RefusedError(_LOST)
        others = [
            other.task
            for other, peer in self._peers.items()
            if (peer.starts or not peer.origin) and (other.task, other.run) != (caller.task, caller.run)
        ]
        if others:
            raise RefusedError(
                f"{printable(others[0])} is the coordinator of a job on this server, or trains by a plan. "
                "End that first, or give each job its own servers"
            )
        if self._store.origin:
            _log.warning("%s begins anew, for another program of %s.", self.name, printable(caller.task))
        self._use(Store(self._device, message.origin))
        self._note(None)

    def _use(self, store: Store) -> None:
        self._store = self._training.store = store

    def _restore(self, seen: messages.Seen, now: float) -> None:
        """Take up the snapshot of what a caller has seen, if there is one and this server has no values."""
        if self._store.origin or (found := self._recovery.find(seen, now)) is None:
            return
        store = Store(self._device)
        store.restore(found)
        if store.plan is not None:
            self._store.require_same(store.plan, store.fingerprint)
        self._use(store)
        self._training.changed = bool(found.saved.plan)
        if store.begun is not None:
            self._training.start()
        # Other servers take rounds for later ones than all that have begun before, also after this snapshot.
        self._training.turns.rounds.begin_after(found.restarts * ROUNDS_OF_A_START)

    def _change(
        self, peer: _Member, message: messages.Change | messages.End, arrays: Sequence[Array]
    ) -> None:
        """Make a change that has a number, or give first values, which may come again."""
        if not peer.starts:
            who = "coordinator" if peer.origin else "chief"
            raise RefusedError(f"it is not the {who}, which alone changes what is here and ends the job")
        if isinstance(message, messages.End):
            self.ended = True
        elif peer.origin and isinstance(message, messages.Named):
            applied = self._store.applied(peer.client)
            if message.sequence in applied:
                self._counts["duplicates"] += 1
            else:
                self._made(message, arrays, peer.client)
                applied.forget(message.sequence + 1)
        elif not peer.origin and isinstance(message, messages.First):
            self._initialize(message, arrays)
        else:
            raise RefusedError(f"its {name_of(message)} comes at the wrong time")

    def _made(self, message: messages.Change, arrays: Sequence[Array], client: str = "") -> None:
        self._store.change(message, arrays)
        self._note(message, arrays, client)

    def _note(self, message: messages.Change | None, arrays: Sequence[Array] = (), client: str = "") -> None:
        self._store.changes = 0 if message is None else self._store.changes + 1
        if self._record is not None:
            self._record(Recorded(self._store.changes, self._store.origin, client, message), arrays)

    def _initialize(self, message: messages.First, arrays: Sequence[Array]) -> None:
        """Give the plan first values, or some of them."""
        store, plan = self._store, self._store.require_plan()
        if self._training.changed:
            raise RefusedError(
                "this server has values that workers have changed since, and another server of the job has "
                "none: it was started again, and has no snapshot. Start all tasks again: training goes on "
                "from the last checkpoint"
            )
        if not isinstance(message, messages.Initialize) and all(
            message.name not in table.names for table in plan.tables
        ):
            raise RefusedError(f"the plan has no table with an array {printable(message.name)}")
        if message.origin != store.origin or not store.changes:
            store.origin = message.origin
            self._note(None)
            self._note(messages.Offer(), [np.frombuffer(plan.encode(), np.uint8)])
        self._made(message, arrays)
        if isinstance(message, messages.Initialize):
            self._training.start()

    def _read(
        self, caller: Caller, peer: _Member, message: messages.Reading, arrays: Sequence[Array]
    ) -> Reply:
        store = self._store
        if not peer.origin and store.begun is None:
            raise RefusedError("there are no values yet to read: the chief initializes first")
        following, sent = store.read(message, arrays)
        if isinstance(message, messages.Describe):
            return Reply(caller, messages.Described(), tuple(sent))
        values = self._training.values(next=following, open=() if peer.origin else self._training.turns.open)
        return Reply(caller, values, tuple(sent))

    def _call(self, caller: Caller, message: messages.Pull | messages.Push, arrays: Sequence[Array]) -> Reply:
        """Run a function that was registered, at once."""
        contents, function, repeated = self._store.contents, message.function, False
        if isinstance(message, messages.Pull):
            asked = contents.asked(function, message.counts, arrays)
            values = contents.pull(function) if message.whole else ()
        else:
            if message.watermark > message.number:
                raise RefusedError(
                    f"closure {message.number} is below its watermark {message.watermark}, and so has ended"
                )
            applied = self._store.applied(CLOSURES)
            applied.forget(message.watermark)
            asked = contents.asked(function, message.asks, arrays[-1:])
            if repeated := message.number in applied:
                self._counts["duplicates"] += 1
                values = contents.pull(function)
            else:
                values = contents.run(function, contents.prepare(function, message.counts, arrays))
                applied.add(message.number)
                self._store.version += 1
                self._counts["pushes"] += 1
        self._counts["pulls"] += 1
        rows = (look_up().reshape(-1) for look_up in asked)
        return Reply(caller, self._training.values(repeated=repeated), (*values, *rows))

    def _counted(self, replies: list[Reply]) -> list[Reply]:
        """Return replies, and those that have become possible."""
        replies += self._training.end() if self.ended else self._training.answer_deferred()
        self._counts["sent_bytes"] += sum([array.nbytes for reply in replies for array in reply.arrays])
        return replies
