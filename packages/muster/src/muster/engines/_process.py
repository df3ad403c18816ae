"""The processes of a job: tasks with their sockets and logs, and the keeper."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping

from muster.cluster.roster import (
    EVENTS,
    LAST_PROGRESS,
    TERMINATION_LOG,
    read_last_progress,
    read_termination,
)
from muster.engines import _child, _keeper
from muster.engines._engine import TaskCondition, TaskExit, TaskStart
from muster.net import BACKLOG


class Port:
    """A free port, reserved for a task until `close`, and its first listener.

    Nobody else gets it while no process listens there, before a task is started again.

    Args:
        interface: The IP address to listen at; ``::`` or ``0.0.0.0`` for all.
        number: The port; 0 for one that is free.

    Raises:
        OSError: The port is not free.
    """

    def __init__(self, interface: str, number: int = 0) -> None:
        self._interface = interface
        self._family = socket.AF_INET6 if ":" in interface else socket.AF_INET
        self._holder = socket.socket(self._family)
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # or else nobody could listen
        if interface == "::":
            self._holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            self._holder.bind((interface, number))
            self.number: int = self._holder.getsockname()[1]
            # Others may call as soon as they run, before the task of this port does.
            self._first: socket.socket | None = self._listener()
        except OSError:
            self._holder.close()
            raise

    def listen(self) -> socket.socket:
        """Return a socket that listens there, and that children inherit."""
        listener, self._first = self._first or self._listener(), None
        return listener

    def _listener(self) -> socket.socket:
        listener = socket.create_server(
            (self._interface, self.number),
            family=self._family,
            backlog=BACKLOG,
            dualstack_ipv6=self._interface == "::",
        )
        listener.set_inheritable(True)
        return listener

    def close(self) -> None:
        """Let others have the port; who listens there goes on."""
        self._holder.close()
        if self._first is not None:
            self._first.close()


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
        start: What is started.
        listener: Its listening socket, passed to it and closed here.
        environment: All of its variables but those that this class adds.
    """

    def __init__(self, start: TaskStart, listener: socket.socket, environment: Mapping[str, str]) -> None:
        self._task = start.task
        self._termination = start.log.with_suffix(".end")
        self._progress = start.log.with_suffix(".last")
        self._termination.unlink(missing_ok=True)
        self._progress.unlink(missing_ok=True)
        for events in start.log.parent.glob(f"{start.log.stem}.*{EVENTS}"):
            events.unlink(missing_ok=True)
        cores = "-" if start.cores is None else ",".join(map(str, start.cores))
        child = [sys.executable, "-I", "-S", _child.__file__, str(os.getpid()), cores]
        with listener, start.log.open("ab", buffering=0) as output:
            self._process = subprocess.Popen(
                [*child, sys.executable, *start.program],
                env={
                    **environment,
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
    def condition(self) -> TaskCondition:
        """How it is."""
        stopped, handles = _keeper.state_of(self._process.pid)
        return TaskCondition(
            pid=self._process.pid,
            joined=self._termination.exists(),
            stopped=stopped,
            finishing=handles and not stopped,
        )

    def collect(self) -> TaskExit:
        """Collect a task that has ended, and kill what is left of its process group."""
        joined = self._termination.exists()
        # Until it is waited for, its id cannot belong to another group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        os.close(self._descriptor)
        told = read_termination(self._termination)
        self._termination.unlink(missing_ok=True)
        progress = read_last_progress(self._progress)
        self._progress.unlink(missing_ok=True)
        return TaskExit(task=self._task, code=code, told=told, joined=joined, progress=progress)


class KeeperProcess:
    """The process that ends a job's remaining processes when the job ends or the launcher dies.

    See ``_keeper.py``.

    Args:
        mark: A variable of the job's processes, and of no others, such as ``MUSTER_JOB_ID=3f0a``.
        grace_secs: How long they may take to end after the launcher's death, in seconds.
    """

    def __init__(self, mark: str, grace_secs: float) -> None:
        # The first process of a container is sent all orphans, not only those of the job.
        adopts = os.getpid() != 1 and not _keeper.has_children(os.getpid())
        reader, self._writer = os.pipe()
        arguments = [str(reader), str(os.getpid()), str(int(adopts)), mark, str(grace_secs)]
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
