"""Poll the status of tasks, on a separate thread, because a stalled task does not answer."""

import threading
from collections.abc import Mapping
from typing import Self

from muster._errors import StrayPeerError
from muster.cluster import Task
from muster.cluster.roster import Progress, query_status
from muster.net import Credentials

_EVERY_SECS = 1.0
_TIMEOUT_SECS = 0.5


class StatusPoller:
    """Queries the progress of each task once a second while it is entered.

    Its thread and that of its owner replace the attributes as a whole, and never change them in place.

    Args:
        credentials: Those of the job.

    Attributes:
        addresses: The address of each task to query.
        answers: The progress of the tasks that answered the last query.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.addresses: Mapping[Task, str] = {}
        self.answers: Mapping[Task, Progress] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="muster-status")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_SECS):
            answers = {}
            for task, address in self.addresses.items():
                try:
                    status = query_status(address, _TIMEOUT_SECS, self._credentials, task=task)
                    answers[task] = status.progress
                except (OSError, StrayPeerError):
                    continue
            self.answers = answers
