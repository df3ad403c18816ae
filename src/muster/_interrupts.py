"""Ctrl-C where Python drops it."""

import signal
import sys
import threading

# Long enough to be out of the code that drops exceptions, in seconds.
_AGAIN_SECS = 0.05


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
