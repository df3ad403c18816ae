"""Runs a job on this machine: carries out what `Job` decides, and tells it what happens."""

import dataclasses
import selectors
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from muster.cluster import Task
from muster.launch._job import (
    Action,
    Blame,
    CleanUp,
    Ended,
    Event,
    Finish,
    Job,
    Received,
    Say,
    Send,
    Start,
    describe_end,
)
from muster.launch._machine import Machine
from muster.launch._plan import JobShape, plan_job
from muster.launch._process import Keeper, SignalInbox, TaskProcess, address_of, headline, listen
from muster.launch._status import StatusPoller
from muster.launch._view import Row, View

_LOOK_SECS = 0.1  # how often the logs are read
_SHOW_SECS = 0.5  # how often the table is drawn
_BLAMED_LINES = 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run a job.

    Args:
        shape: Which tasks there are.
        script: The user's program, a Python file.
        arguments: What it is called with.
        restarts: How often to start again after a failure.
        grace_secs: How long tasks may take to end when they are told to.
        log_dir: Where to keep the tasks' output; None: in a temporary folder, removed if all ends well.
    """

    shape: JobShape
    script: Path
    arguments: tuple[str, ...]
    restarts: int
    grace_secs: float
    log_dir: Path | None


def run_job(options: RunOptions, machine: Machine, environ: Mapping[str, str], view: View) -> int:
    """Run a job until it ends. To be called from the main thread.

    Args:
        options: What to run, and how.
        machine: What the tasks share.
        environ: The environment that the tasks inherit.
        view: What shows the job.

    Returns:
        0 if every task ended well; the exit code of the task that is the cause of a failure, or 128 and the
        number of its signal; 128 and the signal's number if the job was ended by one.

    Raises:
        ClusterError: The machine does not have what the tasks need. Nothing was started.
        OSError: The log folder cannot be written.
    """
    if options.log_dir is not None:
        options.log_dir.mkdir(parents=True, exist_ok=True)
        return _Run(options, machine, environ, view, options.log_dir).until_end()
    log_dir = Path(tempfile.mkdtemp(prefix="muster-"))
    code = 1
    try:
        code = _Run(options, machine, environ, view, log_dir).until_end()
    finally:
        if code == 0 or not any(log_dir.iterdir()):
            shutil.rmtree(log_dir)
    return code


class _Run:
    """The processes of one job, and what was last seen of them."""

    def __init__(
        self, options: RunOptions, machine: Machine, environ: Mapping[str, str], view: View, log_dir: Path
    ) -> None:
        self._options = options
        self._machine = machine
        self._environ = environ
        self._view = view
        self._log_dir = log_dir
        self._command = [sys.executable, str(options.script), *options.arguments]
        self._name = uuid.uuid4().hex[:8]
        self._job = Job(
            options.shape.tasks,
            restarts=options.restarts,
            grace_secs=options.grace_secs,
        )
        self._selector = selectors.DefaultSelector()
        self._signals = SignalInbox()
        self._keeper: Keeper | None = None
        self._processes: dict[Task, TaskProcess] = {}  # the last of each task
        self._running: set[Task] = set()
        self._states: dict[Task, str] = {}
        self._poller: StatusPoller | None = None
        self._shown_at = 0.0

    def until_end(self) -> int:
        """Run, and return the launcher's exit code."""
        with ExitStack() as stack:
            stack.callback(self._view.close)
            stack.enter_context(self._signals)
            stack.enter_context(self._selector)
            stack.callback(self._clean_up)
            if self._view.wants_rows:
                self._poller = stack.enter_context(StatusPoller())
            self._selector.register(self._signals, selectors.EVENT_READ)
            actions = self._job.start()
            while True:
                for action in actions:
                    if isinstance(action, Finish):
                        self._show()
                        if action.code != 0:
                            self._view.say(f"Logs: {self._log_dir}")
                        return action.code
                    self._carry_out(action)
                actions = self._job.handle(self._wait(), time.monotonic())

    def _carry_out(self, action: Action) -> None:
        match action:
            case Start(tasks, attempt):
                self._start(tasks, attempt)
            case Send(tasks, number):
                for task in tasks:
                    self._processes[task].send(number)
            case Say(text):
                self._view.say(text)
            case Blame(task, code):
                lines = self._processes[task].last_lines(_BLAMED_LINES)
                told = "Its last lines:" if lines else "It has written nothing."
                self._view.say("\n".join([f"{task} failed: {describe_end(code)}. {told}", *lines]))
            case CleanUp():
                self._clean_up()

    def _start(self, tasks: Iterable[Task], attempt: int) -> None:
        """Start tasks: all of an attempt, or one alone, whose peers keep their addresses."""
        job_id = f"{self._name}-{attempt}"
        if self._keeper is None:
            self._keeper = Keeper(job_id, self._options.grace_secs)
        with ExitStack() as unused:
            listeners = {task: unused.enter_context(listen()) for task in tasks}
            addresses = {task: process.plan.address for task, process in self._processes.items()}
            addresses |= {task: address_of(listener) for task, listener in listeners.items()}
            plans = plan_job(
                self._options.shape, self._machine, addresses=addresses, job_id=job_id, environ=self._environ
            )
            for plan in plans:
                task = plan.task
                if task not in listeners:
                    continue
                self._processes[task] = TaskProcess(
                    plan,
                    listeners[task],
                    command=self._command,
                    environ=self._environ,
                    log=self._log_dir / f"{task.type}-{task.index}.log",
                    headline=headline(job_id, task, self._command),
                )
                self._running.add(task)
                self._states[task] = "running"
                self._selector.register(self._processes[task], selectors.EVENT_READ)
        if self._poller is not None:
            self._poller.watch({task: self._processes[task].plan.address for task in self._running})

    def _wait(self) -> Sequence[Event]:
        """Wait for something to happen, but not long; show what tasks have written; return what happened."""
        now = time.monotonic()
        timeout = _LOOK_SECS if self._job.deadline is None else min(_LOOK_SECS, self._job.deadline - now)
        ready = [key.fileobj for key, _ in self._selector.select(max(timeout, 0))]
        events: list[Event] = []
        for task in [task for task in self._processes if task in self._running]:
            process = self._processes[task]
            if process in ready:
                self._selector.unregister(process)
                self._running.discard(task)
                code, lines = process.collect()
                self._states[task] = "done" if code == 0 else describe_end(code)
                events.append(Ended(task, code))
            else:
                lines = process.new_lines()
            if lines:
                self._view.lines(task, lines)
        events += map(Received, self._signals.receive())
        if time.monotonic() - self._shown_at >= _SHOW_SECS:
            self._show()
        return events

    def _show(self) -> None:
        if not self._view.wants_rows:
            return
        answers = self._poller.answers() if self._poller is not None else {}
        rows = [
            Row(task=task, state=state, progress=answers.get(task) if task in self._running else None)
            for task, state in self._states.items()
        ]
        self._view.show(rows)
        self._shown_at = time.monotonic()

    def _clean_up(self) -> None:
        """End whatever carries this attempt's id, and forget it."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.finish()
        # Left only when an error ends the launcher: the keeper has killed them.
        for task in self._running:
            self._processes[task].collect()
        self._running.clear()
