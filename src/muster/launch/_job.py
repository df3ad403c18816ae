"""The course of a job: what happens to its tasks, and what is to be done about it. No processes, no clock.

While the job runs, the events of its tasks and the signals that the launcher gets go in, and come out as
actions. The rules:

- The job has ended well when every task has ended with 0, the evaluator too, which may take its time.
- A training task that fails ends the attempt: the others get SIGTERM, and SIGKILL after the grace time. What
  failed first is the cause. Tasks that ended because they lost a peer say so by their exit code and are
  consequences: after one of them, the others have a moment to show the cause before they get SIGTERM.
- With restarts left, everything is started again after a pause.
- An evaluator that fails disturbs nobody: with restarts left it is started again alone; without, training
  goes on, and the job fails when that has ended.
- The first SIGINT, SIGTERM or SIGHUP is passed on (SIGHUP as SIGTERM), and SIGKILL follows after the grace
  time. A SIGINT after it kills at once; other signals that are repeated mean nothing new, because some
  senders repeat them. There are no restarts after a signal.
"""

import dataclasses
import enum
import signal
from collections.abc import Iterable, Sequence

from muster.cluster import EXIT_PEER_LOST, Task, TaskType

SETTLE_SECS = 3.0
PAUSE_SECS = 1.0


@dataclasses.dataclass(frozen=True)
class Ended:
    """A task has ended.

    Args:
        task: The task.
        code: Its return code; that of a signal is negative.
    """

    task: Task
    code: int


@dataclasses.dataclass(frozen=True)
class Received:
    """The launcher got a signal."""

    number: int


@dataclasses.dataclass(frozen=True)
class Start:
    """Start tasks. ``attempt`` counts how often the whole job was started, from 1."""

    tasks: tuple[Task, ...]
    attempt: int


@dataclasses.dataclass(frozen=True)
class Send:
    """Send a signal to tasks."""

    tasks: tuple[Task, ...]
    number: int


@dataclasses.dataclass(frozen=True)
class Say:
    """Tell the user."""

    text: str


@dataclasses.dataclass(frozen=True)
class Blame:
    """Tell the user which task is the cause of a failure, with the last lines of its log."""

    task: Task
    code: int


@dataclasses.dataclass(frozen=True)
class CleanUp:
    """Every task of the attempt has ended: end what they have left behind."""


@dataclasses.dataclass(frozen=True)
class Finish:
    """The job has ended. ``code`` is the launcher's own exit code."""

    code: int


Event = Ended | Received
Action = Start | Send | Say | Blame | CleanUp | Finish


class _Phase(enum.Enum):
    RUNNING = enum.auto()
    ENDING = enum.auto()
    PAUSED = enum.auto()
    FINISHED = enum.auto()


class Job:
    """The course of one job.

    Args:
        tasks: All tasks.
        restarts: How often something may be started again after a failure.
        grace_secs: How long tasks that were told to end may take.
    """

    def __init__(self, tasks: Sequence[Task], *, restarts: int, grace_secs: float) -> None:
        self._tasks = tuple(tasks)
        self._restarts_left = self._restarts = restarts
        self._grace_secs = grace_secs
        self._attempt = 1
        self._signal: int | None = None  # the first that the launcher got
        self._begin_attempt()

    def _begin_attempt(self) -> None:
        self._phase = _Phase.RUNNING
        self._running = set(self._tasks)
        # As they were seen; without what the launcher's signals did.
        self._failed: list[Ended] = []
        self._sent: set[int] = set()  # the signals that tasks were told to end by
        self._term_at: float | None = None
        self._kill_at: float | None = None
        self._start_at: float | None = None  # of everything when paused, else of the evaluator

    def start(self) -> list[Action]:
        """Return what to do at first."""
        return [Start(self._tasks, self._attempt)]

    @property
    def deadline(self) -> float | None:
        """When `handle` must be called at the latest, even if nothing has happened; None: never."""
        times = [at for at in (self._term_at, self._kill_at, self._start_at) if at is not None]
        return min(times, default=None)

    def handle(self, events: Iterable[Event], now: float) -> list[Action]:
        """Take in what happened at one moment, and say what to do.

        Args:
            events: What happened, in any order.
            now: The time in seconds, by a clock that never goes back.
        """
        actions: list[Action] = []
        for event in sorted(events, key=_rank):
            match event:
                case Ended(task):
                    self._running.discard(task)
                    actions += self._note_end(event, now)
                case Received(number):
                    actions += self._note_signal(number, now)
        return actions + self._advance(now)

    def _note_end(self, ended: Ended, now: float) -> list[Action]:
        if self._phase is _Phase.RUNNING:
            if ended.code == 0:
                return []
            if ended.task.type == TaskType.EVALUATOR and self._cause() is None:
                return self._note_evaluator(ended, now)
            self._failed.append(ended)
            self._start_at = None
            return []
        # What the launcher's own signals do to a task is no failure of the task.
        if not _well_ended(ended.code, self._sent):
            self._failed.append(ended)
        return []

    def _note_evaluator(self, ended: Ended, now: float) -> list[Action]:
        if self._restarts_left:
            self._restarts_left -= 1
            self._start_at = now + PAUSE_SECS
            return [Blame(ended.task, ended.code), Say(f"Starting {ended.task} again, {self._restart()}.")]
        self._failed.append(ended)
        if not self._running:
            return []
        return [
            Blame(ended.task, ended.code),
            Say("Training goes on without it; the job will count as failed."),
        ]

    def _note_signal(self, number: int, now: float) -> list[Action]:
        again = self._signal is not None
        if not again:
            self._signal = number
        name = signal.Signals(number).name
        if self._phase is _Phase.RUNNING:
            self._start_at = None
            passed_on = signal.SIGTERM if number == signal.SIGHUP else number
            running = self._in_order(self._running)
            if not running:
                return []
            said = Say(f"{name}: {_names(running)} may save and end. Ctrl-C again kills at once.")
            return [said, *self._end(passed_on, now)]
        if self._phase is _Phase.ENDING and again and number == signal.SIGINT:
            self._kill_at = now
        return []

    def _advance(self, now: float) -> list[Action]:
        match self._phase:
            case _Phase.RUNNING:
                return self._advance_running(now)
            case _Phase.ENDING:
                return self._advance_ending(now)
            case _Phase.PAUSED:
                return self._advance_paused(now)
            case _Phase.FINISHED:
                return []

    def _advance_running(self, now: float) -> list[Action]:
        cause = self._cause()
        if cause is not None and cause.task.type == TaskType.EVALUATOR:
            cause = None  # it ends nothing
        if cause is not None and self._running:
            if cause.code == EXIT_PEER_LOST and self._term_at is None:
                self._term_at = now + SETTLE_SECS
            if cause.code != EXIT_PEER_LOST or (self._term_at is not None and now >= self._term_at):
                return self._end(signal.SIGTERM, now)
            return []
        if self._start_at is not None and cause is None and self._signal is None:
            if now < self._start_at:
                return []
            self._start_at = None
            evaluators = tuple(task for task in self._tasks if task.type == TaskType.EVALUATOR)
            self._running.update(evaluators)
            return [Start(evaluators, self._attempt)]
        return [] if self._running else self._conclude(now)

    def _advance_ending(self, now: float) -> list[Action]:
        if not self._running:
            return self._conclude(now)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._sent.add(signal.SIGKILL)
            running = self._in_order(self._running)
            return [Say(f"Killing {_names(running)}."), Send(running, signal.SIGKILL)]
        return []

    def _advance_paused(self, now: float) -> list[Action]:
        if self._signal is not None:
            self._phase = _Phase.FINISHED
            return [Finish(128 + self._signal)]
        if self._start_at is None or now < self._start_at:
            return []
        self._attempt += 1
        self._begin_attempt()
        return [Start(self._tasks, self._attempt)]

    def _end(self, number: int, now: float) -> list[Action]:
        self._phase = _Phase.ENDING
        self._sent = {number}
        self._term_at, self._start_at = None, None
        self._kill_at = now + self._grace_secs
        return [Send(self._in_order(self._running), number)]

    def _conclude(self, now: float) -> list[Action]:
        """Every task has ended: go on to a restart, or finish."""
        self._term_at, self._kill_at, self._start_at = None, None, None
        actions: list[Action] = [CleanUp()]
        cause = self._cause()
        if cause is not None:
            actions.append(Blame(cause.task, cause.code))
            others = [ended.task for ended in self._failed if ended.code == EXIT_PEER_LOST]
            if others := [task for task in others if task != cause.task]:
                actions.append(Say(f"{_names(self._in_order(others))} ended because of that."))
            if self._restarts_left and self._signal is None:
                self._restarts_left -= 1
                self._phase = _Phase.PAUSED
                self._start_at = now + PAUSE_SECS
                return [*actions, Say(f"Starting the job again, {self._restart()}.")]
        self._phase = _Phase.FINISHED
        code = 0
        if cause is not None and not (self._signal and cause.code == EXIT_PEER_LOST):
            code = exit_code(cause.code)
        elif self._signal is not None:
            code = 128 + self._signal
        return [*actions, Finish(code)]

    def _cause(self) -> Ended | None:
        """Return what made the job fail, if anything did.

        It is the first failure that is no consequence of another, then the first consequence. That of an
        evaluator counts last, also if it came earlier: it ends nothing.
        """
        return min(
            self._failed,
            key=lambda ended: (ended.task.type == TaskType.EVALUATOR, ended.code == EXIT_PEER_LOST),
            default=None,
        )

    def _restart(self) -> str:
        return f"restart {self._restarts - self._restarts_left} of {self._restarts}"

    def _in_order(self, tasks: Iterable[Task]) -> tuple[Task, ...]:
        chosen = set(tasks)
        return tuple(task for task in self._tasks if task in chosen)


def _rank(event: Event) -> int:
    """Return what to look at first of what happened in one moment.

    Training first, because an evaluator is not started again when that has failed; signals last, because they
    are not the cause of what had ended before.
    """
    match event:
        case Ended(task):
            return int(task.type == TaskType.EVALUATOR)
        case Received():
            return 2


def exit_code(code: int) -> int:
    """Return a return code as a shell has it: 128 and its number for a signal."""
    return 128 - code if code < 0 else code


def describe_end(code: int) -> str:
    """Say how a process ended."""
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = ", by someone or because memory ran out" if -code == signal.SIGKILL else ""
    return f"killed by {name}{hint}"


def _well_ended(code: int, sent: Iterable[int]) -> bool:
    """Say whether a task that got these signals ended as it should."""
    return code == 0 or any(code in (-number, 128 + number) for number in sent)


def _names(tasks: Sequence[Task]) -> str:
    *first, last = map(str, tasks)
    return f"{', '.join(first)} and {last}" if first else last
