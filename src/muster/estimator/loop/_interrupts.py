"""Ctrl-C and SIGTERM while a session runs: first a note, then an exception."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType
from typing import Any, Self

_log = logging.getLogger(__name__)


class Terminated(SystemExit):
    """SIGTERM ended the session; a process that lets it pass exits with 143."""


class SignalWatch:
    """While it is entered, the first SIGINT or SIGTERM is noted, and each further one is raised at once.

    Handlers are installed in the main thread only, where Python allows it, and never in the place of a signal
    that is ignored or that is handled outside of Python.
    """

    def __init__(self) -> None:
        """Install nothing yet."""
        self.received: int | None = None
        """The signal that was noted."""
        self.waiting = False
        """Whether nothing is under way that has to finish: then the first one is raised at once, too."""
        self.shared = False
        """Whether several workers have to agree on it, so that it is theirs to raise."""
        self.aborted = False
        """Whether a further one was raised, possibly in the middle of a step."""
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Install the handlers."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    self._handlers[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Put back the handlers that were there."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()

    def note_interrupt(self) -> None:
        """Note one that reached this session as an exception, from a session within it."""
        if self.received is None:
            self.received = signal.SIGINT

    def raise_received(self) -> None:
        """Raise what was noted, if anything.

        Raises:
            KeyboardInterrupt: For SIGINT.
            Terminated: For SIGTERM.
        """
        if self.received is not None:
            raise _exception_of(self.received) from None  # whatever is being handled is not why

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            self.aborted = True
            raise _exception_of(number) from None
        self.received = number
        if self.waiting:
            raise _exception_of(number) from None
        _log.warning("Finishing this step first; once more stops at once.")


def _exception_of(number: int) -> BaseException:
    return Terminated(128 + number) if number == signal.SIGTERM else KeyboardInterrupt()
