"""Report tasks that keep others waiting: suspended ones, and those that have joined nobody."""

import math
import signal
from collections.abc import Sequence

from muster.cluster import Task
from muster.cluster.roster import Termination
from muster.launch._events import Action, Say, Send, TaskEnded

# In seconds: how long a task may be stopped; how long that, or a wait for the last tasks, is not mentioned.
STOPPED_SECS = 600.0
QUIET_SECS = 30.0
# How long tasks may take to join each other before that is mentioned, in seconds.
JOIN_SECS = 30.0
_ADVICE = """\
If they train, each trains a model of its own. To train one together, begin the program with
  strategy = muster.distribute.MultiWorkerMirroredStrategy()
and build and compile the model inside of `with strategy.scope():`, or give an Estimator
RunConfig(train_distribute=strategy)."""
_ADVICE_WITH_SERVERS = """\
If they train, each trains a model of its own. To train one with parameter servers, call
muster.estimator.train_and_evaluate, or begin with ParameterServerStrategy() and a ClusterCoordinator."""


class WaitedFor:
    """Says for whom everyone waits, and has a task killed that has been stopped for too long.

    Args:
        serves: Whether the job has parameter servers: then the others do not wait, while they train.

    Attributes:
        some_ended_well: Whether the last ones are waited for, since others have ended well.
    """

    def __init__(self, *, serves: bool) -> None:
        self._serves = serves
        self._stopped: dict[Task, float] = {}  # since when
        self._killed: set[Task] = set()
        self._say_at = math.inf
        self.some_ended_well = False

    def note_stopped(self, tasks: Sequence[Task], now: float) -> None:
        """Note which tasks are stopped now."""
        self._stopped = {task: self._stopped.get(task, now) for task in tasks}

    def note_success(self, now: float) -> None:
        """Note that a task has ended well: the others are waited for from now on."""
        self.some_ended_well = True
        self._say_at = now + QUIET_SECS

    def reason(self, task: Task) -> Termination | None:
        """Return why a task has ended that was killed here; None if it was not. Once for each kill."""
        if task not in self._killed:
            return None
        self._killed.discard(task)
        return Termination(task, f"{task} was stopped, by SIGSTOP, for {STOPPED_SECS:.0f} s.")

    def judge(self, running: Sequence[Task], now: float) -> list[Action]:
        """Return what is due now, by the tasks that run, in the job's order."""
        stopped = {task: now - self._stopped[task] for task in running if task in self._stopped}
        late = tuple(task for task, secs in stopped.items() if secs >= STOPPED_SECS)
        self._killed.update(late)
        if late:
            self._stopped = {}
            return [Say(f"Killing {names(late)}, stopped for too long."), Send(late, signal.SIGKILL)]
        if not stopped and not self.some_ended_well:
            self._say_at = math.inf  # it goes on
        elif self._say_at == math.inf and any(secs >= QUIET_SECS for secs in stopped.values()):
            self._say_at = now
        if now < self._say_at or not running:
            return []
        self._say_at = now + 2 * QUIET_SECS
        waited = running if self.some_ended_well or not self._serves else stopped
        texts = [f"{task} (stopped, by SIGSTOP)" if task in stopped else str(task) for task in waited]
        return [Say(f"Waiting for {', '.join(texts)}.")]


class Unjoined:
    """Tells of tasks that train and do not join each other. They may have something else to do.

    Args:
        trainers: The tasks that train, in the job's order.
        serves: Whether the job has parameter servers.
        elastic: Whether those that train may come late.
    """

    def __init__(self, trainers: Sequence[Task], *, serves: bool, elastic: bool) -> None:
        self._trainers = tuple(trainers) if len(trainers) > 1 else ()
        self._advice = _ADVICE_WITH_SERVERS if serves else _ADVICE
        self._since: float | None = None  # when they could have joined each other
        self._told = elastic
        self._ended: set[Task] = set()

    def note_success(self, ended: TaskEnded) -> None:
        """Note a task that has ended well."""
        if not ended.joined and ended.task in self._trainers:
            self._ended.add(ended.task)

    def judge(self, tasks: set[Task], now: float) -> list[Action]:
        """Tell, once, which of these tasks, which run, have not joined each other in time."""
        apart = [task for task in self._trainers if task in tasks]
        if self._since is None:
            self._since = now
        if self._told or len(apart) < 2 or now - self._since < JOIN_SECS:
            return []
        self._told = True
        return [Say(f"{names(apart)} have not joined each other in {JOIN_SECS:.0f} s. {self._advice}")]

    def conclude(self) -> list[Action]:
        """Tell which tasks have ended well without having joined each other."""
        ended = [task for task in self._trainers if task in self._ended]
        if len(ended) < 2:
            return []
        return [Say(f"{names(ended)} have ended without having joined each other. {self._advice}")]


def names(tasks: Sequence[Task]) -> str:
    """Return tasks as a text, such as ``worker 0, worker 1 and worker 2``."""
    *first, last = map(str, tasks)
    return f"{', '.join(first)} and {last}" if first else last
