"""Report what nobody has caught, in one piece, and end the process then, or at once."""

import contextlib
import linecache
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from muster._terminal import running_shell
from muster.lifecycle._embedding import is_embedded, undone_when_embedded
from muster.lifecycle._tracebacks import LEFT_OUT, advise, program_lines, shorten

_log = logging.getLogger(__name__)

_EXIT_SECS = 5.0  # how long the last words of a process may take
_REPORT_SECS = 2.0  # how long they wait for an error that is being reported

_reporting = threading.Lock()
_is_exiting = threading.Event()
# What ends the process after an uncaught error, the last registered one first.
_ends: list[Callable[[BaseException], None]] = []


class _Hook:
    """A ``sys.excepthook`` that reports no interrupt of which a line has told already."""

    def __init__(self, report: Callable[..., Any]) -> None:
        self.report = report

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if is_told(error):
            pass
        elif kind is KeyboardInterrupt and _in_an_import(trace):
            print("Interrupted while modules were imported.", file=sys.stderr)
        elif kind is KeyboardInterrupt and not program_lines(trace):  # in a command of muster's
            print("Interrupted.", file=sys.stderr)
        else:
            with _reporting:
                advise(error)
                if shorten(error):
                    with contextlib.suppress(AttributeError, OSError, ValueError):  # nobody reads it
                        print(LEFT_OUT, file=sys.stderr)
                self.report(kind, error, error.__traceback__)
            if _is_exiting.is_set():
                threading.Event().wait()
        for end in reversed(_ends):
            end(error)


def hook_uncaught() -> None:
    """Put this module's hook over that of the program, unless it is there, or the process somebody else's."""
    if not isinstance(sys.excepthook, _Hook) and not is_embedded():
        sys.excepthook = _Hook(sys.excepthook)
        undone_when_embedded(_unhook)
        shell = running_shell()  # which shows errors by itself
        if shell is not None and not shell.custom_exceptions:
            shell.set_custom_exc((Exception,), _show_in_shell)


def _unhook() -> None:
    """Put the program's hook back, if this module's is over it."""
    if isinstance(sys.excepthook, _Hook):
        sys.excepthook = sys.excepthook.report
    shell = running_shell()
    if shell is not None and shell.custom_exceptions == (Exception,):
        shell.set_custom_exc((), None)


def _show_in_shell(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    tb_offset: Any = None,
) -> None:
    """Show an error of a cell in IPython's way, as far as it is the program's."""
    advise(error)
    if shorten(error):
        print(LEFT_OUT, file=sys.stderr)
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)


def at_uncaught(end: Callable[[BaseException], None]) -> None:
    """Let an error that nobody has caught end the process, once it is reported.

    Args:
        end: Called with the error; it may end the process, or return.
    """
    hook_uncaught()
    _ends.append(end)


def mark_told(interrupt: KeyboardInterrupt) -> None:
    """Let the end of the program by an interrupt be quiet: what it has stopped has been told in a line.

    It must be KeyboardInterrupt itself: only then does Python end as if the signal had killed it.
    """
    interrupt.__dict__["muster_told"] = True
    hook_uncaught()  # the program may have put another one over it


def is_told(error: BaseException) -> bool:
    """Return whether an exception is an interrupt that needs no traceback."""
    return "muster_told" in error.__dict__


@contextlib.contextmanager
def log_interrupt(text: str) -> Iterator[None]:
    """Log in a line what Ctrl-C has ended in this block, which then ends the program without a traceback.

    Args:
        text: What to say, unless more was said already.
    """
    try:
        yield
    except KeyboardInterrupt as exc:
        if not is_told(exc):
            _log.warning("%s", text)
            mark_told(exc)
        raise


def exit_at_once(code: int, say: Callable[[], None]) -> None:
    """End the process, after its last words, and after logs and streams are flushed.

    It ends even if the main thread never returns from a collective, or holds a lock that flushing needs. An
    error of the main thread is reported before the last words, or not at all, so that they end the log.

    Args:
        code: The exit code.
        say: Says the last words.
    """
    last_resort = threading.Timer(_EXIT_SECS, os._exit, [code])
    last_resort.daemon = True
    last_resort.start()
    sys.excepthook = lambda *_: threading.Event().wait()
    _is_exiting.set()
    _reporting.acquire(timeout=_REPORT_SECS)
    say()
    logging.shutdown()
    leave(code)


def leave(code: int) -> None:
    """Flush the streams and end the process, without what Python and libraries do at a program's end."""
    try:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # there is none, or nobody reads
                stream.flush()
    finally:  # also if Ctrl-C comes once more
        os._exit(code)


def _in_an_import(trace: TracebackType | None) -> bool:
    """Return whether the program's own line, the outermost one, is an import."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith("<frozen"):
        trace = trace.tb_next  # python -m
    if trace is None:
        return False
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return line.startswith(("import ", "from "))
