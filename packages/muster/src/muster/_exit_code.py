"""Tell atexit functions whether the program's exit code will be 0.

Python says nothing of a SystemExit that ends a program: neither that there was one nor its code.
"""

import dis
import functools
import sys
import threading
from types import FrameType
from typing import Any

from muster._interrupts import was_interrupted


class ProgramEnd:
    """Tells, while the program ends, whether its exit code will be 0.

    It is 0 if the outermost code of the program has returned, or if that was left by ``sys.exit`` with such a
    code. One that is raised without ``sys.exit`` counts as another: who waits for this program to be started
    again is not sent away by mistake.
    """

    def __init__(self) -> None:
        self._frame: FrameType | None = None
        self._given: Any = 1  # to sys.exit

    def watch(self) -> None:
        """Begin to look at how the program ends; again it has no effect."""
        if self._frame is not None:
            return
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        while frame is not None and frame.f_back is not None:
            frame = frame.f_back
        self._frame = frame
        leave = sys.exit

        @functools.wraps(leave)
        def noted(status: Any = None, /) -> Any:
            if threading.current_thread() is threading.main_thread():
                self._given = status
            leave(status)

        sys.exit = noted

    def is_good(self) -> bool:
        """Return whether the exit code will be 0; for functions registered with atexit."""
        if hasattr(sys, "last_value") or was_interrupted():  # by an exception that nobody has caught
            return False
        return self._frame is None or _has_returned(self._frame) or self._given in (None, 0)


PROGRAM_END = ProgramEnd()


def _has_returned(frame: FrameType) -> bool:
    """Return whether code that does not run any more has ended by itself, and not by an exception."""
    return any(
        each.offset == frame.f_lasti and each.opname.startswith("RETURN")
        for each in dis.get_instructions(frame.f_code)
    )
