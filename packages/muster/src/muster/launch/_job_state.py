"""The state of a job over time: what tasks report, made into figures, curves and events. It is pure."""

import dataclasses
from collections.abc import Mapping, Sequence

import msgspec

from muster.cluster import Task, TaskType
from muster.cluster.roster import Progress, TaskState, WorkTotals

# A task whose step stays the same for so long makes no steps, in seconds, or for the time of so many steps.
_SLOW_SECS, _SLOW_STEPS = 5.0, 5.0
# The same, of a task that stands still, beside the seconds that the job says.
_STALLED_STEPS = 20.0
# The shares of a task's time are those of so many seconds at least.
_WAITS_SECS = 2.0
# How many points a curve has at most, and those of all tasks together; how far apart they are at least.
_MOST_POINTS, _MOST_OF_ALL, _FEWEST_POINTS = 400, 20_000, 40
_APART_SECS = 2.0
# The reports of workers in step may be so far apart, in seconds.
_APART_REPORTS_SECS = 4.0
# How long training still takes is found out from its pace in the last so many seconds, or twice that.
_PACE_SECS = 600.0
_TRAINERS = (TaskType.CHIEF, TaskType.MASTER, TaskType.WORKER)
# What workers do between the first step and the last; the others wait while the chief saves or evaluates.
_TRAINS = {TaskState.TRAINING, TaskState.SAVING, TaskState.EVALUATING}


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a job.

    Attributes:
        type: Its type, such as ``"worker"``.
        index: Its index among the tasks of that type.
        state: The state of its process.
        pid: Its process.
        address: Where it answers who asks how it fares.
        log: The file of its output.
        starts: How often it was started.
        answers: Whether it reports how far it is now.
        progress: The last that it has reported; None for nothing.
        host: The machine that it runs on; empty if neither it nor its engine has said it yet.
        waits: The shares of its time of late, 0 to 1, by what it was spent on: compute, input, communication
            and idle.
        left_secs: How long it still trains at its pace of late, which evaluations and saves are a part of, in
            seconds; None if nobody knows.
    """

    type: str
    index: int
    state: str
    pid: int
    address: str
    log: str
    starts: int
    answers: bool = False
    progress: Progress | None = None
    host: str = ""
    waits: Mapping[str, float] = {}
    left_secs: float | None = None

    @property
    def task(self) -> Task:
        """The task."""
        return Task(self.type, self.index)


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task reported at one time.

    Attributes:
        time: When, in seconds since the epoch.
        step: Its global step.
        steps_per_sec: Its speed.
        loss: Its loss.
        metrics: Its metrics.
        waits: The shares of its time, as of ``TaskRecord``.
        staleness: That of a parameter server.
        closures_per_sec: How many closures ended in a second.
    """

    time: float
    step: int | None = None
    steps_per_sec: float | None = None
    loss: float | None = None
    metrics: Mapping[str, float] = {}
    waits: Mapping[str, float] = {}
    staleness: float | None = None
    closures_per_sec: float | None = None


@dataclasses.dataclass(frozen=True)
class Stall:
    """A task that stands still.

    Args:
        task: The task.
        text: What it does not do, for people.
    """

    task: Task
    text: str


class JobState:
    """Follows the tasks of a job.

    Args:
        stall_secs: After how many seconds without a step, or an answer, a task stands still; 0 for never.

    Attributes:
        events: What has happened since they were last taken, for people.
        stalls: The tasks that were found to stand still since they were last taken.
    """

    def __init__(self, stall_secs: float = 0.0) -> None:
        self.events: list[str] = []
        self.stalls: list[Stall] = []
        self._stall_secs = stall_secs
        self._tasks: dict[Task, _Followed] = {}
        self._evaluated = ""

    def look(self, tasks: Sequence[TaskRecord], now: float, date: float) -> list[TaskRecord]:
        """Take what tasks report, and return it as it is to be shown.

        Workers in step report at different times, and are shown at one step. A task without new steps has the
        speed 0.

        Args:
            tasks: The tasks, each with its last progress.
            now: The time in seconds, of a clock that nobody sets.
            date: The time in seconds since the epoch.
        """
        most = max(_FEWEST_POINTS, min(_MOST_POINTS, _MOST_OF_ALL // max(1, len(tasks))))
        shown = []
        for each in tasks:
            followed = self._tasks.setdefault(each.task, _Followed())
            self._note(each, followed)
            seen = followed.look(each, now)
            if self._stall_secs and (text := followed.stalls(each, now, self._stall_secs)):
                self.stalls.append(Stall(each.task, f"{each.task} {text}"))
            shown.append(seen)
        shown = _in_step(shown, tasks)
        for each in shown:
            self._tasks[each.task].draw(each, now, date, most)
        return shown

    @property
    def curves(self) -> dict[str, list[CurvePoint]]:
        """The curves of each task, by its name, such as ``worker-0``; the last point is the newest."""
        return {
            f"{task.type}-{task.index}": followed.points
            for task, followed in self._tasks.items()
            if followed.points
        }

    def _note(self, task: TaskRecord, followed: "_Followed") -> None:
        """Note an evaluation or a checkpoint that is new."""
        progress = task.progress
        if progress is None:
            return
        if progress.evaluation not in ("", self._evaluated):
            self._evaluated = progress.evaluation
            self.events.append(f"Evaluated {self._evaluated}")
        if progress.checkpoint not in (None, followed.checkpoint):
            followed.checkpoint = progress.checkpoint
            self.events.append(f"{task.task} has saved checkpoint {progress.checkpoint}")


class _Followed:
    """What was seen of one task."""

    def __init__(self) -> None:
        self.points: list[CurvePoint] = []
        self.checkpoint: int | None = None
        self._starts = 0
        self._apart, self._drawn = _APART_SECS, -_APART_SECS
        self._moved: tuple[int, ...] = ()  # what grows while it does something
        self._moved_at = self._answered_at = 0.0
        self._stalled = False
        self._paces: list[tuple[float, int]] = []  # one or two times of late, and the steps that it was at
        self._totals: WorkTotals | None = None
        self._waits: dict[str, float] = {}

    def look(self, task: TaskRecord, now: float) -> TaskRecord:
        """Return the task with the shares of its time, and the speed that it has now."""
        progress = task.progress
        moved = (task.starts, *(_counters(progress) if progress is not None else ()))
        if moved != self._moved or progress is None:
            self._moved, self._moved_at, self._stalled = moved, now, False
        if task.answers or task.starts != self._starts:
            self._answered_at = now
        self._starts = task.starts
        if progress is None:
            return task
        if progress.totals is not None:
            new = progress.totals.since(self._totals or WorkTotals())
            if new.secs < 0:  # it was started again
                self._totals, new = None, progress.totals
            if new.secs >= _WAITS_SECS or (not self._waits and new.secs > 0):
                self._totals, self._waits = progress.totals, _shares(new)
        rate = progress.steps_per_sec
        if task.answers and rate and now - self._moved_at > max(_SLOW_SECS, _SLOW_STEPS / rate):
            progress = dataclasses.replace(progress, steps_per_sec=0.0)
        left = self._left_secs(progress)
        return msgspec.structs.replace(task, progress=progress, waits=dict(self._waits), left_secs=left)

    def _left_secs(self, progress: Progress) -> float | None:
        """Return how long training still takes, in seconds; None if nobody knows."""
        step, at, paces = progress.step, self._moved_at, self._paces
        if step is None:
            return None
        if not paces or step < paces[-1][1]:
            paces[:] = [(at, step)]
        elif at - paces[-1][0] >= _PACE_SECS:
            paces[:] = [paces[-1], (at, step)]
        began, first = paces[0]
        pace = (step - first) / (at - began) if step > first and at > began else progress.steps_per_sec
        stands = progress.state == TaskState.TRAINING and not progress.steps_per_sec
        if progress.max_steps is None or not pace or stands:
            return None
        return max(0, progress.max_steps - step) / pace

    def stalls(self, task: TaskRecord, now: float, stall_secs: float) -> str:
        """Return why a task stands still, if it is newly so; empty if it does not, or if that was said."""
        progress = task.progress
        if self._stalled or progress is None or task.state != "running":
            return ""
        silent = now - self._answered_at
        if not task.answers and silent >= stall_secs:
            self._stalled = True
            return f"has not answered for {silent:.0f} s"
        if not task.answers or progress.waits_for:
            return ""
        secs = now - self._moved_at
        if progress.state == TaskState.TRAINING and progress.step is not None:
            rate = progress.steps_per_sec or 0.0
            if secs >= max(stall_secs, _STALLED_STEPS / rate if rate else 0.0):
                self._stalled = True
                return f"has made no step after {progress.step} for {secs:.0f} s"
        if progress.state == TaskState.COORDINATING and progress.queue and secs >= stall_secs:
            self._stalled = True
            return f"has {progress.queue} closures that wait, and none has ended for {secs:.0f} s"
        return ""

    def draw(self, task: TaskRecord, now: float, date: float, most: int) -> None:
        """Add a point to the curves if it is time to; of many points, every second one stays."""
        progress = task.progress
        if progress is None or not task.answers or now - self._drawn < self._apart:
            return
        self._drawn = now
        self.points.append(
            CurvePoint(
                time=round(date, 1),
                step=progress.step,
                steps_per_sec=progress.steps_per_sec,
                loss=progress.loss,
                metrics=progress.metrics,
                waits=task.waits,
                staleness=progress.staleness,
                closures_per_sec=progress.closures_per_sec,
            )
        )
        if len(self.points) > most:
            del self.points[1::2]
            self._apart *= 2


def _counters(progress: Progress) -> tuple[int, ...]:
    return tuple(each or 0 for each in (progress.step, progress.closures, progress.pushes, progress.pulls))


def _shares(totals: WorkTotals) -> dict[str, float]:
    """Return the shares of a task's time by what it was spent on; only what there is."""
    secs = totals.secs
    parts = {
        "compute": totals.compute,
        "input": totals.input,
        "communication": totals.communication,
        "idle": totals.idle,
    }
    return {name: round(each / secs, 4) for name, each in parts.items() if each > 0}


def _in_step(tasks: Sequence[TaskRecord], reported: Sequence[TaskRecord]) -> list[TaskRecord]:
    """Show workers that train in step at the step of their chief, which reports at another time than they.

    Args:
        tasks: The tasks, as they are to be shown otherwise.
        reported: What they have reported, with the speed that they had when they made steps.
    """
    served = any(each.type == TaskType.PS for each in tasks)
    trainers = (each for each in tasks if each.type in _TRAINERS)
    first = next((each for each in trainers if each.progress is not None), None)
    if served or first is None or first.progress is None or first.progress.step is None:
        return [*tasks]
    lead = first.progress
    said = {each.task: each.progress for each in reported}
    shown = []
    for each in tasks:
        progress = each.progress
        if (
            each.type in _TRAINERS
            and progress is not None
            and _are_together(said[first.task], said[each.task])
        ):
            progress = dataclasses.replace(
                progress,
                step=lead.step,
                max_steps=lead.max_steps,
                steps_per_sec=lead.steps_per_sec,
                loss=lead.loss,
                metrics=lead.metrics,
                epoch=lead.epoch,
                epochs=lead.epochs,
            )
            shown.append(msgspec.structs.replace(each, progress=progress, left_secs=first.left_secs))
        else:
            shown.append(each)
    return shown


def _are_together(lead: Progress | None, other: Progress | None) -> bool:
    """Return whether two tasks may be at the same step, though they report that at different times."""
    if lead is None or other is None or lead.step is None or other.step is None:
        return False
    if lead.state != other.state and not {lead.state, other.state} <= _TRAINS:
        return False
    rate = max(lead.steps_per_sec or 0.0, other.steps_per_sec or 0.0)
    return abs(lead.step - other.step) <= 2 + _APART_REPORTS_SECS * rate
