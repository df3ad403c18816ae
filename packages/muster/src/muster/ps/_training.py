"""Training by the plan of a store: who may make which step, when a push counts, and what answers it."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

from muster.ps import _messages as messages
from muster.ps._flat_layout import Array, AskedRows
from muster.ps._known_workers import KnownWorkers, Worker
from muster.ps._messages import Caller, name_of
from muster.ps._replies import RefusedError, Reply
from muster.ps._round_sums import RoundSums
from muster.ps._step_scheduler import StepScheduler, Turn
from muster.ps._store import Store
from muster.ps.contents import CheckedPush


class TrainingTurns:
    """The steps of workers beside a store: their turns, rounds, and requests that wait.

    Args:
        store: The store, which may be replaced by another one.
        keeps_step: Whether this server keeps the global step and gives tickets.
        workers: How many workers the first round waits for.
        counts: What is counted, by name.

    Attributes:
        store: As given.
        workers: The workers that have joined.
        turns: Gives them turns.
        changed: Whether pushes have changed the values of the plan.
        milestones: How often something happened that a snapshot must not miss: the last step.
    """

    def __init__(self, store: Store, *, keeps_step: bool, workers: int, counts: dict[str, int]) -> None:
        self.store = store
        self.workers = KnownWorkers()
        self.turns = StepScheduler(keeps_step=keeps_step, workers=workers)
        self.changed = False
        self.milestones = 0
        self._last_step = -1
        self._sums = RoundSums()
        self._deferred: dict[Caller, messages.Pull | messages.Push | messages.TakeTicket] = {}
        self._counts = counts
        self._taken: tuple[Array, ...] | None = None  # what workers read as a whole, as it is now

    def start(self) -> None:
        """Give turns from the step on with which training begins."""
        self._taken = None
        if (begun := self.store.begun) is not None:
            self.turns.start_from(begun.step, begun.open, exact=begun.shared is not None)

    def join(self, caller: Caller, seen: messages.Seen, now: float) -> None:
        """Know a worker that trains by the plan, from now on by this connection.

        Args:
            caller: The worker.
            seen: What it knows from before.
            now: The time in seconds.
        """
        worker = self.workers.get(caller.task)
        if worker is None or worker.run != caller.run:
            if worker is not None:  # its process was started again
                self._forget(worker.caller)
                self.store.forget(worker.source)
            worker = self.workers[caller.task] = Worker(caller, now)
        worker.caller, worker.heard, worker.connected = caller, now, True
        self.store.applied(worker.source).forget(seen.sequence + 1)  # those between are lost
        self._deferred.pop(caller, None)  # it will ask again
        self.turns.rounds.come(caller.task)

    def require_answered(self, caller: Caller, message: messages.Request) -> None:
        """Raise RefusedError if a request comes before the last one is answered."""
        if caller in self._deferred:
            raise RefusedError(f"{name_of(message)} comes before the last request is answered")

    def lost(self, caller: Caller) -> None:
        """Go on without a caller that is gone, its request and its ticket."""
        worker = self.workers.get(caller.task)
        if worker is not None and worker.caller == caller:
            worker.connected = False
            self._forget(caller)

    def recall(self, now: float) -> None:
        """Name workers that stand still, and go on without them if others wait."""
        self.workers.name_silent(now, self._deferred.__contains__)
        if self.workers.have_waited(self._deferred, now):
            self.turns.expect_no_more()
            for caller in self.workers.stalled(self.turns.holders(), now):
                self.turns.leave(caller)

    @property
    def waiting(self) -> int:
        """The number of requests that are deferred."""
        return len(self._deferred)

    def answer(self, caller: Caller, message: messages.Request, arrays: Sequence[Array]) -> Reply | None:
        """Return the answer to a request of one who trains by the plan; None if it is deferred.

        Args:
            caller: Who.
            message: The request.
            arrays: The flat arrays that follow it.
        """
        store = self.store
        match message:
            case messages.Pull(whole=False):
                if store.begun is None:
                    raise RefusedError("there are no rows yet to look up. Pull first")
                asked = store.contents.asked(store.fingerprint, message.counts, arrays)
                return Reply(caller, self.values(), (*self._rows(asked),))
            case messages.Pull() | messages.TakeTicket():
                self._check_ticket(isinstance(message, messages.TakeTicket))
            case messages.Push():
                self._push(caller, message, arrays)
            case messages.GiveBack():
                self._forget(caller)
                return Reply(caller, messages.Done())
        reply = self._answer(caller, message)
        if reply is None and isinstance(message, messages.Pull | messages.Push | messages.TakeTicket):
            self._deferred[caller] = message
        return reply

    def end(self) -> list[Reply]:
        """Answer all requests that are deferred: the job has ended."""
        callers, self._deferred = list(self._deferred), {}
        return [Reply(caller, messages.Ended()) for caller in callers]

    def answer_deferred(self) -> list[Reply]:
        """Return the answers that have become possible."""
        if self.turns.rounds.is_over:
            self._end_round()
        if self._in_rounds and self.store.begun is not None:
            asking = [(caller.task, each.max_steps) for caller, each in self._deferred.items() if _asks(each)]
            self.turns.begin_round(asking)
        replies = []
        for caller, message in list(self._deferred.items()):
            if (reply := self._answer(caller, message)) is not None:
                del self._deferred[caller]
                replies.append(reply)
        return replies

    def _forget(self, caller: Caller) -> None:
        self._deferred.pop(caller, None)
        self.turns.leave(caller)

    def _check_ticket(self, wanted: bool) -> None:
        if wanted and not self.turns.keeps_step:
            raise RefusedError("this server keeps no global step. Ask the first one for tickets")

    def _rows(self, asked: Sequence[AskedRows]) -> Iterator[Array]:
        self._counts["lookups"] += bool(asked)
        return (look_up().reshape(-1) for look_up in asked)

    def _push(self, caller: Caller, message: messages.Push, arrays: Sequence[Array]) -> None:
        store, worker = self.store, self.workers[caller.task]
        exact = store.begun is not None and store.begun.shared is not None
        self._check_ticket(message.wants or (message.ticket is not None and not exact))
        if store.begun is None:
            raise RefusedError("there are no values yet that a push could change. Pull first")
        worker.asked = store.contents.asked(store.fingerprint, message.asks, arrays[-1:])
        applied = store.applied(worker.source)
        if message.number in applied:
            self._counts["duplicates"] += 1
            return
        if message.number != applied.watermark:
            raise RefusedError(
                f"push {message.number} comes after push {applied.watermark - 1}: some are missing between "
                "them"
            )
        push = store.contents.prepare(store.fingerprint, message.counts, arrays)
        self._check_round(message)
        worker.counted = self.turns.finish(caller, message)
        applied.add(message.number)
        if not worker.counted:
            self._counts["late"] += 1
            return
        if worker.version is not None:
            self._counts["staleness"] += store.version - worker.version
        if self._in_rounds:
            self._sums.add(push)
        else:
            self._run(push)
        self.changed = True
        self._counts["pushes"] += 1

    def _run(self, push: CheckedPush) -> None:
        """Run the plan's update."""
        store, self._taken = self.store, None  # else the update could not write in place
        self._taken = store.contents.run(store.fingerprint, push)
        store.version += 1

    def _pulled(self) -> tuple[Array, ...]:
        if self._taken is None:
            self._taken = self.store.contents.pull(self.store.fingerprint)
        return self._taken

    @property
    def _in_rounds(self) -> bool:
        return self.store.plan is not None and self.store.plan.max_staleness == 0

    def _check_round(self, message: messages.Push) -> None:
        if message.round is None:
            if self._in_rounds:
                raise RefusedError("it names no round, and workers train in rounds here. Take a ticket first")
        elif not self._in_rounds:
            raise RefusedError("it names a round, and workers do not train in rounds here")
        elif self.turns.rounds.follows(message.round.number):
            self._end_round()

    def _end_round(self) -> None:
        mean = self._sums.mean()
        if mean is not None:
            store = self.store
            self._run(store.contents.checked(store.fingerprint, *mean))
        self.turns.end_round(counts=mean is not None)

    def _answer(self, caller: Caller, message: messages.Request) -> Reply | None:
        """Return the answer to a request that may be deferred; None if it is."""
        store = self.store
        if store.begun is None:
            return None
        if isinstance(message, messages.Push) and self.turns.rounds.holds(caller.task):
            return None
        turn = Turn()
        finished = False
        if self.turns.keeps_step and _asks(message):
            taken = self.turns.take(caller, message.max_steps, store.require_plan().max_staleness)
            if taken is None:
                return None
            turn, finished = taken, taken.ticket is None
            if finished and self.turns.step != self._last_step:
                self._last_step = self.turns.step
                self.milestones += 1
        if isinstance(message, messages.TakeTicket):
            return Reply(
                caller, messages.Ticket(number=turn.ticket, round=turn.round, shared=store.begun.shared)
            )
        self._counts["pulls"] += 1
        worker = self.workers[caller.task]
        worker.version = store.version
        values = self.values(
            ticket=turn.ticket,
            round=turn.round,
            finished=finished,
            applied=not isinstance(message, messages.Push) or worker.counted,
        )
        rows = self._rows(worker.asked) if isinstance(message, messages.Push) else ()
        return Reply(caller, values, (*self._pulled(), *rows))

    def values(self, **fields: Any) -> messages.Values:
        """Return an answer with the version, and where the plan's training is."""
        store = self.store
        if store.plan is None:
            return messages.Values(version=store.version, **fields)
        return messages.Values(origin=store.origin, version=store.version, step=self.turns.step, **fields)


def _asks(message: messages.Request) -> TypeGuard[messages.Push | messages.TakeTicket]:
    return isinstance(message, messages.TakeTicket) or (isinstance(message, messages.Push) and message.wants)
