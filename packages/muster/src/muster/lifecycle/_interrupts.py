"""Raise Ctrl-C again where Python drops it."""

import _thread
import atexit
import contextlib
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from muster.lifecycle._embedding import is_embedded, undone_when_embedded

# Long enough to be out of the code that drops exceptions, in seconds.
_AGAIN_SECS = 0.05

# How long a signal may take to be handled before it is sent again, in seconds.
_HANDLED_SECS = 0.1

# Ctrl-C that comes again so soon, in seconds, is the same one: people press it twice, and a terminal, a shell
# and a launcher may each pass it on.
SAME_SECS = 1.0


class _Dropped:
    """An interrupt that Python has dropped: it is raised again, or ends the program when that has ended."""

    def __init__(self) -> None:
        self.is_watched = False
        self.is_kept = False
        self._is_in_hook = False
        self._has_ended = False

    def keep(self, has_come: Callable[[], bool] | None, *, goes_on: bool) -> None:
        """Raise the interrupt again soon, or remember it if no code goes on in which it could be raised.

        Call it last in the hook that Python calls, where what is raised is dropped once more.

        Args:
            has_come: Returns whether the handler got the signal again; None if it is Python's own.
            goes_on: Whether code goes on.
        """
        self.is_kept = self._is_in_hook = True
        try:
            if goes_on:
                has_come = has_come or _noted_by_python()
                with contextlib.suppress(RuntimeError):  # since 3.12 no thread starts while a program ends
                    # `Thread.start` would wait for the thread, for as long as the machine is busy.
                    _thread.start_new_thread(self._raise_again, (has_come, _wake_signal()))
            elif self._has_ended:
                _end_by_ctrl_c()
        finally:
            # Between this and the end of the hook Python calls and repeats nothing, so handles no signal.
            self._is_in_hook = False

    def end(self) -> None:
        """End the program by an interrupt that came too late to be raised."""
        try:
            self._has_ended = True
            if not self.is_kept:
                return
        except KeyboardInterrupt:  # in this very moment
            pass
        _end_by_ctrl_c()

    def _raise_again(self, has_come: Callable[[], bool], wake: int) -> None:
        main = threading.main_thread().ident or 0
        time.sleep(_AGAIN_SECS)
        while self._is_in_hook:
            time.sleep(_AGAIN_SECS)
        # No other thread runs between these two, which might find that nothing is kept and end.
        self.is_kept = False
        signal.pthread_kill(main, signal.SIGINT)
        # A signal just before Python calls something that waits, such as `time.sleep`, does not end the wait,
        # and is only handled after it. Another one ends the wait: not SIGINT, for that may be handled in this
        # very moment, and would then be a second Ctrl-C.
        time.sleep(_HANDLED_SECS)
        while not has_come():
            signal.pthread_kill(main, wake)
            time.sleep(_HANDLED_SECS)


_DROPPED = _Dropped()


def keep_interrupts() -> None:
    """Raise KeyboardInterrupt again that Python has dropped; again it has no effect.

    It drops, with a line on standard error, what is raised in a garbage collection, where JAX has a callback,
    and in finalizers. A program that Ctrl-C reaches there would go on. It also drops what is raised while it
    waits for threads at a program's end and in functions that are registered with atexit, and the exit code
    would be 0. Handlers of a program's own are left alone; others name what is to be forgotten first, by
    `raised_again`.
    """
    if _DROPPED.is_watched or is_embedded():
        return
    _DROPPED.is_watched = True
    report = sys.unraisablehook

    def hook(dropped: "sys.UnraisableHookArgs") -> None:
        forget, has_come = getattr(dropped.exc_value, "muster_handler", (None, None))
        if dropped.exc_type is KeyboardInterrupt and (
            forget is not None or signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            if forget is not None:
                forget()
            # What is under the hook is the code that goes on. At a program's end there is none.
            _DROPPED.keep(has_come, goes_on=sys._getframe().f_back is not None)
        else:
            report(dropped)

    def undo() -> None:
        if sys.unraisablehook is hook:  # and nobody has put another one over it
            sys.unraisablehook = report
            atexit.unregister(_DROPPED.end)
            _DROPPED.is_watched = False

    sys.unraisablehook = hook
    atexit.register(_DROPPED.end)  # muster's others are registered later, and so come before it
    undone_when_embedded(undo)


def raised_again(
    interrupt: KeyboardInterrupt, forget: Callable[[], None], has_come: Callable[[], bool]
) -> KeyboardInterrupt:
    """Let a handler's interrupt be raised again, by a signal to the handler, if Python drops it.

    Args:
        interrupt: What the handler raises.
        forget: Makes the handler forget that the signal has come.
        has_come: Returns whether the handler got it since, or handles signals no more.

    Returns:
        The interrupt.
    """
    interrupt.__dict__["muster_handler"] = forget, has_come
    return interrupt


def _wake_signal() -> int:
    """Return a signal that ends a wait and does nothing else; SIGINT if the program has a use for that."""
    if signal.getsignal(signal.SIGURG) not in (signal.SIG_DFL, _do_nothing):
        return signal.SIGINT
    signal.signal(signal.SIGURG, _do_nothing)  # ignored, it would end no wait
    return signal.SIGURG


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


def _noted_by_python() -> Callable[[], bool]:
    """Note when Python's handler gets the next Ctrl-C; the result returns whether it has, or is no more."""
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.signal(number, signal.default_int_handler)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handle)
    return lambda: bool(came) or signal.getsignal(signal.SIGINT) is not handle


def was_interrupted() -> bool:
    """Return whether Ctrl-C came that is still to be raised, or has come too late in the program for that."""
    return _DROPPED.is_kept


def _end_by_ctrl_c() -> None:
    """End as a program that has not caught KeyboardInterrupt."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with contextlib.suppress(AttributeError, OSError, ValueError):  # nobody reads it
        print("Interrupted while the program ended.", file=sys.stderr)
        sys.stdout.flush()
    logging.shutdown()
    signal.raise_signal(signal.SIGINT)
