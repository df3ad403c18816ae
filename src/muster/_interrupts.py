"""Ctrl-C where Python drops it, and where it prints pages for a program that was calmly ended."""

import signal
import sys
import threading
from types import TracebackType

# Long enough to be out of the code that drops exceptions, in seconds.
_AGAIN_SECS = 0.05

# Ctrl-C that comes again so soon, in seconds, is the same one: people press it twice, and a terminal, a shell
# and a launcher may each pass it on.
SAME_SECS = 1.0


def keep_interrupts() -> None:
    """Raise KeyboardInterrupt again that Python has dropped.

    It drops, with a line on standard error, what is raised in a garbage collection, where JAX has a callback,
    and in finalizers. A program that Ctrl-C reaches there would go on. Handlers of a program's own are left
    alone.
    """
    report = sys.unraisablehook

    def hook(dropped: "sys.UnraisableHookArgs") -> None:
        if (
            dropped.exc_type is KeyboardInterrupt
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            main = threading.main_thread().ident
            again = threading.Timer(_AGAIN_SECS, signal.pthread_kill, [main, signal.SIGINT])
            again.daemon = True
            again.start()
        else:
            report(dropped)

    sys.unraisablehook = hook


def mark_told(interrupt: KeyboardInterrupt) -> None:
    """Let the end of the program by an interrupt be quiet: what it has stopped has been told in a line.

    It must be KeyboardInterrupt itself: only then does Python end as if the signal had killed it.
    """
    interrupt.__dict__["muster_told"] = True
    report = sys.excepthook
    if getattr(report, "muster_quiet", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not is_told(error):
            report(kind, error, trace)

    hook.__dict__["muster_quiet"] = True
    sys.excepthook = hook


def is_told(error: BaseException) -> bool:
    """Return whether an exception is an interrupt that needs no traceback."""
    return "muster_told" in error.__dict__
