"""The record of a job that the launcher writes: its tasks, how far they are, and what happened.

It is ``job.json`` in the folder of the job's logs, and is replaced as a whole. The folders of a user's jobs
are listed in a folder of the temporary directory: a link for each job, which has its name.
"""

import contextlib
import os
import socket
import tempfile
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import msgspec

from muster.cluster import Task
from muster.cluster.roster import Progress
from muster.lifecycle import start_ticks

_FILE = "job.json"
# How often it is written, at most, in seconds, and how many events it has.
_WRITE_SECS, _MOST_EVENTS = 1.0, 200


class RecordedEvent(msgspec.Struct, frozen=True):
    """Something that happened.

    Attributes:
        time: When, in seconds since the epoch.
        text: What, for people.
    """

    time: float
    text: str


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a job.

    Attributes:
        type: Its type, such as ``"worker"``.
        index: Its index among the tasks of that type.
        state: The state of its process.
        pid: Its process, on its host.
        address: Where it answers who asks how it fares.
        log: The file of its output.
        starts: How often it was started.
        answers: Whether it reports how far it is now.
        progress: The last that it has reported; None for nothing.
        host: The machine that it runs on; empty for that of the launcher.
    """

    type: str
    index: int
    state: str
    pid: int
    address: str
    log: str
    starts: int
    answers: bool = False
    progress: Progress | None = None
    host: str = ""

    @property
    def task(self) -> Task:
        """The task."""
        return Task(self.type, self.index)


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job: its launcher, its tasks, and the last events.

    Attributes:
        name: Its name, which no other has.
        program: The words after the interpreter.
        folder: The folder of its logs.
        host: The machine of the launcher.
        pid: The launcher's process.
        started: When that began, as `start_ticks` tells there: numbers of processes are used again.
        began: When the job began, in seconds since the epoch.
        written: When this was written.
        code: The launcher's exit code; None while the job runs.
        tasks: Its tasks.
        events: What happened, the last of it.
    """

    name: str
    program: tuple[str, ...]
    folder: str
    host: str
    pid: int
    started: int | None
    began: float
    written: float
    code: int | None = None
    tasks: tuple[TaskRecord, ...] = ()
    events: tuple[RecordedEvent, ...] = ()

    @property
    def runs(self) -> bool:
        """True while the launcher is there; one of another machine that has not written its end."""
        if self.code is not None or self.host != socket.gethostname():
            return self.code is None
        return self.started is not None and start_ticks(self.pid) == self.started


class Recorder:
    """Writes the record of a job, and lists it among the user's.

    What cannot be written is left out: training does not depend on it.

    Args:
        name: The job's name.
        program: The words after the interpreter.
        folder: The folder of its logs, which exists.
    """

    def __init__(self, name: str, program: tuple[str, ...], folder: Path) -> None:
        now = time.time()
        self._events: deque[RecordedEvent] = deque(maxlen=_MOST_EVENTS)
        self._path = folder / _FILE
        self._record = JobRecord(
            name=name,
            program=program,
            folder=str(folder.absolute()),
            host=socket.gethostname(),
            pid=os.getpid(),
            started=start_ticks(),
            began=now,
            written=now,
        )
        known_jobs()  # forgets those that are gone
        self._write((), None)
        self._written_at = -_WRITE_SECS
        with contextlib.suppress(OSError):  # now that there is a record: who finds none forgets the job
            (_jobs_folder() / name).symlink_to(self._record.folder)

    def event(self, text: str) -> None:
        """Note what happened."""
        self._events.append(RecordedEvent(time.time(), text))
        self._written_at = -_WRITE_SECS  # soon

    def update(self, tasks: Iterable[TaskRecord]) -> None:
        """Write how the tasks are, unless that was written just now."""
        if time.monotonic() - self._written_at >= _WRITE_SECS:
            self._write(tuple(tasks), None)

    def end(self, tasks: Iterable[TaskRecord], code: int) -> None:
        """Write the job's end."""
        self._write(tuple(tasks), code)

    def _write(self, tasks: tuple[TaskRecord, ...], code: int | None) -> None:
        self._written_at = time.monotonic()
        self._record = msgspec.structs.replace(
            self._record, tasks=tasks, events=tuple(self._events), code=code, written=time.time()
        )
        part = self._path.with_suffix(".part")
        with contextlib.suppress(OSError):
            part.write_bytes(msgspec.json.encode(self._record))
            part.replace(self._path)


def read_record(folder: str | os.PathLike[str]) -> JobRecord | None:
    """Return the record in a folder of logs; None if there is none that can be read."""
    try:
        return msgspec.json.decode((Path(folder) / _FILE).read_bytes(), type=JobRecord)
    except (OSError, msgspec.MsgspecError):
        return None


def known_jobs() -> list[JobRecord]:
    """Return this user's jobs on this machine whose logs are there, in the order in which they began."""
    found = []
    try:
        listed = [*_jobs_folder().iterdir()]
    except OSError:
        return []
    for path in listed:
        with contextlib.suppress(OSError):
            record = read_record(path)
            if record is None or record.name != path.name:
                path.unlink()  # its logs are gone, or are another job's now
            else:
                found.append(record)
    return sorted(found, key=lambda record: record.began)


def _jobs_folder() -> Path:
    """Return the folder that lists this user's jobs, which is made if it is missing.

    Raises:
        OSError: It cannot be made, or is somebody else's.
    """
    folder = Path(tempfile.gettempdir()) / f"muster-jobs-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    return folder
