"""Polling the status of tasks on a separate thread, because a stalled task does not answer."""

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from muster._errors import StrayPeerError
from muster.cluster import Task
from muster.cluster.roster import Progress, query_status

_EVERY_SECS = 1.0
_TIMEOUT_SECS = 0.5


class StatusPoller:
    """Queries the progress of each task once a second while it is entered."""

    def __init__(self) -> None:
        self._addresses: Mapping[Task, str] = {}
        self._answers: Mapping[Task, Progress] = {}
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
        """Query these tasks from now on."""
        self._addresses = dict(addresses)

    def answers(self) -> Mapping[Task, Progress]:
        """Return the progress of the tasks that answered the last query."""
        return self._answers

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_SECS):
            answers = {}
            for task, address in self._addresses.items():
                try:
                    answers[task] = query_status(address, _TIMEOUT_SECS).progress
                except (OSError, StrayPeerError):
                    continue
            self._answers = answers
