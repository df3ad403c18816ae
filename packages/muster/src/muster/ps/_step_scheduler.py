"""Give workers the permission for their next step, by number, staleness or rounds."""

from collections.abc import Iterable
from typing import NamedTuple

from muster.ps import _messages as messages
from muster.ps._applied import Applied
from muster.ps._messages import Caller
from muster.ps._sync_rounds import SyncRounds
from muster.ps._tickets import Tickets


class StalenessBound:
    """Counts the steps of each worker, and says who may make another.

    Only workers that are present count: those that make a step, or ask for one. A worker that comes, or comes
    back, starts with as many steps as the slowest of the others has made, if it has not made more.
    """

    def __init__(self) -> None:
        self._made: dict[str, int] = {}
        self._present: set[str] = set()

    def may_begin(self, task: str, most: int) -> bool:
        """Return whether a worker, which is present from now on, may begin a step.

        Args:
            task: The worker.
            most: How many steps it may have made more than the slowest that is present, after this one.
        """
        if task not in self._present:
            self._made[task] = max(self._made.get(task, 0), self._slowest())
            self._present.add(task)
        return self._made[task] - self._slowest() < most

    def leave(self, task: str) -> None:
        """Let the others go on without a worker."""
        self._present.discard(task)

    def count(self, task: str) -> None:
        """Count a step that a worker has made."""
        self._made[task] = self._made.get(task, 0) + 1

    def _slowest(self) -> int:
        return min((self._made[task] for task in self._present), default=0)


class Turn(NamedTuple):
    """The right to make a step.

    Attributes:
        ticket: The value of the global step that it starts from; None if no step is left.
        round: The round of the step, if workers train in rounds.
    """

    ticket: int | None = None
    round: messages.Round | None = None


class StepScheduler:
    """Gives turns to whoever asks, to workers that are not too far ahead, or to all together, in rounds.

    What `max_staleness` is, the plan of the server says: see there.

    Args:
        keeps_step: Whether this server keeps the global step and gives turns. Others only learn of rounds.
        workers: How many workers the first round waits for.

    Attributes:
        rounds: The rounds.
    """

    def __init__(self, *, keeps_step: bool, workers: int) -> None:
        self.rounds = SyncRounds()
        self._tickets: Tickets[Caller] | None = Tickets() if keeps_step else None
        self._applied: Applied | None = None
        self._leads = StalenessBound()
        self._expected = workers

    @property
    def keeps_step(self) -> bool:
        """True if this server keeps the global step and gives turns."""
        return self._tickets is not None

    @property
    def open(self) -> tuple[int, ...]:
        """The tickets that were given out, and whose steps were not made; elsewhere, if tickets come with
        pushes, those below the last that came."""
        counts = self._applied if self._tickets is None else self._tickets
        return () if counts is None else counts.open

    @property
    def step(self) -> int:
        """The global step; on servers that do not keep it, how many steps came with their tickets."""
        if self._tickets is not None:
            return self._tickets.step
        return 0 if self._applied is None else self._applied.count

    def start_from(self, step: int, open: Iterable[int] = (), *, exact: bool = False) -> None:
        """Give turns for the steps from a global step on: see `Tickets`. If they are exact, servers that do
        not keep it get them, too, with pushes."""
        if self._tickets is not None:
            self._tickets = Tickets(step, open, exact=exact)
        elif exact:
            self._applied = Applied.except_for(open, step)

    def take(self, caller: Caller, max_steps: int | None, max_staleness: int | None) -> Turn | None:
        """Return the turn of a caller that asks for one; None while it may not have it."""
        if self._tickets is None:
            return Turn()
        if max_staleness == 0:
            if caller.task in self.rounds.awaited:
                return Turn(self.step, messages.Round(self.rounds.number, self.rounds.members))
        elif max_staleness is None or self._leads.may_begin(caller.task, max_staleness):
            if (ticket := self._tickets.ticket(caller, max_steps)) is not None:
                return Turn(ticket)
        if not self._tickets.finished(max_steps):
            return None
        self._leads.leave(caller.task)
        return Turn()

    def finish(self, caller: Caller, push: messages.Push) -> bool:
        """Count the step of a push, and return whether it counts: not if its turn has gone to another."""
        if push.round is not None:
            return self.rounds.push(caller.task, push.round.number, push.round.members)
        if push.ticket is not None and self._applied is not None:
            return self._applied.add(push.ticket)
        if push.ticket is not None and self._tickets is not None:
            if not self._tickets.finish(caller, push.ticket, push.max_steps):
                return False
            self._leads.count(caller.task)
        if not push.wants:
            self._leads.leave(caller.task)
        return True

    def begin_round(self, asking: list[tuple[str, int | None]]) -> None:
        """Begin a round with workers that ask for a step, by task and the step at which turns end for it."""
        if self._tickets is None or self.rounds.is_open:
            return
        tasks = [task for task, max_steps in asking if not self._tickets.finished(max_steps)]
        if tasks and (self.rounds.number or len(tasks) >= self._expected):
            self.rounds.begin(tasks)

    def end_round(self, *, counts: bool) -> None:
        """End the open round, which is a step if anything was pushed in it."""
        self.rounds.end()
        if counts:
            self.start_from(self.step + 1)

    def leave(self, caller: Caller) -> None:
        """Take the turn of a caller back, and let the others go on without it until it asks again."""
        if self._tickets is not None:
            self._tickets.give_back(caller)
        self._leads.leave(caller.task)
        self.rounds.leave(caller.task)

    def expect_no_more(self) -> None:
        """Let the first round begin with the workers that are there."""
        self._expected = 0

    def holders(self) -> set[str]:
        """Return the tasks that have turns."""
        holders = [] if self._tickets is None else self._tickets.holders()
        return {caller.task for caller in holders} | self.rounds.awaited
