"""A clock that stops while this process is suspended, so that other tasks do not seem late."""

import threading
import time


class RunningClock:
    """Counts the seconds in which this process runs.

    A suspended machine, a paused container or SIGSTOP stops all tasks of a job alike. Each one that goes on
    then finds the others silent for as long as it was itself asleep; by this clock no time has passed.
    Threads may share it.

    Args:
        asleep_secs: The process counts as asleep if nobody has asked for the time for so long, in seconds.
    """

    def __init__(self, asleep_secs: float = 5.0) -> None:
        self._limit_secs = asleep_secs
        self._lock = threading.Lock()
        self._seen = time.monotonic()
        self._asleep_secs = 0.0

    def __call__(self) -> float:
        """Return the time in seconds, from any start."""
        with self._lock:
            now = time.monotonic()
            if now - self._seen > self._limit_secs:
                self._asleep_secs += now - self._seen
            self._seen = now
            return now - self._asleep_secs
