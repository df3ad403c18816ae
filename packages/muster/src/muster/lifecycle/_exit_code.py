"""Tell atexit functions whether the program's exit code will be 0.

Python says nothing of a SystemExit that ends a program: neither that there was one nor its code. So
``sys.exit`` is noted. A SystemExit that is raised without it ends a program with success, as far as is known.
"""

import functools
import sys
import threading
import weakref
from typing import Any

from muster.lifecycle._interrupts import was_interrupted


class _Exit(SystemExit):
    """Raised by ``sys.exit`` in place of SystemExit, to which there are no weak references."""


class ProgramEnd:
    """Tells, while the program ends, whether its exit code will be 0."""

    def __init__(self) -> None:
        self._watches = False
        self._code: Any = None
        self._exit: weakref.ref[_Exit] | None = None  # the last one that may still end the program

    def watch(self) -> None:
        """Begin to look at how the program ends; again it has no effect."""
        if self._watches:
            return
        self._watches = True
        leave = sys.exit

        @functools.wraps(leave)
        def noted(status: Any = None, /) -> Any:
            if threading.current_thread() is not threading.main_thread():
                leave(status)
            raise self._note(status)

        sys.exit = noted

    def is_good(self) -> bool:
        """Return whether the exit code will be 0; for functions registered with atexit."""
        if hasattr(sys, "last_value") or was_interrupted():  # by an exception that nobody has caught
            return False
        return self._exit is None or self._code in (None, 0)

    def _note(self, status: Any) -> _Exit:
        noted = _Exit(status)  # in a frame that its traceback does not have: it would keep itself alive
        self._code, self._exit = status, weakref.ref(noted, self._is_over)
        return noted

    def _is_over(self, dead: weakref.ref[_Exit]) -> None:
        # Python drops what ends the program when none of its code runs any more; else it was caught.
        if dead is self._exit and sys._getframe().f_back is not None:
            self._exit = None


PROGRAM_END = ProgramEnd()
