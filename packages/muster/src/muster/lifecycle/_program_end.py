"""End a program: close what it has left open, log the threads that keep it, and end it after ten minutes."""

import atexit
import concurrent.futures.thread  # noqa: F401  (see watch_program_end)
import contextlib
import functools
import logging
import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Generator
from typing import Any, ParamSpec

from muster.lifecycle._embedding import is_embedded

_log = logging.getLogger(__name__)

# How often to say which threads keep the process, and how long they may, in seconds.
_SAY_SECS = 10.0
_END_SECS = 600.0

_MAX_FRAMES = 15  # the innermost ones

_NAME = "muster-end"
_ended = threading.Event()


def watch_program_end() -> None:
    """Say which threads keep this process when its program has ended, and end it after ten minutes.

    The exit code is then 1, and the log shows where the threads are. Calls after the first have no effect,
    and none has one in a process that is somebody else's.
    """
    if not is_embedded() and not any(thread.name == _NAME for thread in threading.enumerate()):
        # Private to threading, as concurrent.futures uses it: what is registered later is called earlier, so
        # this comes before Python waits for pools of threads. atexit comes after all waits.
        threading._register_atexit(_ended.set)  # type: ignore[attr-defined]
        threading.Thread(target=_watch, name=_NAME, daemon=True).start()


def _watch() -> None:
    _ended.wait()
    ended = time.monotonic()
    while True:
        time.sleep(_SAY_SECS)
        left = [thread.name for thread in threading.enumerate() if _keeps_process(thread)]
        if not left:
            return  # what is registered with atexit runs
        secs = time.monotonic() - ended
        _log.warning(
            "The program ended %.0f s ago, and threads that it has left keep the process: %s. End them, or "
            "make them daemons. After %.0f s the process ends without them.",
            secs,
            ", ".join(left),
            _END_SECS,
        )
        if secs >= _END_SECS:
            _log.critical("This process ends, though threads run:\n%s", thread_stacks())
            with contextlib.suppress(AttributeError, OSError, ValueError):
                sys.stdout.flush()
            os._exit(1)


def _keeps_process(thread: threading.Thread) -> bool:
    return not thread.daemon and thread not in (threading.main_thread(), threading.current_thread())


def thread_stacks() -> str:
    """Return where each thread but the calling one is, the main thread first, as in a traceback."""
    frames = sys._current_frames()
    texts = []
    for thread in sorted(threading.enumerate(), key=lambda each: each is not threading.main_thread()):
        frame = frames.get(thread.ident or 0)
        if frame is not None and thread is not threading.current_thread():
            lines = traceback.format_stack(frame)[-_MAX_FRAMES:]
            texts.append(f"Thread {thread.name!r}, innermost call last:\n{''.join(lines)}")
    return "".join(texts)


Parameters = ParamSpec("Parameters")
_left_open: weakref.WeakSet[Generator[Any, None, None]] = weakref.WeakSet()


def closed_at_exit(
    function: Callable[Parameters, Generator[Any, None, None]],
) -> Callable[Parameters, Generator[Any, None, None]]:
    """Close the generators that a function returns when the program ends, if they are not at their ends.

    Python would close those that a program has left in its global names only when it has taken the names of
    all modules away, without which they cannot end.
    """

    @functools.wraps(function)
    def made(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Generator[Any, None, None]:
        generator = function(*args, **kwargs)
        _left_open.add(generator)
        return generator

    return made


@atexit.register
def _close_left() -> None:
    for each in list(_left_open):
        with contextlib.suppress(ValueError):  # a thread is in it
            each.close()
