"""Turn StopIteration in user code into an error, since it would silently end the calling loop."""

import dataclasses
import traceback
from types import TracebackType

from muster._errors import MusterError, OutOfRangeError


@dataclasses.dataclass(frozen=True)
class no_stop_iteration:  # used as a statement
    """Raises an error that names the place where user code raises StopIteration, which would end a loop.

    A class, since ``contextlib.contextmanager`` takes a RuntimeError that StopIteration causes for its own.

    Args:
        what: The code, as the subject of a sentence.
        kind: The class of the error.
    """

    what: str
    kind: type[MusterError]

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, StopIteration) and not isinstance(error, OutOfRangeError):
            raise self.kind(stop_text(self.what, error)) from error


def stop_text(what: str, stop: BaseException) -> str:
    """Return the message for user code that has raised StopIteration."""
    frame = traceback.extract_tb(stop.__traceback__)[-1]
    return (
        f"{what} raised StopIteration in `{frame.line}` ({frame.filename}:{frame.lineno}), which would end "
        "the loop over the data. Catch it, or give `next` a default."
    )
