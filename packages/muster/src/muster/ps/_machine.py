"""The parameter server as a machine: requests in, answers out, without sockets, clocks or threads."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeGuard

import msgspec
import numpy as np

from muster.ps import _messages as messages
from muster.ps._flat_layout import Array, sizes_of
from muster.ps._journal import Record, Recorded
from muster.ps._known_workers import KnownWorkers, Worker
from muster.ps._messages import Caller
from muster.ps._plan_values import PlanValues
from muster.ps._recovery import Find, Recovery, no_snapshot
from muster.ps._replies import RefusedError, Reply, require_versions
from muster.ps._shard_snapshot import ShardSnapshot
from muster.ps._snapshots import Saved, Taken
from muster.ps._step_scheduler import StepScheduler, Turn
from muster.ps._tickets import OPEN_TICKETS, open_tickets
from muster.ps.contents import Device

_COUNTS = (
    *("pushes", "pulls", "lookups", "staleness", "received_bytes", "sent_bytes"),
    *("duplicates", "late", "refused"),
)


class Machine:
    """Answers the requests of workers.

    A caller has one request outstanding at most. Its answer may come with that to a later event, of another
    caller: until there are values, or until there is a ticket.

    Args:
        device: Where values live.
        name: The task, for the log, such as ``"ps 0"``.
        run: The random id of this process.
        keeps_step: Whether this server keeps the global step and gives tickets: one of a job does.
        versions: The versions of software that workers must have, too.
        find: Finds what it takes up again if it was killed.
        record: Called with the plan and the first values, when they come, before they are answered.
        workers: How many workers the job has: the first round waits for them.

    Attributes:
        ended: Whether the chief has ended the job.
        holdings: What it holds.
        milestones: How often something happened that a snapshot must not miss: the last step.
    """

    header: ClassVar[type[Any]] = messages.Header
    first: ClassVar[type[Any]] = messages.Join
    repeated: ClassVar[type[Any]] = messages.Push
    many: ClassVar[bool] = False

    def __init__(
        self,
        device: Device,
        *,
        name: str,
        run: str,
        keeps_step: bool,
        versions: Mapping[str, str],
        find: Find[Saved] = no_snapshot,
        record: Record | None = None,
        workers: int = 1,
    ) -> None:
        self.ended = False
        self.name = name
        self.holdings = PlanValues(device)
        self.milestones = 0
        self._run = run
        self._origin = ""  # the random id of the first values
        self._changed = False  # whether pushes have changed them
        self._recovery: Recovery[Saved] = Recovery(name, run, find)
        self._record = record
        self._changes = 0  # how many changes were recorded
        self._given = 0  # the version of the first values
        self._last_step = -1
        self._shared: messages.SharedInput | None = None
        self._versions = versions
        self._turns = StepScheduler(keeps_step=keeps_step, workers=workers)
        self._workers = KnownWorkers()
        self._deferred: dict[Caller, messages.Pull | messages.Push | messages.Take] = {}
        self._counts = dict.fromkeys(_COUNTS, 0)

    def handle(
        self, caller: Caller, message: messages.Request, arrays: Sequence[Array], now: float
    ) -> list[Reply]:
        """Return the answers that a request makes possible: mostly the one to it.

        Args:
            caller: Who calls.
            message: The request.
            arrays: The flat arrays that follow it. They are not used after this call.
            now: The time in seconds, of any clock that does not go back.
        """
        self._counts["received_bytes"] += sum(array.nbytes for array in arrays)
        try:
            reply = self._handle(caller, message, arrays, now)
        except RefusedError as exc:
            self._counts["refused"] += 1
            reply = Reply(caller, messages.Refused(text=str(exc)))
        return ([] if reply is None else [self._counted(reply)]) + self._answer_deferred()

    def lost(self, caller: Caller) -> list[Reply]:
        """Forget a caller that is gone.

        Returns:
            The answers that become possible without its request and its ticket.
        """
        worker = self._workers.get(caller.task)
        if worker is not None and worker.run == caller.run:
            worker.connected = False
            self._forget(caller)
        return self._answer_deferred()

    def check_sizes(self, message: messages.Request, given: Sequence[tuple[str, int]]) -> None:
        """Raise RefusedError if other buffers are to follow a request than the plan says."""
        self.holdings.check_sizes(message, given)

    @property
    def updates(self) -> int:
        """The number of changes of the values, but for first values, which are recorded."""
        return self.holdings.version - self._given

    @property
    def has_tables(self) -> bool:
        """True if workers look up rows."""
        return bool(self.holdings.plan.tables)

    def begin_part(self, save: messages.SavePart, whole: bool, now: float) -> ShardSnapshot:
        """Begin to give away all arrays of a plan by name, as they are now, for a checkpoint.

        The first server adds its open tickets if they say what steps compute.

        Args:
            save: What the chief asks for.
            whole: As of `PlanValues.begin_part`.
            now: The time, as for `handle`.

        Raises:
            RefusedError: This server has another plan, or no values.
        """
        self._restore(messages.Seen(origin=save.origin), now)
        if not self.holdings.initialized:
            raise RefusedError("this server was started again, and has no values that it could save")
        if save.plan != self.holdings.fingerprint:
            raise RefusedError("its plan differs from that of this task. Run the same program in all tasks")
        begun = self.holdings.begin_part(whole)
        if self._shared is None or not self._turns.keeps_step:
            return begun
        return begun._replace(arrays={**begun.arrays, OPEN_TICKETS: open_tickets(self._turns.open)})

    def recall(self, now: float) -> list[Reply]:
        """Name workers that stand still, go on without them if others wait, and return answers.

        Args:
            now: The time, as for `handle`.
        """
        self._workers.name_silent(now, self._deferred.__contains__)
        if self._workers.have_waited(self._deferred, now):
            self._turns.expect_no_more()
            for caller in self._workers.stalled(self._turns.holders(), now):
                self._turns.leave(caller)
        return self._answer_deferred()

    def _forget(self, caller: Caller) -> None:
        self._deferred.pop(caller, None)
        self._turns.leave(caller)

    def _handle(
        self, caller: Caller, message: messages.Request, arrays: Sequence[Array], now: float
    ) -> Reply | None:
        if isinstance(message, messages.Join):
            self._join(caller, message, now)
            return Reply(caller, messages.Ended() if self.ended else self._joined(caller, message.plan))
        worker = self._workers.hear(caller, now)
        if isinstance(message, messages.Stats):
            return Reply(caller, self.statistics(now))
        if self.ended:
            return Reply(caller, messages.Ended())
        if caller in self._deferred:
            raise RefusedError(f"{messages.name_of(message)} comes before the last request is answered")
        self.check_sizes(message, sizes_of(arrays))
        if isinstance(message, messages.Offer):
            return Reply(caller, self._joined(caller, self.holdings.take_plan(arrays[0].tobytes())))
        if isinstance(message, messages.End):
            self._require_chief(worker, "ends the job")
            self.ended = True
            return Reply(caller, messages.Done())
        if not self.holdings.fingerprint:
            raise RefusedError("this server has no plan yet. Offer one first")
        match message:
            case messages.Pull() | messages.Take():
                self._check_ticket(isinstance(message, messages.Take))
            case messages.LookUp():
                if not self.holdings.initialized:
                    raise RefusedError("there are no rows yet to look up. Pull first")
                rows = self._rows(self.holdings.asked(message.counts, arrays))
                return Reply(caller, messages.Rows(version=self.holdings.version), rows)
            case messages.Push():
                self._push(caller, worker, message, arrays)
            case messages.Fill() | messages.Make() | messages.Initialize():
                self._initialize(worker, message, arrays)
                return Reply(caller, messages.Done())
            case messages.Read():
                if not self.holdings.initialized:
                    raise RefusedError("there are no values yet to read: the chief initializes first")
                values = msgspec.structs.replace(self._values(), open=self._turns.open)
                return Reply(caller, values, self.holdings.everything())
            case messages.GiveBack():
                self._forget(caller)
                return Reply(caller, messages.Done())
        reply = self._answer(caller, message)
        if reply is None:
            self._deferred[caller] = message
        return reply

    def snapshot(self, at: float) -> Taken[Saved]:
        """Return all that this server needs to go on from here; the arrays do not change.

        Args:
            at: The time in seconds since the epoch.
        """
        saved = Saved(
            origin=self._origin,
            plan=self.holdings.plan.encode(),
            version=self.holdings.version,
            step=self._turns.step,
            changes=self._changes - 1,
            open=self._turns.open,
            shared=self._shared,
            at=at,
            pushes=tuple(
                # What was pushed in an open round is not in the values yet, and comes again.
                (Caller(task, worker.run), worker.sequence - self._turns.rounds.holds(task))
                for task, worker in self._workers.items()
            ),
        )
        return Taken(saved, *self.holdings.snapshot())

    def _join(self, caller: Caller, message: messages.Join, now: float) -> None:
        require_versions(self._versions, message.versions)
        self._restore(message.seen, now)
        self._recovery.count(message.seen, now)
        worker = self._workers.get(caller.task)
        if worker is None or worker.run != caller.run:
            if worker is not None:  # its process was started again
                self._forget(Caller(caller.task, worker.run))
            worker = self._workers[caller.task] = Worker(caller.run, message.starts, now)
        worker.starts, worker.heard, worker.connected = message.starts, now, True
        worker.sequence = max(worker.sequence, message.seen.sequence)  # those between are lost
        self._deferred.pop(caller, None)  # it will ask again
        self._turns.rounds.come(caller.task)

    def _restore(self, seen: messages.Seen, now: float) -> None:
        """Take up the snapshot of what a worker has seen, if there is one and this server has no values."""
        if not self._origin and (found := self._recovery.find(seen, now)) is not None:
            saved = found.saved
            if saved.plan:
                self.holdings.restore(saved.plan, found.arrays, found.pieces, saved.version)
                self._shared, self._changed = saved.shared, True
                self._turns.start_from(saved.step, saved.open, exact=saved.shared is not None)
            for change, arrays in found.changes:
                if change.message is not None:
                    self._give(change.message, arrays)
            self._origin = saved.origin
            self._changes = 1 + (found.changes[-1][0].number if found.changes else saved.changes)
            # Other servers take rounds for later ones than all that have begun before, also after this
            # snapshot: the time in milliseconds has run faster than rounds.
            self._turns.rounds.begin_after(int(1000 * (saved.at + found.age_secs)))
            for other, sequence in saved.pushes:
                # Who has joined already is a later process of that task.
                restored = Worker(other.run, False, now, connected=False, sequence=sequence)
                self._workers.setdefault(other.task, restored)

    def _joined(self, caller: Caller, plan: str) -> messages.Joined:
        # With another plan it is asked for that, so that the error can say where they differ.
        return messages.Joined(
            known=plan == self.holdings.fingerprint,
            initialized=self.holdings.initialized,
            sequence=self._workers[caller.task].sequence,
            version=self.holdings.version,
            run=self._run,
            origin=self._origin if self.holdings.initialized else "",
        )

    def _check_ticket(self, wanted: bool) -> None:
        if wanted and not self._turns.keeps_step:
            raise RefusedError("this server keeps no global step. Ask the first one for tickets")

    def _require_chief(self, worker: Worker, what: str) -> None:
        if not worker.starts:
            raise RefusedError(f"it is not the chief, which alone {what}")

    def _initialize(self, worker: Worker, message: messages.First, arrays: Sequence[Array]) -> None:
        self._require_chief(worker, "gives first values")
        if self._changed:
            raise RefusedError(
                "this server has values that workers have changed since, and another server of the job has "
                "none: it was started again, and has no snapshot. Start all tasks again: training goes on "
                "from the last checkpoint"
            )
        if message.origin != self._origin or not self._changes:
            self._origin, self._changes = message.origin, 0
            self._note(None)
            self._note(messages.Offer(), [np.frombuffer(self.holdings.plan.encode(), np.uint8)])
        self._give(message, arrays)
        self._note(message, arrays)

    def _give(self, message: messages.Change, arrays: Sequence[Array]) -> None:
        match message:
            case messages.Offer():
                self.holdings.take_plan(arrays[0].tobytes())
            case messages.Fill():
                self.holdings.fill(message.name, message.start, arrays[0])
            case messages.Make():
                self.holdings.make(message.name, message.first, arrays[0].tobytes())
            case messages.Initialize():
                self.holdings.set(arrays)
                self._given = self.holdings.version
                self._shared = message.shared
                self._turns.start_from(message.step, message.open, exact=self._shared is not None)

    def _note(self, message: messages.Change | None, arrays: Sequence[Array] = ()) -> None:
        if self._record is not None:
            self._record(Recorded(self._changes, self._origin, message=message), arrays)
        self._changes += 1

    def _rows(self, ids: Sequence[Array]) -> tuple[Array, ...]:
        if not ids:
            return ()
        self._counts["lookups"] += 1
        return self.holdings.look_up(ids)

    def _push(self, caller: Caller, worker: Worker, message: messages.Push, arrays: Sequence[Array]) -> None:
        self._check_ticket(message.wants or (message.ticket is not None and self._shared is None))
        if not self.holdings.initialized:
            raise RefusedError("there are no values yet that a push could change. Pull first")
        asked = self.holdings.asked(message.asks, arrays[-1:]) if message.asks else ()
        # Copies, since the answer may have to wait until other pushes are received where this one is.
        worker.asked = [each.copy() for each in asked]
        if message.sequence <= worker.sequence:
            self._counts["duplicates"] += 1
            return
        if message.sequence != worker.sequence + 1:
            raise RefusedError(
                f"push {message.sequence} comes after push {worker.sequence}: some are missing between them"
            )
        push = self.holdings.unpacked(arrays, message.counts)
        self._check_round(message)
        worker.counted = self._turns.finish(caller, message)
        worker.sequence = message.sequence
        if not worker.counted:
            self._counts["late"] += 1
            return
        if worker.version is not None:
            self._counts["staleness"] += self.holdings.version - worker.version
        if self._in_rounds:
            self.holdings.add(push)
        else:
            self.holdings.apply(push)
        self._changed = True
        self._counts["pushes"] += 1

    @property
    def _in_rounds(self) -> bool:
        return self.holdings.plan.max_staleness == 0

    def _check_round(self, message: messages.Push) -> None:
        if message.round is None:
            if self._in_rounds:
                raise RefusedError("it names no round, and workers train in rounds here. Take a ticket first")
        elif not self._in_rounds:
            raise RefusedError("it names a round, and workers do not train in rounds here")
        elif self._turns.rounds.follows(message.round.number):
            self._end_round()

    def _end_round(self) -> None:
        self._turns.end_round(counts=self.holdings.apply_mean())

    def _answer_deferred(self) -> list[Reply]:
        if self._turns.rounds.is_over:
            self._end_round()
        if self._in_rounds and self.holdings.initialized:
            asking = [(caller.task, each.max_steps) for caller, each in self._deferred.items() if _asks(each)]
            self._turns.begin_round(asking)
        replies = []
        for caller, message in list(self._deferred.items()):
            if (reply := self._answer(caller, message)) is not None:
                del self._deferred[caller]
                replies.append(self._counted(reply))
        return replies

    def _counted(self, reply: Reply) -> Reply:
        self._counts["sent_bytes"] += sum(array.nbytes for array in reply.arrays)
        return reply

    def _answer(self, caller: Caller, message: messages.Request) -> Reply | None:
        """Return the answer to a request that may be deferred; None if it is."""
        if self.ended:
            return Reply(caller, messages.Ended())
        if not self.holdings.initialized:
            return None
        if isinstance(message, messages.Push) and self._turns.rounds.holds(caller.task):
            return None
        turn = Turn()
        finished = False
        if self._turns.keeps_step and _asks(message):
            taken = self._turns.take(caller, message.max_steps, self.holdings.plan.max_staleness)
            if taken is None:
                return None
            turn, finished = taken, taken.ticket is None
            if finished and self._turns.step != self._last_step:
                self._last_step = self._turns.step
                self.milestones += 1
        if isinstance(message, messages.Take):
            return Reply(caller, messages.Ticket(number=turn.ticket, round=turn.round, shared=self._shared))
        self._counts["pulls"] += 1
        worker = self._workers[caller.task]
        worker.version = self.holdings.version
        values = msgspec.structs.replace(
            self._values(),
            ticket=turn.ticket,
            round=turn.round,
            finished=finished,
            applied=not isinstance(message, messages.Push) or worker.counted,
        )
        rows = self._rows(worker.asked) if isinstance(message, messages.Push) else ()
        return Reply(caller, values, (*self.holdings.pulled(), *rows))

    def _values(self) -> messages.Values:
        return messages.Values(origin=self._origin, version=self.holdings.version, step=self._turns.step)

    def statistics(self, now: float) -> messages.Statistics:
        """Return what this server has counted."""
        return messages.Statistics(
            version=self.holdings.version,
            step=self._turns.step,
            waiting=len(self._deferred),
            lost_updates=self._recovery.lost_updates,
            lost_secs=self._recovery.lost_secs,
            ended=self.ended,
            workers=self._workers.statistics(now),
            **self._counts,
        )


def _asks(message: messages.Request) -> TypeGuard[messages.Push | messages.Take]:
    return isinstance(message, messages.Take) or (isinstance(message, messages.Push) and message.wants)
