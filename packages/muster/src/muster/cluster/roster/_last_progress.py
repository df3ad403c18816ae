"""The progress of a task when it ended, in a file for its launcher, which asks only once a second."""

import contextlib
import os
from pathlib import Path

import msgspec

from muster.cluster.roster._roster_messages import Progress

LAST_PROGRESS = "MUSTER_LAST_PROGRESS"


def write_last_progress(progress: Progress) -> None:
    """Write it into the file that the launcher has named, if it has. What cannot be written is left out."""
    named = os.environ.get(LAST_PROGRESS)
    if named:
        with contextlib.suppress(OSError):
            Path(named).write_bytes(msgspec.json.encode(progress))


def read_last_progress(path: Path) -> Progress | None:
    """Return what a task has written; None if that is nothing, or nothing whole."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Progress)
    except (OSError, msgspec.DecodeError):
        return None
