"""Raise workers' errors in the coordinator, with their original types."""

import builtins

from muster import _errors
from muster._errors import ClosureError, MusterError
from muster._text import printable
from muster.distribute.closures import Failed


def error_of(failed: Failed, worker: str) -> Exception:
    """Return the error of a closure: of its class, if that is Python's or muster's.

    Args:
        failed: What the worker has said.
        worker: The name of the worker.
    """
    error = _made(failed)
    error.add_note(f"{worker} has raised it:\n{printable(failed.trace)}")
    return error


def _made(failed: Failed) -> Exception:
    text = printable(failed.text)
    name = failed.classes[0] if failed.classes else "an error"
    for kind in failed.classes:
        found = getattr(_errors, kind, None) or getattr(builtins, kind, None)
        if not (isinstance(found, type) and issubclass(found, Exception)) or found in (
            Exception,
            MusterError,
        ):
            continue
        if kind != name:
            text = f"{name}: {text}"
        try:
            return found(text)
        except TypeError:  # it takes other arguments, as UnicodeDecodeError does
            text = f"{name}: {text}"
    return ClosureError(f"{name}: {text}")
