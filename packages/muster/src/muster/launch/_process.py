"""The processes of a job: tasks with their sockets and logs, and the keeper; and the launcher's signals."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from muster.cluster.roster import (
    EVENTS,
    LAST_PROGRESS,
    TERMINATION_LOG,
    Progress,
    Termination,
    read_last_progress,
    read_termination,
)
from muster.launch import _child, _keeper
from muster.launch._lines import LineReader, last_lines
from muster.launch._plan import TaskPlan
from muster.net import BACKLOG


class Port:
    """A free port of the loopback, reserved for a task until `close`.

    Nobody else gets it while no process listens there, before a task is started again.
    """

    def __init__(self) -> None:
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # or else nobody could listen
        self._holder.bind(("127.0.0.1", 0))

    @property
    def address(self) -> str:
        """The address, ``host:port``."""
        host, port = self._holder.getsockname()
        return f"{host}:{port}"

    def listen(self) -> socket.socket:
        """Return a socket that listens there, and that children inherit."""
        listener = socket.create_server(self._holder.getsockname(), backlog=BACKLOG)
        listener.set_inheritable(True)
        return listener

    def close(self) -> None:
        """Let others have the port; who listens there goes on."""
        self._holder.close()


_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of whatever a child of this process leaves behind, so that the keeper finds it."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reap_orphans(children: set[int]) -> None:
    """Collect adopted processes that have ended, and leave those of this process alone.

    Args:
        children: The processes that it has started itself.
    """
    with contextlib.suppress(ChildProcessError):  # there are none
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid in children:
                return  # the next time, when it has been collected
            os.waitpid(ended.si_pid, 0)


class TaskProcess:
    """A running task, in a new session, with its output in a log file.

    It must be started from the main thread: Linux sends a child the signal of its parent's death when the
    *thread* ends that started it.

    Args:
        plan: The plan of the task.
        listener: Its listening socket, passed to it and closed here.
        command: The program and its arguments.
        environ: The launcher's environment, to which the plan's variables are added.
        log: The log file, which its output is appended to.

    Attributes:
        plan: As given.
        log: As given.
    """

    def __init__(
        self,
        plan: TaskPlan,
        listener: socket.socket,
        *,
        command: Sequence[str],
        environ: Mapping[str, str],
        log: Path,
    ) -> None:
        self.plan = plan
        self.log = log
        self._termination = log.with_suffix(".end")
        self._progress = log.with_suffix(".last")
        self._termination.unlink(missing_ok=True)
        self._progress.unlink(missing_ok=True)
        for events in log.parent.glob(f"{log.stem}.*{EVENTS}"):
            events.unlink(missing_ok=True)
        cores = "-" if plan.cores is None else ",".join(map(str, plan.cores))
        with listener, log.open("ab", buffering=0) as output:
            began, job_id = time.strftime("%Y-%m-%d %H:%M:%S"), plan.environment["MUSTER_JOB_ID"]
            output.write(f"=== {began} {plan.task} of job {job_id}: {' '.join(command)}\n".encode())
            self._log_offset = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _child.__file__, str(os.getpid()), cores, *command],
                env={
                    **environ,
                    **plan.environment,
                    "MUSTER_LISTEN_FD": str(listener.fileno()),
                    TERMINATION_LOG: str(self._termination.absolute()),
                    LAST_PROGRESS: str(self._progress.absolute()),
                },
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._descriptor = os.pidfd_open(self._process.pid)
        self._reader = LineReader(log, self._log_offset)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def fileno(self) -> int:
        """Return a descriptor that is readable when the process has ended."""
        return self._descriptor

    def send(self, number: int) -> None:
        """Send a signal to the task, not to what it has started."""
        with contextlib.suppress(ProcessLookupError):  # it ended before it was collected
            signal.pidfd_send_signal(self._descriptor, number)

    @property
    def is_finishing(self) -> bool:
        """True if it handles SIGTERM: then it finishes its step, or saves, before it ends."""
        return _keeper.is_finishing(self._process.pid)

    @property
    def has_joined(self) -> bool:
        """True if it has joined its job, or has recorded why it ends."""
        return self._termination.exists()

    @property
    def is_stopped(self) -> bool:
        """True if it is stopped by SIGSTOP."""
        return _keeper.is_stopped(self._process.pid)

    def new_lines(self) -> list[str]:
        """Return the lines that the task has written since the last call."""
        return self._reader.read()

    def collect(self) -> tuple[int, list[str], Termination | None, Progress | None]:
        """Collect a task that has ended, and kill what is left of its process group.

        Returns:
            Its return code, negative for a signal, its lines since the last read, why it says that it has
            ended, and how far it says that it has come.
        """
        # Until it is waited for, its id cannot belong to another group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        os.close(self._descriptor)
        lines = self._reader.read(everything=True)
        self._reader.close()
        told = read_termination(self._termination)
        self._termination.unlink(missing_ok=True)
        progress = read_last_progress(self._progress)
        self._progress.unlink(missing_ok=True)
        return code, lines, told, progress

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines that this process wrote."""
        return last_lines(self.log, self._log_offset, count)


class KeeperProcess:
    """The process that ends a job's remaining processes when the job ends or the launcher dies.

    See ``_keeper.py``.

    Args:
        job_id: The value of ``MUSTER_JOB_ID`` in the job's processes.
        grace_secs: How long they may take to end after the launcher's death, in seconds.
    """

    def __init__(self, job_id: str, grace_secs: float) -> None:
        # The first process of a container is sent all orphans, not only those of the job.
        adopts = os.getpid() != 1 and not _keeper.has_children(os.getpid())
        reader, self._writer = os.pipe()
        arguments = [str(reader), str(os.getpid()), str(int(adopts)), job_id, str(grace_secs)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _keeper.__file__, *arguments],
                pass_fds=[reader],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(reader)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def add(self, task: TaskProcess) -> None:
        """Tell it of a task that has been started."""
        self._tell(f"{task.pid}\n")

    def finish(self) -> bool:
        """Kill what is left of the job, and wait until it is gone; returns whether all of it is."""
        self._tell("end\n")
        os.close(self._writer)
        return self._process.wait() != 1

    def _tell(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the keeper was killed
            os.write(self._writer, text.encode())


class SignalInbox:
    """Collects SIGINT, SIGTERM and SIGHUP while it is entered, instead of their effects.

    A signal that was ignored before, such as SIGHUP under ``nohup``, stays ignored.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, lambda number, frame: None)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._reader.close()
        self._writer.close()

    def fileno(self) -> int:
        """Return a descriptor that is readable when a signal has come."""
        return self._reader.fileno()

    def receive(self) -> list[int]:
        """Return the numbers of the signals that have come since the last call."""
        with contextlib.suppress(BlockingIOError):
            return list(self._reader.recv(64))
        return []
