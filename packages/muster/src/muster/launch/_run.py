"""Run a job on this machine: pass events to `Job`, and carry out its actions."""

import dataclasses
import selectors
import shutil
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from muster._errors import StrayPeerError
from muster.cluster import Task, TaskType
from muster.cluster.roster import Progress, RunningClock, TaskState, query_status
from muster.launch import _events as job
from muster.launch._job import Job
from muster.launch._job_record import Recorder, TaskRecord, read_record
from muster.launch._machine import MachineResources
from muster.launch._plan import JobShape, check_room, plan_job
from muster.launch._process import (
    KeeperProcess,
    Port,
    SignalInbox,
    TaskProcess,
    adopt_orphans,
    reap_orphans,
)
from muster.launch._replay_command import LAUNCHERS_LOG
from muster.launch._restarts import LimitedRestarts
from muster.launch._view import JobView, Row, StatusPoller
from muster.net import Credentials

_LOOK_SECS = 0.1  # the period of reading logs
_SHOW_SECS = 0.5  # the period of drawing the table
_BLAMED_LINES = 20
# The temporary folders of logs, and how many of those of runs that have failed are kept.
_LOGS, _KEPT_LOGS = "muster-run-", 10
# How often to ask the chief whether it is a coordinator, and how long it may take to answer, in seconds.
_ASK_SECS, _ANSWER_SECS = 1.0, 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run.

    Args:
        shape: The tasks of the job.
        program: The words after the interpreter: the user's program and its arguments.
        restarts: The number of restarts after failures.
        grace_secs: How long tasks may take to end after a signal, in seconds.
        log_dir: The folder of the tasks' output; None: a temporary folder, removed if the job succeeds.
        oversubscribe: Whether to start more tasks than the machine holds.
    """

    shape: JobShape
    program: tuple[str, ...]
    restarts: int
    grace_secs: float
    log_dir: Path | None
    oversubscribe: bool = False


def run_job(options: RunOptions, machine: MachineResources, environ: Mapping[str, str], view: JobView) -> int:
    """Run a job until it ends. Must be called from the main thread.

    Args:
        options: The options of the run.
        machine: The resources that the tasks share.
        environ: The environment that the tasks inherit.
        view: Shows the job to the user.

    Returns:
        0 if every task succeeded; the exit code of the task that caused a failure, or 128 plus the number of
        its signal; 128 plus the signal's number if a signal ended the job.

    Raises:
        ClusterError: The machine has fewer GPUs than the tasks need, or too few cores or too little memory
            for them. Nothing was started.
        CredentialsError: The environment names a secret or certificates that cannot be used.
        OSError: The log folder cannot be written.
    """
    if not options.oversubscribe:
        check_room(options.shape, machine)
    log_dir = options.log_dir or _new_log_dir()
    log_dir.mkdir(parents=True, exist_ok=True)
    code = 1
    try:
        code = _Run(options, machine, environ, view, log_dir).until_end()
        return code
    finally:
        if options.log_dir is None:
            if code == 0 or not any(log_dir.glob("*.log")):
                shutil.rmtree(log_dir)


def _new_log_dir() -> Path:
    """Make a temporary folder for logs. Of runs that have failed, the last few are kept."""
    made = Path(tempfile.mkdtemp(prefix=_LOGS))
    failed = sorted((path for path in made.parent.glob(f"{_LOGS}*") if path != made), key=_changed)
    for path in failed[: max(0, len(failed) - _KEPT_LOGS + 1)]:
        record = read_record(path)
        if record is not None and not record.runs:
            shutil.rmtree(path, ignore_errors=True)  # or it is somebody else's
    return made


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another launcher has removed it
        return 0.0


class _Run:
    """Runs the processes of one job, and keeps their last known states."""

    def __init__(
        self,
        options: RunOptions,
        machine: MachineResources,
        environ: Mapping[str, str],
        view: JobView,
        log_dir: Path,
    ) -> None:
        self._options = options
        self._machine = machine
        self._environ = dict(environ)
        self._view = view
        self._log_dir = log_dir
        self._command = [sys.executable, *options.program]
        self._name = uuid.uuid4().hex[:8]
        # What parameter servers go on from, if no folder for it is given. That of the logs may be a user's.
        self._snapshots = (log_dir / f"snapshots-{self._name}").absolute()
        if options.restarts and options.shape.ps:
            self._environ.setdefault("MUSTER_SNAPSHOT_DIR", str(self._snapshots))
        self._job = Job(
            options.shape.tasks, policy=LimitedRestarts(options.restarts), grace_secs=options.grace_secs
        )
        self._selector = selectors.DefaultSelector()
        self._signals = SignalInbox()
        self._keeper: KeeperProcess | None = None
        self._processes: dict[Task, TaskProcess] = {}  # the last process of each task
        self._ports: dict[Task, Port] = {}  # of this attempt
        self._running: set[Task] = set()
        self._received: list[int] = []  # the signals that came while tasks were started
        self._not_started: list[Task] = []  # because of them
        self._states: dict[Task, str] = {}
        self._starts: Counter[Task] = Counter()
        self._recorder = Recorder(self._name, options.program, log_dir)
        self._evaluated = ""
        self._known: dict[Task, Progress] = {}  # the last that each task has reported
        self._keeps_logs = True
        self._poller: StatusPoller | None = None
        self._shown_at = self._asked_at = 0.0
        self._clock = RunningClock()  # else a frozen job would find all its deadlines over

    def until_end(self) -> int:
        """Run the job, and return the launcher's exit code."""
        adopt_orphans()
        code = 1
        try:
            code = self._until_end()
            return code
        finally:
            self._recorder.end(self._records(), code)

    def _until_end(self) -> int:
        with ExitStack() as stack:
            stack.callback(self._view.close)
            # Of servers that were not told of the end.
            stack.callback(shutil.rmtree, self._snapshots, ignore_errors=True)
            stack.enter_context(self._signals)
            stack.enter_context(self._selector)
            stack.callback(self._clean_up)
            credentials = Credentials.from_environ(self._environ)
            self._poller = stack.enter_context(StatusPoller(credentials, self._view.rows_every_secs))
            self._view.begin(self._log_dir)
            self._selector.register(self._signals, selectors.EVENT_READ)
            actions = self._job.start()
            while True:
                for action in actions:
                    if isinstance(action, job.Finish):
                        self._keeps_logs = self._options.log_dir is not None or action.code != 0
                        self._show()
                        if action.code != 0:
                            self._job.log.write(self._log_dir / LAUNCHERS_LOG)
                            self._view.say(f"Logs: {self._log_dir}")
                        else:
                            self._view.end()
                        return action.code
                    self._carry_out(action)
                actions = self._job.handle(self._wait(), self._clock())

    def _carry_out(self, action: job.Action) -> None:
        match action:
            case job.Start(tasks, attempt):
                self._start(tasks, attempt)
            case job.Send(tasks, number):
                for task in tasks:
                    self._processes[task].send(number)
            case job.Say(text):
                self._view.say(text)
                self._recorder.event(text)
            case job.Blame(task, code, reason):
                lines = self._processes[task].last_lines(_BLAMED_LINES) if task in self._processes else []
                introduction = " Its last lines:" if lines else " It has written nothing."
                if lines and self._view.has_just_shown(task, lines):
                    introduction, lines = "", []
                headline = reason or f"{task} failed: {job.describe_end(code)}."
                self._view.say("\n".join([f"{headline}{introduction}", *lines]))
                self._recorder.event(headline)
            case job.CleanUp():
                self._clean_up()

    def _start(self, tasks: Iterable[Task], attempt: int) -> None:
        """Start all tasks of an attempt, or some of them again, at their addresses."""
        job_id = f"{self._name}-{attempt}"
        if self._keeper is None:
            self._keeper = KeeperProcess(job_id, self._options.grace_secs)
        if not self._ports:
            self._ports = {task: Port() for task in self._options.shape.tasks}
        with ExitStack() as unused:
            listeners = {task: unused.enter_context(self._ports[task].listen()) for task in tasks}
            plans = plan_job(
                self._options.shape,
                self._machine,
                addresses={task: port.address for task, port in self._ports.items()},
                job_id=job_id,
                environ=self._environ,
            )
            for plan in plans:
                task = plan.task
                if task not in listeners:
                    continue
                self._received += self._signals.receive()
                if self._received:
                    self._not_started.append(task)
                    continue
                self._processes[task] = TaskProcess(
                    plan,
                    listeners[task],
                    command=self._command,
                    environ=self._environ,
                    log=self._log_dir / f"{task.type}-{task.index}.log",
                )
                self._keeper.add(self._processes[task])
                self._running.add(task)
                self._starts[task] += 1
                self._states[task] = "running"
                self._selector.register(self._processes[task], selectors.EVENT_READ)
        if self._poller is not None:
            self._poller.addresses = {task: self._processes[task].plan.address for task in self._running}

    def _wait(self) -> Sequence[job.Event]:
        """Wait for a moment, show new lines of the tasks, and return the events."""
        now = self._clock()
        timeout = _LOOK_SECS if self._job.deadline is None else min(_LOOK_SECS, self._job.deadline - now)
        ready = [key.fileobj for key, _ in self._selector.select(max(timeout, 0))]
        events: list[job.Event] = []
        for task in [task for task in self._processes if task in self._running]:
            process = self._processes[task]
            if process in ready:
                self._selector.unregister(process)
                self._running.discard(task)
                joined = process.has_joined
                code, lines, told, progress = process.collect()
                if progress is not None:
                    self._known = {**self._known, task: progress}
                self._states[task] = self._job.describe_end(code)
                events.append(job.TaskEnded(task, code, told, joined))
            else:
                lines = process.new_lines()
            if lines:
                self._view.lines(task, lines)
        stopped = tuple(task for task in self._running if self._processes[task].is_stopped)
        events.append(job.TasksStopped(stopped))
        if self._not_started:
            events.append(job.NotStarted(tuple(self._not_started)))
            self._not_started = []
        events.append(job.Apart(tuple(t for t in self._running if not self._processes[t].has_joined)))
        if self._job.is_ending:
            events.append(job.Finishing(tuple(t for t in self._running if self._processes[t].is_finishing)))
        if self._keeper is not None:
            reap_orphans({self._keeper.pid, *(self._processes[task].pid for task in self._processes)})
        if self._job.lacks_workers and self._chief_coordinates():
            events.append(job.Coordinates())
        events += map(job.Received, [*self._received, *self._signals.receive()])
        self._received = []
        if time.monotonic() - self._shown_at >= _SHOW_SECS:
            self._show()
        return events

    def _chief_coordinates(self) -> bool:
        """Ask the chief, once a second, whether it is a coordinator."""
        chief = Task(TaskType.CHIEF, 0)
        if chief not in self._running or time.monotonic() - self._asked_at < _ASK_SECS:
            return False
        credentials = Credentials.from_environ(self._environ)
        try:
            status = query_status(self._ports[chief].address, _ANSWER_SECS, credentials, task=chief)
        except (OSError, StrayPeerError):
            return False  # it has not begun, or is no program of muster
        finally:
            self._asked_at = time.monotonic()
        return status.progress.state == TaskState.COORDINATING

    def _show(self) -> None:
        if self._poller is None:  # an error has ended the start
            return
        answers = self._poller.answers
        self._known |= {task: progress for task, progress in answers.items() if task in self._running}
        rows = [
            Row(
                task=task,
                state=state,
                progress=self._known.get(task),
                answers=task in self._running and task in answers,
            )
            for task, state in self._states.items()
        ]
        self._view.show(rows, self._log_dir if self._keeps_logs else None)
        for progress in self._known.values():
            if progress.evaluation and progress.evaluation != self._evaluated:
                self._evaluated = progress.evaluation
                self._recorder.event(f"Evaluated {self._evaluated}")
        self._recorder.update(self._records())
        self._shown_at = time.monotonic()

    def _records(self) -> list[TaskRecord]:
        """Return what is known of each task that was started."""
        answers = {} if self._poller is None else self._poller.answers
        return [
            TaskRecord(
                type=task.type,
                index=task.index,
                state=state,
                pid=self._processes[task].pid,
                address=self._processes[task].plan.address,
                log=str(self._processes[task].log.absolute()),
                starts=self._starts[task],
                answers=task in self._running and task in answers,
                progress=self._known.get(task),
            )
            for task, state in self._states.items()
        ]

    def _clean_up(self) -> None:
        """End all remaining processes of this attempt."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None and not keeper.finish():
            self._view.say("Some processes that tasks have started cannot be killed: look for them with ps.")
        # There are some only when an error ends the launcher: the keeper has killed them.
        for task in self._running:
            self._processes[task].collect()
        self._running.clear()
        for port in self._ports.values():
            port.close()
        self._ports = {}
