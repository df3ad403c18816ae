"""Ctrl-C while ``fit`` runs: between steps, for in a step the model's state is nowhere to be found."""

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_log = logging.getLogger(__name__)


class Interrupts:
    """Has Ctrl-C wait for the end of a step; a second one does not. Entered for each step.

    A step uses up the state that it is given. An exception before what it returns has come to a name would
    lose both. One in the midst of anything else, as in waiting for input, comes at once.
    """

    def __init__(self) -> None:
        self._in_step = self._noted = False

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Take Ctrl-C, where this is the main thread and nobody else does."""
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._receive)
        try:
            yield
        finally:
            self._in_step = self._noted = False
            if signal.getsignal(signal.SIGINT) == self._receive:  # a callback may have put another there
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._in_step = True

    def __exit__(self, *error: object) -> None:
        """Raise what was noted.

        Raises:
            KeyboardInterrupt: Ctrl-C came during the step.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        self._in_step = False
        if self._noted:
            self._noted = False
            raise KeyboardInterrupt

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._noted or not self._in_step:
            raise KeyboardInterrupt
        self._noted = True
        _log.warning("Finishing this step first; once more stops at once.")


INTERRUPTS = Interrupts()
"""One for the process, as signals are: a callback of one model may train another."""
