"""Run a job: pass events of an engine and signals to `Job`, and carry out its actions."""

import contextlib
import dataclasses
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from muster._errors import ClusterError, StorageError, StrayPeerError
from muster._remote import publish, remote_url
from muster.cluster import Task, TaskType
from muster.cluster.roster import Progress, RunningClock, TaskState, Termination, query_status
from muster.engines import EXIT_LOST, Engine, Place, TaskCondition, TaskExit, TaskRequest, TaskStart
from muster.launch import _events as job
from muster.launch._job import Job
from muster.launch._job_record import Recorder, read_record
from muster.launch._job_state import TaskRecord
from muster.launch._lines import TaskLog
from muster.launch._plan import (
    STARTED_ALONE,
    JobShape,
    check_request,
    check_room,
    plan_job,
    tasks_of_hosts,
)
from muster.launch._replay_command import LAUNCHERS_LOG
from muster.launch._restarts import LimitedRestarts
from muster.launch._signals import SignalInbox
from muster.launch._view import JobView, StatusPoller
from muster.net import Credentials

_LOOK_SECS = 0.1  # the period of reading logs
_SHOW_SECS = 0.5  # the period of drawing the table
_BLAMED_LINES = 20
# A task that has just been started, and has shown nothing of itself yet, imports modules, in seconds.
_IMPORTS_SECS = 10.0
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
        log_dir: The folder of the tasks' output, or the place of one on an object store; None: a temporary
            folder, removed if the job succeeds.
        oversubscribe: Whether to start more tasks than a machine holds.
        request: What each task asks for.
        stall_secs: After how many seconds without a step a task stands still, so that the stacks of all are
            written; 0 for never.
        page: The host and the port of the job's page; None for no page.
    """

    shape: JobShape
    program: tuple[str, ...]
    restarts: int
    grace_secs: float
    log_dir: Path | None
    oversubscribe: bool = False
    request: TaskRequest = TaskRequest()
    stall_secs: float = 0.0
    page: tuple[str, int] | None = None


def run_job(options: RunOptions, engine: Engine, environ: Mapping[str, str], view: JobView) -> int:
    """Run a job until it ends. Must be called from the main thread.

    Args:
        options: The options of the run.
        engine: Starts the tasks; it is closed at the end.
        environ: The variables that the tasks are handed.
        view: Shows the job to the user.

    Returns:
        0 if every task succeeded; the exit code of the task that caused a failure, or 128 plus the number of
        its signal; 128 plus the signal's number if a signal ended the job.

    Raises:
        ClusterError: A machine has fewer GPUs than the tasks need, or too few cores or too little memory
            for them, or the engine finds no place for them. Nothing was started.
        CredentialsError: The environment names a secret or certificates that cannot be used.
        OSError: The log folder cannot be written, here or on the object store. Nothing was started.
    """
    with ExitStack() as stack:
        stack.callback(view.close)
        stack.callback(engine.close)
        places = _checked_places(options, engine)
        log_dir = options.log_dir or _new_log_dir()
        log_dir.mkdir(parents=True, exist_ok=True)
        run = _Run(options, engine, places, environ, view, log_dir)
        try:
            publish(os.fspath(log_dir))
        except StorageError:
            shutil.rmtree(log_dir)  # or it would be sent again at the end
            raise
        code = 1
        try:
            code = run.until_end()
            return code
        finally:
            engine.close(code)  # it may still write logs
            _publish_rest(log_dir, view)
            if options.log_dir is None:
                if code == 0 or not any(log_dir.glob("*.log")):
                    shutil.rmtree(log_dir)


def describe_job(options: RunOptions, engine: Engine, environ: Mapping[str, str]) -> str:
    """Return what a cluster would be handed, or each task given, and where; arguments as above.

    Nothing is started.
    """
    with contextlib.closing(engine):
        if text := engine.check(options.shape.tasks, options.request, options.program):
            return text
        places = _checked_places(options, engine)
        plans = plan_job(options.shape, places, job_id="JOB-1", environ=environ, cpus=options.request.cpus)
        given = sorted(name for name in environ if name not in os.environ or not engine.is_local)
        lines = [f"program: {' '.join(options.program)}", f"handed to all: {', '.join(given)}"]
        for plan in plans:
            place = places[plan.task]
            cores = "all" if plan.cores is None else ",".join(map(str, plan.cores))
            lines.append(f"{plan.task} on {place.host or 'this machine'} at {place.address}, cores: {cores}")
            lines += [f"  {name}={value}" for name, value in plan.environment.items()]
        return "\n".join(lines)


def _checked_places(options: RunOptions, engine: Engine) -> Mapping[Task, Place]:
    """Return the places for a job's tasks.

    Raises:
        ClusterError: There are none, or they are too small.
    """
    places = engine.place(options.shape.tasks, options.request, options.program)
    for tasks, machine in tasks_of_hosts(places):
        name = places[tasks[0]].host
        if not options.oversubscribe:
            check_room(len(tasks), machine, name)
        if not engine.allots:
            check_request(tasks, machine, options.request, name)
    return places


def _publish_rest(log_dir: Path, view: JobView) -> None:
    """Send what an object store has not got yet of the logs."""
    try:
        publish(os.fspath(log_dir))
    except StorageError as exc:
        view.say(f"{exc}. What is not there of the logs stays in {log_dir}.")


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
    """Runs the tasks of one job, and keeps their last known states."""

    def __init__(
        self,
        options: RunOptions,
        engine: Engine,
        places: Mapping[Task, Place],
        environ: Mapping[str, str],
        view: JobView,
        log_dir: Path,
    ) -> None:
        self._options = options
        self._engine = engine
        self._places = places  # those of this attempt; none between two
        self._environ = dict(environ)
        self._view = view
        self._log_dir = log_dir
        self._name = uuid.uuid4().hex[:8]
        self._job = Job(
            options.shape.tasks,
            policy=LimitedRestarts(0 if engine.manifest else options.restarts),
            grace_secs=options.grace_secs,
            elastic=options.shape.is_elastic,
            hosts_return=engine.hosts_return,
        )
        self._selector = selectors.DefaultSelector()
        self._signals = SignalInbox()
        self._logs: dict[Task, TaskLog] = {}  # of the last start of each task
        self._conditions: dict[Task, TaskCondition] = {}  # the last of each
        self._addresses: dict[Task, str] = {}
        self._hosts: dict[Task, str] = {}
        self._running: set[Task] = set()
        self._received: list[int] = []  # the signals that came while tasks were started
        self._not_started: list[Task] = []  # because of them
        self._failed: list[job.TaskEnded] = []  # of tasks for which there was no place
        self._states: dict[Task, str] = {}
        self._starts: Counter[Task] = Counter()
        self._started_at: dict[Task, float] = {}
        self._interrupted: set[Task] = set()  # those that got SIGTERM in place of SIGINT
        shape, trains = options.shape, options.shape.workers + options.shape.chief
        self._recorder = Recorder(
            self._name,
            options.program,
            log_dir,
            options.stall_secs,
            scales=None if shape.least is None else (shape.least, trains),
        )
        self._known: dict[Task, Progress] = {}  # the last that each task has reported
        self._keeps_logs = True
        self._poller: StatusPoller | None = None
        self._shown_at = self._asked_at = 0.0
        self._clock = RunningClock()  # else a frozen job would find all its deadlines over

    def until_end(self) -> int:
        """Run the job, and return the launcher's exit code."""
        code = 1
        try:
            code = self._until_end()
            return code
        finally:
            self._recorder.end(self._records(), code)

    def _until_end(self) -> int:
        with ExitStack() as stack:
            stack.enter_context(self._signals)
            stack.enter_context(self._selector)
            stack.callback(self._clean_up)
            credentials = Credentials.from_environ(self._environ)
            self._poller = stack.enter_context(StatusPoller(credentials, self._view.rows_every_secs))
            self._view.begin(remote_url(os.fspath(self._log_dir)))
            if self._options.page is not None:
                self._open_page(stack, *self._options.page)
            self._selector.register(self._signals, selectors.EVENT_READ)
            self._selector.register(self._engine, selectors.EVENT_READ)
            actions = self._job.start()
            while True:
                for action in actions:
                    if isinstance(action, job.Finish):
                        self._keeps_logs = self._options.log_dir is not None or action.code != 0
                        self._show()
                        if action.code != 0:
                            self._job.log.write(self._log_dir / LAUNCHERS_LOG)
                            self._view.say(f"Logs: {remote_url(os.fspath(self._log_dir))}")
                        else:
                            self._view.end()
                        return action.code
                    self._carry_out(action)
                actions = self._job.handle(self._wait(), self._clock())

    def _open_page(self, stack: ExitStack, host: str, port: int) -> None:
        """Serve the page of the job until it ends, and say where."""
        # Imported late: what is installed for the page alone.
        from muster.launch.page import PageServer

        secret = Credentials.from_environ(self._environ).secret
        page = stack.enter_context(PageServer(self._log_dir, host, port, secret))
        self._recorder.show_page(page.address)  # others may read the record
        self._view.say(f"Page: {page.url}")

    def _carry_out(self, action: job.Action) -> None:
        match action:
            case job.Start(tasks, attempt):
                self._start(tasks, attempt)
            case job.Send(tasks, number):
                for task in tasks:
                    if number == signal.SIGINT and self._imports(task):
                        self._interrupted.add(task)
                        self._engine.send(task, signal.SIGTERM)
                    else:
                        self._engine.send(task, number)
            case job.Say(text):
                self._view.say(text)
                self._recorder.event(text)
            case job.Blame(task, code, reason):
                lines = self._logs[task].last_lines(_BLAMED_LINES) if task in self._logs else []
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
        shape = self._options.shape
        try:
            if not self._places:
                with self._signals.interrupting():
                    self._places = self._engine.place(
                        shape.tasks, self._options.request, self._options.program
                    )
            plans = plan_job(
                shape, self._places, job_id=job_id, environ=self._environ, cpus=self._options.request.cpus
            )
        except ClusterError as exc:
            if attempt == 1:
                raise
            first, *others = tasks  # a host is gone since the attempt before
            self._failed.append(job.TaskEnded(first, EXIT_LOST, Termination(first, str(exc)), lost=True))
            self._not_started += others
            return
        except KeyboardInterrupt:  # the signal is received next
            self._not_started += tasks
            return
        again = {STARTED_ALONE: "1"} if shape.is_elastic and {*tasks} != {*shape.tasks} else {}
        for plan in plans:
            task = plan.task
            if task not in tasks:
                continue
            self._received += self._signals.receive()
            if self._received:
                self._not_started.append(task)
                continue
            began = time.strftime("%Y-%m-%d %H:%M:%S")
            command = " ".join([sys.executable, *self._options.program])
            path = self._log_dir / f"{task.type}-{task.index}.log"
            self._logs[task] = TaskLog(path, f"{began} {task} of job {job_id}: {command}")
            self._engine.start(
                TaskStart(
                    task=task,
                    program=self._options.program,
                    environment={**self._environ, **plan.environment, **again},
                    cores=plan.cores,
                    log=path,
                    snapshots=self._options.restarts > 0 and shape.ps > 0,
                )
            )
            self._note_host(task)
            self._running.add(task)
            self._starts[task] += 1
            self._started_at[task] = time.monotonic()
            self._states[task] = "running"
            self._addresses[task] = self._places[task].address
        self._conditions |= self._engine.conditions()
        if self._poller is not None:
            self._poller.addresses = {task: self._addresses[task] for task in self._running}

    def _imports(self, task: Task) -> bool:
        """Return whether a task may still import modules: SIGINT would get the traceback of an import."""
        if time.monotonic() - self._started_at[task] > _IMPORTS_SECS or self._logs[task].last_lines(1):
            return False
        return self._poller is None or task not in self._poller.answers

    def _note_host(self, task: Task) -> None:
        """Say it if a task is not on the host that it was on."""
        before, self._hosts[task] = self._hosts.get(task), self._places[task].host
        if before not in (None, self._places[task].host):
            self._view.say(f"{task} runs on {self._places[task].host} now, and not on {before}.")

    def _wait(self) -> Sequence[job.Event]:
        """Wait for a moment, show new lines of the tasks, and return the events."""
        now = self._clock()
        timeout = _LOOK_SECS if self._job.deadline is None else min(_LOOK_SECS, self._job.deadline - now)
        self._selector.select(max(timeout, 0))
        events: list[job.Event] = [self._note_exit(exit) for exit in self._engine.events()]
        for text in self._engine.news():
            self._view.say(text)
            self._recorder.event(text)
        for task in self._running:
            self._show_lines(task)
        self._conditions |= (conditions := self._engine.conditions())
        running = {task: conditions[task] for task in conditions if task in self._running}
        events.append(job.TasksStopped(tuple(task for task, each in running.items() if each.stopped)))
        events += self._failed
        self._failed = []
        if self._not_started:
            events.append(job.NotStarted(tuple(self._not_started)))
            self._not_started = []
        events.append(job.Apart(tuple(task for task, each in running.items() if not each.joined)))
        if self._job.is_ending:
            events.append(job.Finishing(tuple(task for task, each in running.items() if each.finishing)))
        waits = self._engine.hosts_return and self._options.shape.is_elastic and not self._job.is_ending
        if waits and (back := self._engine.returned()):
            events.append(job.Returned(tuple(back)))
        if (count := self._recorder.wanted_workers()) is not None:
            events.append(job.Scaled(count))
        if self._job.lacks_workers and self._chief_coordinates():
            events.append(job.Coordinates())
        events += map(job.Received, [*self._received, *self._signals.receive()])
        self._received = []
        if time.monotonic() - self._shown_at >= _SHOW_SECS:
            self._show()
        return events

    def _note_exit(self, ended: TaskExit) -> job.TaskEnded:
        """Take a task for ended, show its last lines, and return the event."""
        task = ended.task
        self._running.discard(task)
        self._show_lines(task, everything=True)
        if ended.progress is not None:
            self._known = {**self._known, task: ended.progress}
        code = ended.code
        if task in self._interrupted and code in (-signal.SIGTERM, 128 + signal.SIGTERM):
            code = -signal.SIGINT
        self._states[task] = "lost" if ended.lost else self._job.describe_end(task, code)
        return job.TaskEnded(task, code, ended.told, ended.joined, ended.lost, ended.evicted)

    def _show_lines(self, task: Task, *, everything: bool = False) -> None:
        if lines := self._logs[task].new_lines(everything=everything):
            self._view.lines(task, lines)

    def _chief_coordinates(self) -> bool:
        """Ask the chief, once a second, whether it is a coordinator."""
        chief = Task(TaskType.CHIEF, 0)
        if chief not in self._running or time.monotonic() - self._asked_at < _ASK_SECS:
            return False
        credentials = Credentials.from_environ(self._environ)
        try:
            status = query_status(self._addresses[chief], _ANSWER_SECS, credentials, task=chief)
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
        rows = self._recorder.look(self._records())
        self._view.show(rows, remote_url(os.fspath(self._log_dir)) if self._keeps_logs else None)
        if text := self._recorder.new_stalls():
            path = self._poller.write_stacks(self._log_dir, text)
            self._view.say(f"{text}. Where the threads of all tasks are: {remote_url(os.fspath(path))}")
        self._shown_at = time.monotonic()

    def _records(self) -> list[TaskRecord]:
        """Return what is known of each task that was started."""
        answers = {} if self._poller is None else self._poller.answers
        hosts = {} if self._poller is None else self._poller.hosts
        here = socket.gethostname() if self._engine.is_local else ""
        return [
            TaskRecord(
                type=task.type,
                index=task.index,
                state=self._conditions[task].state if task in self._running else state,
                pid=self._conditions[task].pid if task in self._conditions else 0,
                address=self._addresses[task],
                log=str(self._logs[task].path.absolute()),
                starts=self._starts[task],
                answers=task in self._running and task in answers,
                progress=self._known.get(task),
                host=self._hosts[task] or hosts.get(task, here),
            )
            for task, state in self._states.items()
        ]

    def _clean_up(self) -> None:
        """End all that is left of this attempt."""
        self._places = {}
        for task in self._running:  # only when an error ends the launcher
            self._logs[task].close()
        self._running.clear()
        if not self._engine.end_attempt():
            look = "kubectl get pods" if self._engine.manifest else "ps"
            self._view.say(f"Some processes that tasks have started cannot be killed: look with {look}.")
