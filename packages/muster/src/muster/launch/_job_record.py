"""The record of a job that the launcher writes: its tasks, how far they are, and what happened.

It is ``job.json`` in the folder of the job's logs, and is replaced as a whole; ``history.json`` beside it has
the curves. A folder on an object store has a working copy here, all of which is sent there every ten seconds
and at the end. The folders of a user's jobs are listed in a folder of the temporary directory: a link for
each job, which has its name.
"""

import contextlib
import os
import socket
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec

from muster._remote import publish_soon, remote_url
from muster._remote_store import PART
from muster.launch._job_state import CurvePoint, JobState, TaskRecord
from muster.lifecycle import start_ticks

_FILE, _CURVES_FILE, _SCALE_FILE = "job.json", "history.json", "workers.wanted"
# How often they are written, at most, in seconds, and how many events there are.
_WRITE_SECS, _CURVES_SECS, _MOST_EVENTS = 1.0, 5.0, 200


class RecordedEvent(msgspec.Struct, frozen=True):
    """Something that happened.

    Attributes:
        time: When, in seconds since the epoch.
        text: What, for people.
    """

    time: float
    text: str


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job: its launcher, its tasks, and the last events.

    Attributes:
        name: Its name, which no other has.
        program: The words after the interpreter.
        folder: The folder of its logs.
        url: Where that is on an object store; empty for a folder that is on none.
        host: The machine of the launcher.
        pid: The launcher's process.
        started: When that began, as `start_ticks` tells there: numbers of processes are used again.
        began: When the job began, in seconds since the epoch.
        written: When this was written.
        code: The launcher's exit code; None while the job runs.
        tasks: Its tasks.
        events: What happened, the last of it.
        page: Where its page is, without a key, while it runs; empty for none.
        scales: How few and how many tasks may train in an elastic job; None for other jobs.
        cores: How many logical processors tasks may use on the launcher's machine; None if unknown.
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
    page: str = ""
    scales: tuple[int, int] | None = None
    cores: int | None = None
    url: str = ""

    @property
    def secs(self) -> float:
        """How long the job had run when this was written, in seconds, by the launcher's clock alone."""
        return max(0.0, self.written - self.began)

    @property
    def runs(self) -> bool:
        """True while the launcher is there; one of another machine that has not written its end."""
        if self.code is not None or self.host != socket.gethostname():
            return self.code is None
        return self.started is not None and start_ticks(self.pid) == self.started


def ask_for_workers(record: JobRecord, count: int) -> None:
    """Ask the launcher of an elastic job for so many tasks that train."""
    path = Path(record.folder) / _SCALE_FILE
    new = path.with_suffix(".new")
    new.write_text(str(count))
    new.replace(path)


class Recorder:
    """Writes the record of a job, and lists it among the user's.

    What cannot be written is left out: training does not depend on it.

    Args:
        name: The job's name.
        program: The words after the interpreter.
        folder: The folder of its logs, which exists.
        stall_secs: As of ``JobState``.
        scales: As of ``JobRecord``.

    Attributes:
        state: What is known of the job.
    """

    def __init__(
        self,
        name: str,
        program: tuple[str, ...],
        folder: Path,
        stall_secs: float = 0.0,
        *,
        scales: tuple[int, int] | None = None,
    ) -> None:
        now = time.time()
        self.state = JobState(stall_secs)
        self._events: deque[RecordedEvent] = deque(maxlen=_MOST_EVENTS)
        self._folder = folder
        self._record = JobRecord(
            name=name,
            program=program,
            folder=str(folder.absolute()),
            url="" if (url := remote_url(str(folder))) == str(folder) else url,
            host=socket.gethostname(),
            pid=os.getpid(),
            started=start_ticks(),
            began=now,
            written=now,
            scales=scales,
            cores=len(os.sched_getaffinity(0)),
        )
        known_jobs()  # forgets those that are gone
        with contextlib.suppress(OSError):
            (folder / _SCALE_FILE).unlink()  # of a job before
        self._write((), None)
        self._written_at, self._curves_at = -_WRITE_SECS, time.monotonic()
        with contextlib.suppress(OSError):  # now that there is a record: who finds none forgets the job
            (_jobs_folder() / name).symlink_to(self._record.folder)

    def event(self, text: str) -> None:
        """Note what happened."""
        self._events.append(RecordedEvent(time.time(), text))
        self._written_at = -_WRITE_SECS  # soon

    def wanted_workers(self) -> int | None:
        """Return how many tasks somebody wants to train in an elastic job, once; None for nothing new."""
        path = self._folder / _SCALE_FILE
        if self._record.scales is None or not path.exists():
            return None
        try:
            count = int(path.read_text())
            path.unlink()
        except (OSError, ValueError):  # it is being written, or is none of muster's
            return None
        least, most = self._record.scales
        return min(max(count, least), most)

    def look(self, tasks: Sequence[TaskRecord]) -> list[TaskRecord]:
        """Take how the tasks are, write it if it is time to, and return it as it is to be shown."""
        shown = self.state.look(tasks, time.monotonic(), time.time())
        for text in self.state.events:
            self.event(text)
        self.state.events = []
        now = time.monotonic()
        if now - self._written_at >= _WRITE_SECS:
            self._write(tuple(shown), None)
        if now - self._curves_at >= _CURVES_SECS:
            self._write_curves()
        return shown

    def new_stalls(self) -> str:
        """Return which tasks newly stand still, for people, and note it; empty for none."""
        text = ", ".join(each.text for each in self.state.stalls)
        self.state.stalls = []
        if text:
            self.event(text)
        return text

    def show_page(self, url: str) -> None:
        """Write where the job's page is."""
        self._record = msgspec.structs.replace(self._record, page=url)
        self._written_at = -_WRITE_SECS

    def end(self, tasks: Sequence[TaskRecord], code: int) -> None:
        """Write the job's end."""
        shown = self.look(tasks)
        self._record = msgspec.structs.replace(self._record, page="")
        self._write_curves()
        self._write(tuple(shown), code)

    def _write(self, tasks: tuple[TaskRecord, ...], code: int | None) -> None:
        self._written_at = time.monotonic()
        self._record = msgspec.structs.replace(
            self._record, tasks=tasks, events=tuple(self._events), code=code, written=time.time()
        )
        self._replace(_FILE, msgspec.json.encode(self._record))
        publish_soon(os.fspath(self._folder))

    def _write_curves(self) -> None:
        self._curves_at = time.monotonic()
        self._replace(_CURVES_FILE, msgspec.json.encode(self.state.curves))

    def _replace(self, name: str, content: bytes) -> None:
        part = self._folder / f"{name}{PART}"
        with contextlib.suppress(OSError):
            part.write_bytes(content)
            part.replace(self._folder / name)


def read_curves(folder: str | os.PathLike[str]) -> dict[str, list[CurvePoint]]:
    """Return the curves of each task in a folder of logs; nothing if there are none that can be read."""
    try:
        return msgspec.json.decode(
            (Path(folder) / _CURVES_FILE).read_bytes(), type=dict[str, list[CurvePoint]]
        )
    except (OSError, msgspec.MsgspecError):
        return {}


def read_record(folder: str | os.PathLike[str]) -> JobRecord | None:
    """Return the record in a folder of logs, wherever that was; None if there is none that can be read."""
    try:
        record = msgspec.json.decode((Path(folder) / _FILE).read_bytes(), type=JobRecord)
    except (OSError, msgspec.MsgspecError):
        return None
    here = os.path.realpath(folder)
    if record.folder == here:
        return record
    tasks = (
        msgspec.structs.replace(each, log=os.path.join(here, os.path.basename(each.log)))
        for each in record.tasks
    )
    return msgspec.structs.replace(record, folder=here, tasks=tuple(tasks))


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
