"""Jobs of real processes on loopback, started by hand: each task with its TF_CONFIG and its log."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

# How long, in seconds, a job may take that is not expected to fail; and one that knows that it must end.
DEADLINE = 150.0
SOON = 15.0


def free_addresses(count: int) -> list[str]:
    """Addresses on loopback where nothing listens."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{sock.getsockname()[1]}" for sock in sockets]


class Task:
    """A process of a job.

    Args:
        name: such as ``"worker 1"``.
        command: what to run.
        environment: its environment.
        log: where its output goes.
    """

    def __init__(self, name: str, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def log(self) -> str:
        """All that it has written."""
        return self._log.read_text()

    @property
    def last_line(self) -> str:
        """The end of what it has written: what a user sees first."""
        return self.log.rstrip().rpartition("\n")[2]

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
        self._command = [sys.executable, *map(str, command)]
        self.cluster = {kind: free_addresses(count) for kind, count in tasks.items()}
        self.tasks: list[Task] = []

    def start(self, kind: str, index: int = 0, options: dict[str, object] | None = None) -> Task:
        """Start a task.

        Args:
            kind: its type; need not be one of the cluster's.
            index: its index.
            options: handed to the script as its last argument, in JSON; None: it takes none.
        """
        config = {"cluster": self.cluster, "task": {"type": kind, "index": index}}
        environment = os.environ | {"TF_CONFIG": json.dumps(config), "XLA_FLAGS": ""}
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
