"""The state machine of a job: turns events into actions, without processes or clocks.

The events are the ends of tasks, and the signals that the launcher gets. The rules:

- The job succeeds when every task has ended with 0, including the evaluator, which may end later.
- A training task that fails ends the attempt: the others get SIGTERM, and SIGKILL after the grace time. What
  failed first is the cause. Tasks that ended because they lost a peer say so by their exit code and are
  consequences: after one of them, the others have a moment to show the cause before they get SIGTERM. If none
  does, the cause is the task that they name (see `Termination`).
- What is started again, after which pause, is the decision of a `RestartPolicy`. Here "with restarts left"
  means that it has decided for a new start. After the end of an attempt that is a start of everything.
- An evaluator that fails disturbs nobody: with restarts left, only the evaluator is started again; without,
  training goes on, and the job fails when that has ended.
- So it is for every task of a job with parameter servers, whose tasks do without each other for a while: with
  restarts left, only what has failed is started again. Without, the others do without a worker, and the loss
  of the chief or a server ends the attempt, as above, and that of the last worker if the chief coordinates.
- So it is for tasks that train in an elastic job. It succeeds when one of them has ended with 0, whatever the
  others did; and it ends when none is left.
- A task of an elastic job whose host is lost is started again when that is back, if the engine can do so.
- An elastic job that is scaled down ends the last that train, and starts them again when scaled up.
- When the places of all tasks are taken away, all are started again elsewhere; that counts for no restart.
- In other jobs such a task has lost the address by which others know it: with restarts left, all are started
  again, elsewhere. Without, it is a failure like any other. An evaluator's loss disturbs nobody.
- A chief that ends with 0 ends a job with parameter servers: no trainer or server is started again. They end
  by themselves, servers after the trainers; who does not in time gets SIGTERM, and SIGKILL after the grace
  time. The evaluator may take longer.
- The first SIGINT, SIGTERM or SIGHUP is passed on (SIGHUP as SIGTERM), and SIGKILL follows after the grace
  time. That begins when no task is finishing a step or saving any more, and at once for tasks that train if
  one of their parameter servers is lost, without which they can do neither; for servers alone, when the last
  task has ended that they serve. A SIGINT after it kills at once, unless it comes within a second of another,
  as one Ctrl-C may; other repeated signals change nothing, because some senders repeat them. There are no
  restarts after a signal.
- A signal that comes while tasks are started ends those that were; the others are not started.
- Tasks that train and do not join each other are no failure, but the user is told, early and at the end.
- A task that is stopped is waited for, with a word about it, and killed after ten minutes.
"""

import dataclasses
import enum
import math
import signal
from collections.abc import Iterable, Sequence
from typing import Any

from muster._event_log import EventLog
from muster.cluster import Task, TaskType
from muster.cluster.roster import EXIT_PEER_LOST
from muster.engines import FINISH_SECS
from muster.launch._events import (
    Action,
    Apart,
    Blame,
    CleanUp,
    Coordinates,
    Event,
    Finish,
    Finishing,
    NotStarted,
    Received,
    Returned,
    Say,
    Scaled,
    Send,
    Start,
    TaskEnded,
    TasksStopped,
    describe_end,
    exit_code,
    rank,
    recurring,
)
from muster.launch._failures import TRAINING, Failures
from muster.launch._job_notices import Unjoined, WaitedFor, names
from muster.launch._restarts import Decision, Failure, RestartPolicy
from muster.lifecycle import SAME_SECS

SETTLE_SECS = 3.0
# How long workers may take to hear from the servers that the chief has ended the job, in seconds.
HEAR_SECS = 60.0
# How long tasks may finish steps and save after another has failed, in seconds.
FAILED_FINISH_SECS = 60.0
# How often the launcher says that tasks are finishing, in seconds.
SAY_SECS = 10.0
# The longest pause between two `Finishing`, in seconds.
_AGAIN_SECS = 0.5


class _JobPhase(enum.Enum):
    RUNNING = enum.auto()
    ENDING = enum.auto()
    PAUSED = enum.auto()
    FINISHED = enum.auto()


class Job:
    """Decides what to do as the tasks of a job end and signals arrive.

    Args:
        tasks: All tasks.
        policy: Decides about restarts after failures, of the job or of one task.
        grace_secs: How long tasks may take to end after a signal, in seconds.
        elastic: Whether those that train go on without one that has ended, and take in one that comes.
        hosts_return: Whether tasks of an elastic job can be started again where a lost host is back.

    Attributes:
        log: What happened.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        policy: RestartPolicy,
        grace_secs: float,
        elastic: bool = False,
        hosts_return: bool = False,
    ) -> None:
        self._tasks = tuple(tasks)
        self._elastic = elastic
        self._hosts_return = elastic and hosts_return
        made_with: dict[str, Any] = {"policy": policy, "grace_secs": grace_secs}
        if elastic:
            made_with |= {"elastic": elastic, "hosts_return": hosts_return}
        self.log: EventLog[Event, Action] = EventLog("Job", (self._tasks,), made_with, recurring=recurring)
        self._policy = policy
        self._grace_secs = grace_secs
        self._serves = any(task.type == TaskType.PS for task in self._tasks)
        self._trainers = [task for task in self._tasks if task.type in TRAINING]
        self._attempt = 1
        self._signal: int | None = None  # the first signal that the launcher got
        self._pressed_at = -math.inf  # when SIGINT came
        self._begin_attempt()

    def _begin_attempt(self) -> None:
        self._phase = _JobPhase.RUNNING
        self._running = set(self._tasks)
        self._failures = Failures(serves=self._serves, elastic=self._elastic)
        self._waited_for = WaitedFor(serves=self._serves)
        self._unjoined = Unjoined(self._trainers, serves=self._serves, elastic=self._elastic)
        self._sent: set[int] = set()  # the signals that tasks got
        self._term_at: float | None = None
        self._kill_at: float | None = None
        self._told_at = self._said_at = 0.0  # when tasks were told to end, and who is finishing was said
        self._again: dict[Task, float] = {}  # when to start a task again
        # Those that an elastic job does without now, and when they are killed; None when they have ended.
        self._let_go: dict[Task, float | None] = {}
        self._comes_back: set[Task] = set()  # those that are ending, and wanted again
        # Those of an elastic job whose host is lost, and whether they are started when it is back.
        self._away: dict[Task, bool] = {}
        self._start_at: float | None = None  # when to start all tasks again
        self._decided: Decision | None = None  # that all tasks are started again, and how
        self._lacks_server = False  # when tasks were told to end
        self._chief_is_done = False  # in a job with parameter servers
        self._rest_at: float | None = None  # when those that the chief has left get the next of these signals
        self._rest_signals = [signal.SIGTERM, signal.SIGKILL]

    def start(self) -> list[Action]:
        """Return the first actions."""
        return [Start(self._tasks, self._attempt)]

    @property
    def deadline(self) -> float | None:
        """The latest time of the next call of `handle`, even without events; None if there is none."""
        times = [self._term_at, self._kill_at, self._start_at, self._rest_at]
        times += [*self._again.values(), *self._let_go.values()]
        return min((at for at in times if at is not None), default=None)

    @property
    def is_ending(self) -> bool:
        """True if tasks were told to end, and some still run."""
        return self._phase is _JobPhase.ENDING

    def describe_end(self, task: Task, code: int) -> str:
        """Describe how a task ended, for the user: one that was told to end has done so."""
        sent = self._sent | ({signal.SIGTERM} if task in self._let_go else set())
        told = [number for number in sent - {signal.SIGKILL} if code in (-number, 128 + number)]
        if told:
            return f"ended at {signal.Signals(told[0]).name}"
        if code == -signal.SIGKILL and (signal.SIGKILL in sent or self._let_go.get(task, 0.0) is None):
            return "killed by muster, as it did not end"
        return "done" if code == 0 else describe_end(code)

    @property
    def lacks_workers(self) -> bool:
        """True if workers of a job with servers have failed, and none runs or will be restarted."""
        tasks = {*self._running, *self._again}
        left = any(task.type == TaskType.WORKER for task in tasks)
        runs = self._phase is _JobPhase.RUNNING and not self._chief_is_done
        return self._serves and runs and self._failures.has_workers and not left

    def handle(self, events: Sequence[Event], now: float) -> list[Action]:
        """Take the events that have come at once, in any order; see `muster._event_log.StateMachine`."""
        return self.log.handle(self._handle, events, now)

    def _handle(self, events: Sequence[Event], now: float) -> list[Action]:
        actions: list[Action] = []
        for event in sorted(events, key=rank):
            match event:
                case TaskEnded(task):
                    self._running.discard(task)
                    actions += self._note_end(event, now)
                    if task.type != TaskType.PS:
                        self._give_servers_time(now)
                case NotStarted(tasks):
                    self._running.difference_update(tasks)
                case Returned(tasks):
                    back = [task for task in tasks if self._away.pop(task, False)]
                    self._failures.forget(back)
                    self._again |= dict.fromkeys(back, now)
                case Received(number):
                    actions += self._note_signal(number, now)
                case TasksStopped(tasks):
                    self._waited_for.note_stopped(tasks, now)
                case Apart(tasks):
                    actions += self._unjoined.judge(self._running.intersection(tasks), now)
                case Finishing(tasks):
                    actions += self._note_finishing(tasks, now)
                case Scaled(count):
                    actions += self._scale(count, now)
                case Coordinates():
                    actions += self._note_coordinator(now)
        return actions + self._advance(now)

    def _note_end(self, ended: TaskEnded, now: float) -> list[Action]:
        if (reason := self._waited_for.reason(ended.task)) is not None:
            ended = dataclasses.replace(ended, told=reason)
        if ended.lost and self._hosts_return and not ended.evicted:
            self._away[ended.task] = ended.task in self._comes_back
        if ended.task in self._comes_back:
            self._comes_back.discard(ended.task)
            self._again |= {} if ended.lost else {ended.task: now}
            return []
        if ended.task in self._let_go:
            self._let_go[ended.task] = None
            return []
        if ended.code == 0:
            self._unjoined.note_success(ended)
            self._note_success(ended.task, now)
            return []
        # A task that the launcher's signals end has not failed.
        if any(ended.code in (-number, 128 + number) for number in self._sent):
            return []
        if self._phase is _JobPhase.RUNNING:
            if self._is_done_elsewhere(ended.task):
                return []
            alone = self._serves or self._elastic or ended.task.type == TaskType.EVALUATOR
            if alone and self._ending_cause() is None:
                return self._note_failure(ended, now)
            self._again.clear()
        self._failures.add(ended)
        return []

    def _is_done_elsewhere(self, task: Task) -> bool:
        """Return whether a task of an elastic job is not needed any more: another has come to the end."""
        return self._elastic and self._waited_for.some_ended_well and task.type in TRAINING

    def _give_servers_time(self, now: float) -> None:
        """Let servers begin to end only now, when the last task has ended that they have waited for."""
        if self._kill_at is not None and all(task.type == TaskType.PS for task in self._running):
            self._kill_at = max(self._kill_at, now + self._grace_secs)

    def _note_success(self, task: Task, now: float) -> None:
        if self._serves and task.type == TaskType.CHIEF and self._phase is _JobPhase.RUNNING:
            self._chief_is_done = True
            self._again = {task: at for task, at in self._again.items() if task.type == TaskType.EVALUATOR}
            self._term_at, self._rest_at = None, now + HEAR_SECS
        if self._elastic and task.type in TRAINING:
            self._failures.forget_trainers()
            self._again = {task: at for task, at in self._again.items() if task.type not in TRAINING}
            self._away.clear()
        # The others train on without a worker whose input has ended.
        if self._chief_is_done or not self._serves:
            self._waited_for.note_success(now)

    def _note_failure(self, ended: TaskEnded, now: float) -> list[Action]:
        """Start a task again that has failed, or do without it, if that can be."""
        comes_late = self._chief_is_done and ended.task.type != TaskType.EVALUATOR
        if comes_late and ended.is_consequence:
            return []
        decision = Decision(again=False)
        moves = ended.lost or ended.evicted
        if ended.evicted or not ended.lost or ended.task.type != TaskType.EVALUATOR or self._hosts_return:
            decision = self._policy.decide(Failure(ended, alone=not moves))
        if decision.again:
            if comes_late:
                return [Blame.of(ended), Say("It is not started again, as the chief has ended the job.")]
            if ended.task in self._away:
                self._away[ended.task] = True
                self._failures.add(ended)
                said = f"{ended.task} is started again when its host is back"
                return [Blame.of(ended), Say(f"{said}, {decision.text}.")]
            if moves:
                self._decided = decision
                self._again.clear()
                self._failures.add(ended)
                return self._end(signal.SIGTERM, now) if self._running else []
            self._again[ended.task] = now + decision.after_secs
            return [Blame.of(ended), Say(f"Starting {ended.task} again, {decision.text}.")]
        self._failures.add(ended)
        if self._ending_cause() is not None:
            self._again.clear()
            return []
        if not self._running:
            return []
        if comes_late:
            return [Blame.of(ended), Say("The job will count as failed.")]
        if self._elastic and ended.task.type in TRAINING:
            return [Blame.of(ended), Say("Training goes on without it.")]
        return [Blame.of(ended), Say("Training goes on without it; the job will count as failed.")]

    def _scale(self, count: int, now: float) -> list[Action]:
        """Let the first ones of those that train be there, and no others."""
        if self._phase is not _JobPhase.RUNNING or self._waited_for.some_ended_well:
            return []
        wanted, others = self._trainers[:count], self._trainers[count:]
        go = self._in_order(task for task in others if task in self._running and task not in self._let_go)
        for task in others:
            self._again.pop(task, None)
            self._let_go.setdefault(task, now + FAILED_FINISH_SECS if task in self._running else None)
        self._away |= {task: task in wanted for task in self._away if task in self._trainers}
        come = [task for task in wanted if task not in {*self._running, *self._again, *self._away}]
        for task in wanted:
            if self._let_go.pop(task, None) is not None and task in self._running:
                self._comes_back.add(task)
        self._comes_back.difference_update(others)
        self._again |= dict.fromkeys(come, now)
        said = f"The job is to have {count} of {len(self._trainers)} workers."
        if go:
            return [Say(f"{said} Ending {names(go)}."), Send(go, signal.SIGTERM)]
        return [Say(f"{said} Starting {names(self._in_order(come))}." if come else said)]

    def _note_coordinator(self, now: float) -> list[Action]:
        if not self.lacks_workers:
            return []
        return [Say("The coordinator has no worker left."), *self._end(signal.SIGTERM, now)]

    def _note_signal(self, number: int, now: float) -> list[Action]:
        if number == signal.SIGINT:
            if now - self._pressed_at < SAME_SECS:
                return []
            self._pressed_at = now
        again, self._signal = self._signal is not None, self._signal or number
        name = signal.Signals(number).name
        if self._phase is _JobPhase.RUNNING:
            self._again.clear()
            self._failures.forget([task for task, starts in self._away.items() if starts])
            self._away.clear()
            passed_on = signal.SIGTERM if number == signal.SIGHUP else number
            running = self._in_order(self._running)
            if not running:
                return []
            said = f"{name}: {names(running)} may save and end, after the step under way."
            return [Say(f"{said} Ctrl-C again kills at once."), *self._end(passed_on, now)]
        if self._phase is _JobPhase.ENDING and again and number == signal.SIGINT:
            self._kill_at = now
        return []

    def _note_finishing(self, tasks: tuple[Task, ...], now: float) -> list[Action]:
        finishing = self._in_order(self._running.intersection(tasks) - self._failures.blamed)
        if self._lacks_server:
            finishing = tuple(task for task in finishing if task.type == TaskType.EVALUATOR)
        if all(task.type == TaskType.PS for task in finishing):
            finishing = ()  # these wait for the others, and would also for one that is stopped
        if self._phase is not _JobPhase.ENDING or self._kill_at is None or not finishing:
            return []
        grace = max(self._grace_secs, _AGAIN_SECS)
        limit = FINISH_SECS if self._signal is not None else FAILED_FINISH_SECS
        self._kill_at = min(now, self._told_at + limit) + grace
        if now - self._said_at < SAY_SECS:
            return []
        self._said_at = now
        waited = f"{now - self._told_at:.0f} s so far"
        return [Say(f"{names(finishing)} may still finish steps and save, {waited}.")]

    def _advance(self, now: float) -> list[Action]:
        match self._phase:
            case _JobPhase.RUNNING:
                return self._advance_running(now)
            case _JobPhase.ENDING:
                return self._advance_ending(now)
            case _JobPhase.PAUSED:
                return self._advance_paused(now)
            case _JobPhase.FINISHED:
                return []

    def _advance_running(self, now: float) -> list[Action]:
        waited_for = self._waited_for.judge(self._in_order(self._running), now)
        late = self._in_order(task for task, at in self._let_go.items() if at is not None and now >= at)
        if late:
            self._let_go |= dict.fromkeys(late)
            waited_for += [Say(f"Killing {names(late)}."), Send(late, signal.SIGKILL)]
        return waited_for + self._advance_attempt(now)

    def _advance_attempt(self, now: float) -> list[Action]:
        left = {*self._running, *self._again}
        if (
            self._elastic
            and self._running
            and self._failures
            and not self._waited_for.some_ended_well
            and not any(task.type in TRAINING for task in left)
        ):
            return [Say("No worker is left."), *self._end(signal.SIGTERM, now)]
        cause = self._ending_cause()
        if cause is not None and self._running:
            if cause.is_consequence and self._term_at is None:
                self._term_at = now + SETTLE_SECS
            if not cause.is_consequence or (self._term_at is not None and now >= self._term_at):
                return self._end(signal.SIGTERM, now)
            return []
        if self._again and cause is None and self._signal is None:
            due = self._in_order(task for task, at in self._again.items() if now >= at)
            for task in due:
                del self._again[task]
            self._running.update(due)
            return [Start(due, self._attempt)] if due else self._end_rest(now)
        return self._end_rest(now) if self._running else self._conclude(now)

    def _end_rest(self, now: float) -> list[Action]:
        """Tell those to end that the chief has left behind, when it is time."""
        rest = self._in_order(task for task in self._running if task.type != TaskType.EVALUATOR)
        if self._rest_at is None or not rest:
            self._rest_at = None
            return []
        if self._rest_signals[0] == signal.SIGTERM and all(task.type == TaskType.PS for task in rest):
            self._rest_at = min(self._rest_at, now + SETTLE_SECS)  # nobody is left whom they could tell
        if now < self._rest_at:
            return []
        number = self._rest_signals.pop(0)
        self._rest_at = now + self._grace_secs if self._rest_signals else None
        self._sent.add(number)
        does = "Ending" if number == signal.SIGTERM else "Killing"
        return [Say(f"{does} {names(rest)}, as the chief has ended the job."), Send(rest, number)]

    def _advance_ending(self, now: float) -> list[Action]:
        if not self._running:
            return self._conclude(now)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._sent.add(signal.SIGKILL)
            running = self._in_order(self._running)
            return [Say(f"Killing {names(running)}."), Send(running, signal.SIGKILL)]
        return []

    def _advance_paused(self, now: float) -> list[Action]:
        if self._signal is not None:
            self._phase = _JobPhase.FINISHED
            return [Finish(128 + self._signal)]
        if self._start_at is None or now < self._start_at:
            return []
        self._attempt += 1
        self._begin_attempt()
        return [Start(self._tasks, self._attempt)]

    def _end(self, number: int, now: float) -> list[Action]:
        self._phase = _JobPhase.ENDING
        self._sent = {number}
        # Without a server there is no step and no checkpoint. One that ends later was not needed.
        servers = {task for task in self._tasks if task.type == TaskType.PS}
        self._lacks_server = not self._chief_is_done and not servers <= self._running
        self._term_at, self._rest_at = None, None
        self._told_at = self._said_at = now
        self._kill_at = now + self._grace_secs
        return [Send(self._in_order(self._running), number)]

    def _conclude(self, now: float) -> list[Action]:
        """Restart or finish, now that every task has ended."""
        self._term_at, self._kill_at, self._rest_at = None, None, None
        self._again.clear()
        actions: list[Action] = [CleanUp()]
        cause = self._failures.cause
        if cause is not None:
            blame = Blame.of(cause)
            actions.append(blame)
            if others := self._failures.consequences(blame):
                actions.append(Say(f"{names(self._in_order(others))} ended because of that."))
            decision = Decision(again=False)
            if self._signal is None:
                decision = self._decided or self._policy.decide(Failure(cause, alone=False))
            if decision.again:
                self._phase = _JobPhase.PAUSED
                self._start_at = now + decision.after_secs
                return [*actions, Say(f"Starting the job again, {decision.text}.")]
        self._phase = _JobPhase.FINISHED
        if cause is None:
            actions += self._unjoined.conclude()
        code = 0
        if cause is not None and not (self._signal and cause.code == EXIT_PEER_LOST):
            code = exit_code(cause.code)
        elif self._signal is not None:
            code = 128 + self._signal
        return [*actions, Finish(code)]

    def _ending_cause(self) -> TaskEnded | None:
        """Return the failure that ends the attempt, if there is one."""
        return None if self._chief_is_done else self._failures.ending_cause

    def _in_order(self, tasks: Iterable[Task]) -> tuple[Task, ...]:
        chosen = set(tasks)
        return tuple(task for task in self._tasks if task in chosen)
