"""``tf.train.Coordinator``: lets threads of a program stop together.

Source: tensorflow/python/training/coordinator.py.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from muster import OutOfRangeError


class Coordinator:
    """Tells threads when to stop, and waits for them; the first error of one is raised in `join`.

    Args:
        clean_stop_exception_types: Errors that end the work and are none; None for `OutOfRangeError`.
    """

    def __init__(self, clean_stop_exception_types: Iterable[type[BaseException]] | None = None) -> None:
        self._clean = tuple(clean_stop_exception_types or (OutOfRangeError,))
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._threads: set[threading.Thread] = set()
        self._joined = False

    @property
    def joined(self) -> bool:
        """True if `join` has returned."""
        return self._joined

    def should_stop(self) -> bool:
        """Return whether a stop was requested."""
        return self._stop.is_set()

    def request_stop(self, ex: BaseException | tuple[object, BaseException, object] | None = None) -> None:
        """Ask all threads to stop.

        Args:
            ex: Why: an error, or what ``sys.exc_info()`` returns. The first one counts.
        """
        with self._lock:
            error = ex[1] if isinstance(ex, tuple) else ex
            if not self._stop.is_set() and error is not None and not isinstance(error, self._clean):
                self._error = error
            self._stop.set()

    def clear_stop(self) -> None:
        """Forget that a stop was requested, and why."""
        with self._lock:
            self._joined, self._error = False, None
            self._stop.clear()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until a stop is requested, at most so many seconds; return whether it was."""
        return self._stop.wait(timeout)

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Request a stop if a ``with`` block raises an error, which `join` will raise."""
        try:
            yield
        except Exception as exc:  # it is raised again in join
            self.request_stop(exc)

    def register_thread(self, thread: threading.Thread) -> None:
        """Let `join` wait for a thread, too."""
        with self._lock:
            self._threads.add(thread)

    def raise_requested_exception(self) -> None:
        """Raise the error that a stop was requested for, if there is one."""
        with self._lock:
            if self._error is not None:
                raise self._error

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait for threads; once a stop is requested, for so long.

        Args:
            threads: The threads, beside those that are registered.
            stop_grace_period_secs: How many seconds threads may take after the request.
            ignore_live_threads: Whether threads may go on after that time.

        Raises:
            RuntimeError: They do. Otherwise the error that a stop was requested for is raised.
        """
        with self._lock:
            waiting = self._threads | set(threads or ())
        while any(thread.is_alive() for thread in waiting) and not self.wait_for_stop(0.05):
            pass
        deadline = time.monotonic() + stop_grace_period_secs
        for thread in waiting:
            thread.join(max(0.0, deadline - time.monotonic()))
        late = [thread.name for thread in waiting if thread.is_alive()]
        with self._lock:
            self._joined = True
            self._threads = set()
        self.raise_requested_exception()
        if late and not ignore_live_threads:
            raise RuntimeError(
                f"Coordinator stopped with threads still running: {' '.join(late)}. They need should_stop()."
            )
