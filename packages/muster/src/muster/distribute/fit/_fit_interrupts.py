"""Ctrl-C while ``fit`` runs: raised between steps only, since the model's state is donated to steps."""

import signal
import threading

from muster.distribute.workers._signals import Handler, SignalWatch


class Interrupts(SignalWatch):
    """Holds back Ctrl-C while it is entered, which is during steps; a second Ctrl-C is raised at once.

    State is donated to a step: an exception before the result is assigned would lose both.
    Ctrl-C anywhere else, such as in a wait for input, is raised at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waiting = True

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self.received, self.waiting, self.aborted = None, False, False

    def __exit__(self, *error: object) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed during the step."""
        if threading.current_thread() is threading.main_thread():
            self.waiting = True
            self.raise_received()

    def _later(self, number: int, handler: Handler) -> Handler:
        """Return the program's handler: another call of ``fit`` replaces no other."""
        return handler

    def _replaces(self, number: int, handler: Handler) -> bool:
        """Return whether to handle a signal: only Ctrl-C, and only if the program does not."""
        return number == signal.SIGINT and handler is signal.default_int_handler


INTERRUPTS = Interrupts()
"""One for the process, as signals are: a callback of one model may train another."""
