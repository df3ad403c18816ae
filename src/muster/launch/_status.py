"""Asks tasks how they are, on a thread of its own, because a task that stands still answers nobody."""

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol, Self

from muster._errors import MusterError
from muster.cluster import Task

_EVERY_SECS = 1.0
_TIMEOUT_SECS = 0.5


class TaskProgress(Protocol):
    """How far a task is; None: it does not know."""

    @property
    def state(self) -> str:
        """What it is doing."""

    @property
    def step(self) -> int | None:
        """The global step."""

    @property
    def steps_per_sec(self) -> float | None:
        """Its speed."""

    @property
    def loss(self) -> float | None:
        """The last loss."""

    @property
    def input_wait(self) -> float | None:
        """The share of its time that it waits for input, 0 to 1."""

    @property
    def waits_for(self) -> str:
        """Whom or what it waits for; empty: nothing."""


class TaskStatus(Protocol):
    """What a task says of itself."""

    @property
    def progress(self) -> TaskProgress:
        """How far it is."""


StatusQuery = Callable[[str, float], TaskStatus]
"""Asks the task at an address, waiting some seconds at most. Raises OSError or MusterError without an answer."""


class StatusPoller:
    """While it is entered, asks each task once a second.

    Args:
        query: How to ask.
    """

    def __init__(self, query: StatusQuery) -> None:
        self._query = query
        self._addresses: Mapping[Task, str] = {}
        self._answers: Mapping[Task, TaskProgress] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="muster-status")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def watch(self, addresses: Mapping[Task, str]) -> None:
        """Ask these tasks from now on."""
        self._addresses = dict(addresses)

    def answers(self) -> Mapping[Task, TaskProgress]:
        """Return what those tasks said that answered the last time."""
        return self._answers

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_SECS):
            answers = {}
            for task, address in self._addresses.items():
                try:
                    answers[task] = self._query(address, _TIMEOUT_SECS).progress
                except (OSError, MusterError):
                    continue
            self._answers = answers
