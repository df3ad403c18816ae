"""Reading event files."""

import logging
import os
from collections.abc import Iterator
from typing import BinaryIO

from muster._errors import SummaryError
from muster._records import RecordError, read_record
from muster.summary._messages import Event, parse_event

_log = logging.getLogger(__name__)


def read_events(logdir: str | os.PathLike[str]) -> Iterator[Event]:
    """Yield the scalars, texts and session logs of a directory's event files, in order.

    A file is read up to its end or to its first damage (with a warning). A last record that its writer
    did not finish is ignored. A directory that does not exist has no events.

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
                    yield from parse_event(record)
        except OSError as exc:
            raise SummaryError(f"{path} cannot be read: {exc.strerror}.") from exc


def _next(file: BinaryIO) -> bytes | None:
    try:
        return read_record(file)
    except RecordError as exc:
        if not exc.cut_off:
            _log.warning("%s: %s The rest of the file is left out.", file.name, exc)
        return None
