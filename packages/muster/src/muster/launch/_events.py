"""Define the events and actions of the state machine `Job`."""

import dataclasses
import signal

from muster.cluster import Task, TaskType
from muster.cluster.roster import EXIT_PEER_LOST, Termination


@dataclasses.dataclass(frozen=True)
class TaskEnded:
    """A task has ended.

    Args:
        task: The task.
        code: Its return code; that of a signal is negative.
        told: Why, if it has said that.
        joined: Whether it had joined the other tasks.
        lost: Whether its host is lost, so that it cannot be started at its address until that is back.
        evicted: Whether it was ended because the places of all tasks are taken away, which is no failure.
    """

    task: Task
    code: int
    told: Termination | None = None
    joined: bool = True
    lost: bool = False
    evicted: bool = False

    @property
    def is_consequence(self) -> bool:
        """True if the task ended because of another one."""
        return self.code == EXIT_PEER_LOST or (self.told is not None and self.told.culprit != self.task)


@dataclasses.dataclass(frozen=True)
class NotStarted:
    """Tasks were not started, since a signal came before their turn."""

    tasks: tuple[Task, ...]


@dataclasses.dataclass(frozen=True)
class Returned:
    """The hosts of tasks that were lost are back, so that these can be started again."""

    tasks: tuple[Task, ...]


@dataclasses.dataclass(frozen=True)
class Received:
    """The launcher got a signal."""

    number: int


@dataclasses.dataclass(frozen=True)
class Scaled:
    """Somebody wants an elastic job to have so many tasks that train: the first ones."""

    count: int


@dataclasses.dataclass(frozen=True)
class Start:
    """Start tasks. ``attempt`` counts the starts of the job, from 1."""

    tasks: tuple[Task, ...]
    attempt: int


@dataclasses.dataclass(frozen=True)
class Send:
    """Send a signal to tasks."""

    tasks: tuple[Task, ...]
    number: int


@dataclasses.dataclass(frozen=True)
class Say:
    """Show a text to the user."""

    text: str


@dataclasses.dataclass(frozen=True)
class Blame:
    """Show the user the task that caused a failure, with the last lines of its log.

    Args:
        task: The task.
        code: The return code of the task that failed because of it.
        reason: A sentence that names the task; empty if the code says all that is known.
    """

    task: Task
    code: int
    reason: str = ""

    @classmethod
    def of(cls, ended: TaskEnded) -> "Blame":
        """Blame the task that ended, or the one that it has named."""
        told = ended.told
        return cls(ended.task, ended.code) if told is None else cls(told.culprit, ended.code, told.reason)


@dataclasses.dataclass(frozen=True)
class CleanUp:
    """Kill the processes that the tasks of an attempt, which have all ended, have left behind."""


@dataclasses.dataclass(frozen=True)
class Finish:
    """End the launcher, with ``code`` as its exit code."""

    code: int


@dataclasses.dataclass(frozen=True)
class Finishing:
    """Tasks that were told to end are finishing their steps, or saving. Comes again and again meanwhile."""

    tasks: tuple[Task, ...]


@dataclasses.dataclass(frozen=True)
class TasksStopped:
    """Tasks that are stopped by SIGSTOP. Comes again and again, also when there are none."""

    tasks: tuple[Task, ...]


@dataclasses.dataclass(frozen=True)
class Apart:
    """Tasks that train, if they do, by themselves: they have not joined the others. Comes again and again."""

    tasks: tuple[Task, ...]


@dataclasses.dataclass(frozen=True)
class Coordinates:
    """The chief says that it is a coordinator: without workers it waits for ever."""


Event = TaskEnded | NotStarted | Returned | Received | Scaled | Finishing | TasksStopped | Apart | Coordinates
Action = Start | Send | Say | Blame | CleanUp | Finish


# In what order simultaneous ends count; that of the chief comes first.
_RANKS: dict[str, int] = {TaskType.PS: 1, TaskType.WORKER: 2, TaskType.EVALUATOR: 3}


def rank(event: Event) -> int:
    """Return the order of simultaneous events.

    Those come first whose end decides whether others are started again; signals come last, because they did
    not cause ends before them.
    """
    match event:
        case TaskEnded(task):
            return _RANKS.get(task.type, 0)
        case NotStarted() | Returned() | Scaled() | Finishing() | TasksStopped() | Apart() | Coordinates():
            return 4
        case Received():
            return 5


def recurring(event: Event) -> tuple[type, Event] | None:
    """Return the kind of an event that comes again and again, and the event; None for any other."""
    return (type(event), event) if isinstance(event, Finishing | TasksStopped | Apart) else None


def exit_code(code: int) -> int:
    """Return a return code as a shell shows it: for a signal, 128 plus its number."""
    return 128 - code if code < 0 else code


def describe_end(code: int) -> str:
    """Describe how a process ended."""
    if code >= 0:
        meaning = ", which means that it has lost another task" if code == EXIT_PEER_LOST else ""
        return f"exit code {code}{meaning}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = ", by someone or because memory ran out" if -code == signal.SIGKILL else ""
    return f"killed by {name}{hint}"
