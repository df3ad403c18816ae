"""The processes of a job: tasks with their sockets and logs, and the keeper that ends what they leave."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from muster.cluster import Task
from muster.launch import _child, _keeper
from muster.launch._lines import LineReader, last_lines
from muster.launch._plan import TaskPlan

LOOPBACK = "127.0.0.1"


def listen() -> socket.socket:
    """Return a socket that listens on a free port of the loopback, which nobody else gets from now on."""
    listener = socket.create_server((LOOPBACK, 0))
    listener.set_inheritable(True)
    return listener


def address_of(listener: socket.socket) -> str:
    """Return a listening socket's address, ``host:port``."""
    host, port = listener.getsockname()
    return f"{host}:{port}"


class TaskProcess:
    """One running task, in a session of its own, its output going to a log file.

    It has to be started from the main thread: Linux tells a child of its parent's death when the *thread*
    ends that started it.

    Args:
        plan: What the task is given.
        listener: Its listening socket, handed to it and closed here.
        command: The program and its arguments.
        environ: The environment that the plan's is laid over.
        log: Where its output goes, added to what is there.
        headline: Written to the log before.
    """

    def __init__(
        self,
        plan: TaskPlan,
        listener: socket.socket,
        *,
        command: Sequence[str],
        environ: Mapping[str, str],
        log: Path,
        headline: str,
    ) -> None:
        self.plan = plan
        self._log = log
        cores = "-" if plan.cores is None else ",".join(map(str, plan.cores))
        with listener, log.open("ab", buffering=0) as output:
            output.write(f"=== {headline}\n".encode())
            self._log_offset = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _child.__file__, str(os.getpid()), cores, *command],
                env={**environ, **plan.environment, "MUSTER_LISTEN_FD": str(listener.fileno())},
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._descriptor = os.pidfd_open(self._process.pid)
        self._reader = LineReader(log, self._log_offset)

    @property
    def task(self) -> Task:
        """The task."""
        return self.plan.task

    def fileno(self) -> int:
        """Return a descriptor that is readable when the process has ended."""
        return self._descriptor

    def send(self, number: int) -> None:
        """Send a signal to the task, not to what it has started."""
        with contextlib.suppress(ProcessLookupError):  # it ended before it was collected
            signal.pidfd_send_signal(self._descriptor, number)

    def new_lines(self) -> list[str]:
        """Return the lines that the task has written since the last call."""
        return self._reader.read()

    def collect(self) -> tuple[int, list[str]]:
        """Take leave of a task that has ended, and kill what is left of its process group.

        Returns:
            Its return code, negative for a signal, and its lines since the last look.
        """
        # Before it is waited for, its id cannot be another group's.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        os.close(self._descriptor)
        lines = self._reader.read(everything=True)
        self._reader.close()
        return code, lines

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines of what this process wrote."""
        return last_lines(self._log, self._log_offset, count)


class Keeper:
    """Ends everything that carries a job's id, when the job ends or the launcher dies: see ``_keeper.py``.

    Args:
        job_id: The value of ``MUSTER_JOB_ID`` in the job's processes.
        grace_secs: How long they may take to end by themselves after the launcher's death.
    """

    def __init__(self, job_id: str, grace_secs: float) -> None:
        reader, self._writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _keeper.__file__, str(reader), job_id, str(grace_secs)],
                pass_fds=[reader],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(reader)

    def finish(self) -> None:
        """Kill what is left of the job, and return when it is gone."""
        with contextlib.suppress(BrokenPipeError):  # somebody has killed the keeper
            os.write(self._writer, b".")
        os.close(self._writer)
        self._process.wait()


class SignalInbox:
    """While it is entered, SIGINT, SIGTERM and SIGHUP are collected instead of acted upon.

    A signal that was ignored before, as ``nohup`` has it for SIGHUP, stays ignored.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, object] = {}

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, lambda number, frame: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
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


def headline(job_id: str, task: Task, command: Sequence[str]) -> str:
    """Return the first line of a task's log."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')} {task} of job {job_id}: {' '.join(command)}"
