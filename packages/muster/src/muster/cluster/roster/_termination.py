"""Write a task's reason for ending to a file for its launcher: a termination message, as in Kubernetes.

A launcher of muster also finds what led to it there: logs of events.
"""

import contextlib
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

from muster._event_log import EventLog
from muster.cluster._cluster_spec import Task

# The variable with the file's path, and where Kubernetes reads it unless the manifest names another file.
TERMINATION_LOG = "MUSTER_TERMINATION_LOG"
# The ending of files of events, which are beside it.
EVENTS = ".events"
_KUBERNETES = Path("/dev/termination-log")
_writing = threading.Lock()


class Termination(NamedTuple):
    """Why a task ended.

    Attributes:
        culprit: The task that caused it: this one, or one without which it could not go on.
        reason: The reason, as a sentence that names the culprit.
    """

    culprit: Task
    reason: str


def note_joined() -> None:
    """Create the file for this task's end, still empty: its launcher sees that the task takes part."""
    named = os.environ.get(TERMINATION_LOG)
    if named:
        with contextlib.suppress(OSError), _writing:
            os.close(os.open(named, os.O_WRONLY | os.O_CREAT, 0o666))


def write_termination(culprit: Task, reason: str) -> None:
    """Record why this task ends. What cannot be written is left out: the reason is in the log, too."""
    named = os.environ.get(TERMINATION_LOG)
    if named or _KUBERNETES.exists():
        with contextlib.suppress(OSError), _writing:
            _overwrite(named or _KUBERNETES, f"{culprit}\n{reason}\n".encode(errors="replace"))


def _overwrite(path: str | Path, text: bytes) -> None:
    """Replace a file's content, which is not empty meanwhile: another thread may be ending the process."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.write(file, text)
        os.ftruncate(file, len(text))
    finally:
        os.close(file)


def write_events(log: EventLog[Any, Any]) -> None:
    """Write what a machine of this task has seen and done, if a launcher has named a place."""
    if named := os.environ.get(TERMINATION_LOG):
        log.write(Path(named).with_suffix(f".{log.name.lower()}{EVENTS}"))


def read_termination(path: Path) -> Termination | None:
    """Return what a task has recorded; None if that is nothing, or no record."""
    try:
        return parse_termination(path.read_text(errors="replace"))
    except OSError:
        return None


def parse_termination(text: str) -> Termination | None:
    """Return what a task has recorded, of the text of its file; None if that is no record."""
    try:
        first, reason = text.split("\n", 1)
        kind, index = first.split(" ")
        return Termination(Task(kind, int(index)), reason.strip())
    except ValueError:
        return None
