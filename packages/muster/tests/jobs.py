"""Jobs of real processes on loopback, started by hand: each task with its TF_CONFIG and its log."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

import pytest

from muster.cluster.roster import TERMINATION_LOG, Termination, read_termination

# How long, in seconds, a job may take that is not expected to fail; and one that knows that it must end.
DEADLINE = 150.0
SOON = 15.0


_given: set[str] = set()


def free_addresses(count: int) -> list[str]:
    """Addresses on loopback where nothing listens, and which this process was not given before.

    The system may give a port again that was let go, and two tasks of a cluster would have the same one.
    """
    with contextlib.ExitStack() as held:
        found: list[str] = []
        while len(found) < count:
            sock = held.enter_context(socket.create_server(("127.0.0.1", 0)))
            address = f"127.0.0.1:{sock.getsockname()[1]}"
            if address not in _given:
                found.append(address)
                _given.add(address)
        return found


# How to compile programs that run for moments. To optimize them, and to generate code for fused operations
# the way that makes them faster, took a quarter of the time of the tests that run several at a time.
QUICKLY = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
    # XLA has had no other way since JAX 0.11.
    **({"xla_cpu_use_fusion_emitters": False} if version("jax") < "0.11" else {}),
}
QUICKLY_BY_FLAGS = " ".join(f"--{name}={str(value).lower()}" for name, value in QUICKLY.items())

# What the processes that servers have started, and that have ended, took of the processors, in seconds.
ended_secs = 0.0


class Server:
    """Starts processes that have JAX, Keras and muster imported already: see preloaded.py.

    Args:
        folder: Where they keep what they compile, for each other.
        module: The module of muster that they have imported.
        python: Runs them.
        environment: That in which muster is imported; None for this process', without flags for XLA.
    """

    def __init__(
        self,
        folder: Path,
        module: str = "muster.estimator",
        python: str | Path = sys.executable,
        environment: dict[str, str] | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            [python, Path(__file__).with_name("preloaded.py"), folder, module],
            env=os.environ | {"XLA_FLAGS": ""} if environment is None else environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._process.wait(DEADLINE)  # it goes on as another one
        self._unread = b""
        self._codes: dict[int, int] = {}

    def start(
        self, arguments: list[str], environment: dict[str, str], log: Path, folder: Path | None = None
    ) -> int:
        """The id of a process that runs a program, in a folder, if one is given."""
        log.write_bytes(b"")  # it may be read before the process has opened it
        place = None if folder is None else str(folder)
        asked = json.dumps([arguments, environment, str(log.absolute()), place]).encode() + b"\n"
        self._process.stdin.write(asked)
        self._process.stdin.flush()
        while len(told := self._hear(None)) != 1:
            pass
        return told[0]

    def code(self, process: int, within: float) -> int | None:
        """The exit code of a process, once it has ended; None if it does not in so many seconds."""
        deadline = time.monotonic() + within
        while process not in self._codes:
            if not self._hear(max(0.0, deadline - time.monotonic())):
                break
        return self._codes.get(process)

    def run(self, arguments: list[str], environment: dict[str, str], folder: Path) -> str:
        """Run a program in a folder, which must succeed within the deadline, and return its output."""
        log = folder / "output.log"
        process = self.start(arguments, environment, log, folder)
        code = self.code(process, DEADLINE)
        if code is None:
            os.kill(process, signal.SIGKILL)
            self.code(process, DEADLINE)
        printed = log.read_text()
        assert code == 0, f"{code}: {printed[-6000:]}"
        return printed

    def _hear(self, secs: float | None) -> list[int]:
        """The next thing that is told, if any is in so many seconds: a process, or one that has ended."""
        global ended_secs
        output = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            if not select.select([output], [], [], secs)[0]:
                return []
            received = os.read(output, 1 << 16)
            if not received:
                raise RuntimeError("preloaded.py has ended; see its error above")
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        process, *ended = map(int, line.split())
        if ended:
            self._codes[process], milliseconds = ended
            ended_secs += milliseconds / 1000
        else:
            self._codes.pop(process, None)  # of an earlier one by that id
        return [process, *ended]

    def stop(self) -> None:
        self._process.stdin.close()
        with self._process.stdout:
            self._process.stdout.read()  # to its end


_server: Server | None = None


@contextlib.contextmanager
def preloaded(folder: Path) -> Iterator[None]:
    """Let processes be started in this block; they keep what they compile in a folder."""
    global _server
    _server = Server(folder)
    try:
        yield
    finally:
        _server.stop()
        _server = None


class Process:
    """A process that runs a Python program; in this, as one of subprocess.Popen.

    Args:
        arguments: the program's file, and its arguments.
        environment: its environment.
        log: where its output goes.
    """

    def __init__(self, arguments: list[object], environment: dict[str, str], log: Path) -> None:
        self._server = _server
        self.pid = self._server.start(list(map(str, arguments)), dict(environment), log)

    def poll(self) -> int | None:
        return self._server.code(self.pid, 0.0)

    def wait(self, timeout: float) -> int:
        code = self._server.code(self.pid, timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        """Send SIGSTOP, and wait until it has taken effect: until then a thread goes on, and may answer."""
        self.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + DEADLINE
        while not _stands_still(self.pid):
            assert time.monotonic() < deadline, f"process {self.pid} does not stop"
            time.sleep(0.001)


def _stands_still(process: int) -> bool:
    """Whether all threads of a process are stopped."""
    try:
        stats = [(each / "stat").read_text() for each in Path(f"/proc/{process}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):  # a thread has ended meanwhile
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


class Task:
    """A process of a job.

    Args:
        name: such as ``"worker 1"``.
        arguments: the program and its arguments.
        environment: its environment.
        log: where its output goes.
    """

    def __init__(self, name: str, arguments: list[object], environment: dict[str, str], log: Path) -> None:
        self.name = name
        self._log = log
        self._end = log.with_suffix(".end")
        self.process = Process(arguments, environment | {TERMINATION_LOG: str(self._end.absolute())}, log)

    @property
    def log(self) -> str:
        """All that it has written."""
        return self._log.read_text()

    @property
    def last_line(self) -> str:
        """The end of what it has written: what a user sees first."""
        return self.log.rstrip().rpartition("\n")[2]

    @property
    def told(self) -> Termination | None:
        """Why it has ended, and because of whom, as its launcher would read it."""
        return read_termination(self._end)

    def code(self, within: float = DEADLINE) -> int:
        """Its exit code; its log if it does not end in time."""
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            return pytest.fail(f"{self.name} did not end within {within} s:\n{self.log[-5000:]}")


class Job:
    """The tasks of a cluster; those still running at the end of the block are killed.

    Args:
        folder: for logs, and what the tasks write.
        command: a script and its arguments.
        tasks: how many tasks of each kind the cluster has, such as ``worker=2``.
    """

    def __init__(self, folder: Path, command: list[object], **tasks: int) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._command = command
        self.cluster = {kind: free_addresses(count) for kind, count in tasks.items()}
        self.tasks: list[Task] = []

    def start(
        self,
        kind: str,
        index: int = 0,
        options: dict[str, object] | None = None,
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> Task:
        """Start a task.

        Args:
            kind: its type; need not be one of the cluster's.
            index: its index.
            options: handed to the script as its last argument, in JSON; None: it takes none.
            environ: further variables of its environment.
        """
        config = {"cluster": self.cluster, "task": {"type": kind, "index": index}}
        environment = os.environ | {"TF_CONFIG": json.dumps(config), "XLA_FLAGS": QUICKLY_BY_FLAGS, **environ}
        command = self._command + ([] if options is None else [json.dumps(options)])
        log = self.folder / f"{len(self.tasks)}-{kind}-{index}.log"
        self.tasks.append(Task(f"{kind} {index}", command, environment, log))
        return self.tasks[-1]

    def all_end_well(self) -> None:
        """Wait for all tasks, which must succeed."""
        for task in self.tasks:
            assert task.code() == 0, f"{task.name}:\n{task.log[-5000:]}"

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *error: object) -> None:
        for task in self.tasks:
            task.process.kill()
            task.process.wait(DEADLINE)
