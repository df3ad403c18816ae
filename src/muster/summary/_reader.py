"""Reading event files."""

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from muster._errors import SummaryError
from muster._records import RecordError, read_record
from muster.summary._messages import SessionLog, parse_event

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Event:
    """A value of an event file.

    Attributes:
        step: The global step.
        wall_time: When it was written, in seconds since the epoch.
        tag: What it is called; ``session_log`` for a session log.
        value: A scalar (float), a text (str), or the path in a session log.
        status: What a session log says; None for everything else.
    """

    step: int
    wall_time: float
    tag: str
    value: float | str
    status: SessionLog | None = None


def read_events(logdir: str | os.PathLike[str]) -> Iterator[Event]:
    """Yields the scalars, texts and session logs of a directory's event files, in order.

    A file is read up to where it ends or was damaged (with a warning); a record that was cut off by
    the death of its writer is not there. A directory that does not exist has no events.

    Raises:
        SummaryError: A file cannot be read.
    """
    logdir = os.fspath(logdir)
    names = os.listdir(logdir) if os.path.isdir(logdir) else []
    for name in sorted(name for name in names if "tfevents" in name):
        path = os.path.join(logdir, name)
        try:
            with open(path, "rb") as file:
                while (record := _next(file)) is not None:
                    yield from _events(record)
        except OSError as exc:
            raise SummaryError(f"{path} cannot be read: {exc.strerror}.") from exc


def _next(file: BinaryIO) -> bytes | None:
    try:
        return read_record(file)
    except RecordError as exc:
        if not exc.cut_off:
            _logger.warning("%s: %s The rest of the file is left out.", file.name, exc)
        return None


def _events(record: bytes) -> Iterator[Event]:
    wall_time, step, values, log = parse_event(record)
    for tag, value in values:
        yield Event(step, wall_time, tag, value)
    if log is not None:
        status, path = log
        yield Event(step, wall_time, "session_log", path, status)
