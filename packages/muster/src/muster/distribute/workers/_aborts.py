"""Delay aborts of JAX's coordination service until the roster has reported the cause."""

import contextlib
import ctypes
import faulthandler
import os
import signal
import time

# How long the roster may take to end the process with a reason, in seconds.
_HOLD_SECS = 3.0


def _aborted(number: int) -> None:
    """Run on the thread that aborts, once it gets the interpreter's lock."""
    with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):  # no standard error
        faulthandler.dump_traceback()
    time.sleep(_HOLD_SECS)
    _set_handler(signal.SIGABRT, 0)
    os.kill(os.getpid(), signal.SIGABRT)


_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)(_aborted)
_set_handler = ctypes.CDLL(None).signal
_set_handler.argtypes = [ctypes.c_int, ctypes.c_void_p]
_set_handler.restype = ctypes.c_void_p


def hold_aborts() -> None:
    """Let an abort of this process show where its threads are, and wait for a moment.

    When the chief is gone, JAX's coordination aborts the other processes at once, from a thread of its own.
    In one that has held the interpreter's lock meanwhile, no Python code could say that the others have given
    it up. The handler needs the lock, and so waits for it; then the roster reads the news, and ends the
    process with a reason. After an abort of another kind the process ends as it would have, three seconds
    later. If the handler is stuck, with the lock, the other workers notice that this one stands still.
    """
    _set_handler(signal.SIGABRT, ctypes.cast(_HANDLER, ctypes.c_void_p))
