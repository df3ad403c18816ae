"""Defer Ctrl-C and SIGTERM to the end of the running step, so that its state is whole and can be saved."""

import contextlib
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Self, TypeAlias

from muster.lifecycle import _interrupts
from muster.lifecycle._embedding import at_block_end, is_embedded

_log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | None

# Whether this process was told, without a signal, that it will be ended.
_preempted = threading.Event()


class Terminated(SystemExit):
    """SIGTERM; a process that lets it pass exits with 143."""


class SignalWatch:
    """Notes the first signal, and raises each further one at once, but Ctrl-C within a second of the first.

    Args:
        on_first: Called at the first signal, in its handler, unless that is raised at once.

    Attributes:
        received: The number of the signal that was noted, or None.
        waiting: Whether no step is under way, so that the first signal is raised at once, too.
        shared: Whether several workers agree on when to raise the signal.
        aborted: Whether a further signal was raised, possibly in the middle of a step.
    """

    def __init__(self, on_first: Callable[[], None] | None = None) -> None:
        self._on_first = on_first or _say_finishing
        self.received: int | None = None
        self.waiting = False
        self.shared = False
        self.aborted = False
        self._came: dict[int, float] = {}  # when each signal came first
        self._is_others = False  # whether another worker got what was noted, and this process nothing yet

    @contextlib.contextmanager
    def watched(self) -> Iterator[Self]:
        """Handle signals within the block, if this is the main thread: Python allows it nowhere else."""
        replaced: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            if isinstance(signal.getsignal(signal.SIGINT), _SameCtrlC):  # of an earlier watch
                signal.signal(signal.SIGINT, signal.default_int_handler)
            for number in (signal.SIGINT, signal.SIGTERM):
                if self._replaces(number, signal.getsignal(number)):
                    replaced[number] = signal.signal(number, self._receive)
        _watches.append(self)
        if _preempted.is_set():
            self.note_preemption()
        try:
            yield self
        finally:
            _watches.remove(self)
            for number, handler in replaced.items():
                if signal.getsignal(number) == self._receive:  # the program may have put another one there
                    signal.signal(number, self._later(number, handler))

    def note_others(self, number: int) -> None:
        """Note a signal that another worker got. The first one that this process gets then changes nothing:
        who tells all workers to end tells them one after the other.
        """
        if self.received is None:
            self.received, self._is_others = number, True

    def note_preemption(self) -> None:
        """Note that this process will be ended, as SIGTERM says it; any thread may call this."""
        if self.received is None:
            self.received = signal.SIGTERM
            _log.warning("This process will be ended: finishing this step first.")

    def note_interrupt(self) -> None:
        """Note a KeyboardInterrupt that another watch, of a training within this one, has raised."""
        if self.received is None:
            self.received = signal.SIGINT

    def raise_received(self) -> None:
        """Raise the signal that was noted, if any.

        Raises:
            KeyboardInterrupt: For SIGINT.
            Terminated: For SIGTERM.
        """
        if self.received is not None:
            raise _exception_of(self.received) from None  # whatever is being handled is not why

    def _replaces(self, number: int, handler: Handler) -> bool:
        """Return whether to replace a signal's handler: not if the signal is ignored or not Python's."""
        return handler not in (None, signal.SIG_IGN)

    def _later(self, number: int, handler: Handler) -> Handler:
        """Return what handles a signal from now on: Ctrl-C within a second of the first is the same one."""
        until = self._came.get(number, -math.inf) + _interrupts.SAME_SECS
        if handler is not signal.default_int_handler or time.monotonic() >= until:
            return handler
        return _SameCtrlC(until)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if number == signal.SIGINT and now - self._came.get(number, -math.inf) < _interrupts.SAME_SECS:
            return
        self._came[number] = now
        if self._is_others:
            self._is_others = False
            return
        if self.received is not None:
            self.aborted = True
            raise self._raised(number) from None
        self.received = number
        if self.waiting:
            raise self._raised(number) from None
        self._on_first()

    def _raised(self, number: int) -> BaseException:
        """Return what to raise at once. If Python drops SIGTERM's, the signal stays noted."""
        error = _exception_of(number)
        return (
            _interrupts.raised_again(error, self._forget, self._has_come)
            if isinstance(error, KeyboardInterrupt)
            else error
        )

    def _has_come(self) -> bool:
        """Return whether Ctrl-C has come, or goes to another handler."""
        return signal.SIGINT in self._came or signal.getsignal(signal.SIGINT) != self._receive

    def _forget(self) -> None:
        """Forget the Ctrl-C that was raised last: it comes again."""
        self._came.pop(signal.SIGINT, None)
        if not self.aborted:
            self.received = None


class Interrupts(SignalWatch):
    """Holds back Ctrl-C while it is entered, which is during steps; a second Ctrl-C is raised at once.

    State is donated to a step: an exception before the result is assigned would lose both.
    Ctrl-C anywhere else, such as in a wait for input, is raised at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waiting = True
        self._main = threading.main_thread().ident

    @contextlib.contextmanager
    def watched(self) -> Iterator[Self]:
        """Handle Ctrl-C within the block, if this is the main thread."""
        self._main = threading.main_thread().ident  # another one in a fork
        with super().watched():
            yield self

    def __enter__(self) -> None:
        if threading.get_ident() == self._main:
            self.received, self.waiting, self.aborted = None, False, False

    def __exit__(self, *error: object) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed during the step, or what `preempt` asks for."""
        if _preempted.is_set():
            PREEMPTION.__exit__(*error)
        if threading.get_ident() == self._main:
            self.waiting = True
            if self.received is not None:
                self.raise_received()

    def note_preemption(self) -> None:
        """Do nothing: the end of a step looks for itself."""

    def _later(self, number: int, handler: Handler) -> Handler:
        """Return the program's handler: another call of ``fit`` replaces no other."""
        return handler

    def _replaces(self, number: int, handler: Handler) -> bool:
        """Return whether to handle a signal: only Ctrl-C, and only if the program does not."""
        return number == signal.SIGINT and handler is signal.default_int_handler


class _SameCtrlC:
    """Handles Ctrl-C as Python does, but ignores it until a time, by the monotonic clock."""

    def __init__(self, until: float) -> None:
        self._until = until

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() >= self._until:
            signal.signal(number, signal.default_int_handler)
            raise KeyboardInterrupt


def _say_finishing() -> None:
    _log.warning("Finishing this step first; once more stops at once.")


def _exception_of(number: int) -> BaseException:
    return Terminated(128 + number) if number == signal.SIGTERM else KeyboardInterrupt()


class Preemption:
    """Raises what `preempt` asks for at the end of its block, which is a step."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *error: object) -> None:
        """Raise Terminated if this process was told that it will be ended."""
        if _preempted.is_set() and error[0] is None:
            raise _exception_of(signal.SIGTERM)


def preempt() -> None:
    """Say that this process will be ended soon: training finishes its step, saves, and ends.

    It is what SIGTERM says to a program of its own, for processes in which somebody else handles signals, or
    whose training is not in the main thread: there an Estimator saves, as all workers agree, and ``train``
    raises SystemExit with the code 143; ``fit`` raises it after its step. May be called from any thread, once
    or again, inside of the block of `embedded`, whose end makes it forgotten.

    Raises:
        RuntimeError: There is no such block: send this process SIGTERM instead.
    """
    if not is_embedded():
        raise RuntimeError(
            "This process is not in a block of muster.distribute.embedded(), and handles signals by itself: "
            "send it SIGTERM, by os.kill(os.getpid(), signal.SIGTERM)."
        )
    _preempted.set()
    at_block_end(lambda error: _preempted.clear())
    for watch in [*_watches]:
        watch.note_preemption()


# The watches that signals go to now, of all threads.
_watches: list[SignalWatch] = []
PREEMPTION = Preemption()
INTERRUPTS = Interrupts()
"""One for the process, as signals are: a callback of one model may train another."""
