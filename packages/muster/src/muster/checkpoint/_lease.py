"""Leases: a directory has one writer at a time, on any file system.

The writer locks a file in the directory (``flock``), and says in it who it is. The kernel releases the lock
when the process ends, however it ends. Locks do not reach everywhere: an object store has none, and those of
some network file systems stay on their host. So the writer also counts in its record, and a record of another
machine is respected until it has stood still for EXPIRE_SECS. On an object store the file is made by a
conditional put, where the store has that, and every record there is one of another machine.
"""

import dataclasses
import fcntl
import json
import logging
import os
import secrets
import socket
import threading
import time
import weakref
from contextlib import ExitStack, suppress
from pathlib import Path

from muster._errors import DirectoryInUseError
from muster._remote import RemoteFile
from muster._text import printable_json
from muster.checkpoint._arrays import open_regular
from muster.lifecycle import start_ticks

_log = logging.getLogger(__name__)

FILE_NAME = "writer.lock"
# How often a writer counts, and how long a record of another machine may stand still, in seconds.
RENEW_SECS = 5.0
EXPIRE_SECS = 20.0
# How long to try again where somebody has only looked at the file, or was about to delete it, in seconds.
_BRIEFLY_SECS = 1.0
# How often to look at a record that may stand still, here and on an object store, in seconds.
_LOOK_SECS, _LOOK_REMOTE_SECS = 0.2, 1.0


@dataclasses.dataclass(frozen=True)
class _Record:
    """The contents of the file.

    Attributes:
        token: Tells this lease from all others.
        machine: Tells the machine from all others, and a container from its host.
        host: The name of the machine.
        pid: The process, as that machine numbers it.
        since: When it began, in local time.
        count: How often the writer has counted.
    """

    token: str
    machine: str
    host: str
    pid: int
    since: str
    count: int = 0

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


class Lease:
    """The right to write into a directory, until `close` or the end of the process.

    Args:
        directory: The directory; it exists.
        name: The file that is locked: leases of other names are others.

    Raises:
        DirectoryInUseError: Another process, or this one, has the lease.
        OSError: The file cannot be written.
    """

    def __init__(self, directory: str, name: str = FILE_NAME) -> None:
        self._directory = directory
        self._path = os.path.join(directory, name)
        self._remote = RemoteFile.at(self._path)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        self._record = _Record(secrets.token_hex(8), this_machine(), socket.gethostname(), os.getpid(), since)
        self._lost_to: _Record | None = None
        self._closed = threading.Event()
        self._descriptor: int | None = None
        if self._remote is None:
            self._descriptor = self._take()
        else:
            self._take_remote(self._remote)
        self._thread = threading.Thread(target=self._renew, name="muster-lease", daemon=True)
        self._thread.start()
        _LEASES.add(self)

    def check(self) -> None:
        """Check that nobody has taken over the directory, which happens if this machine stood still.

        Raises:
            DirectoryInUseError: Somebody has.
        """
        if self._lost_to is not None:
            raise DirectoryInUseError(
                f"{self._directory} has been taken over by {self._lost_to}, since this process stood still "
                f"for more than {EXPIRE_SECS:g} s. Let only one of the two go on."
            )

    def close(self) -> None:
        """Give the directory free. May be called again."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._thread.join()
        if self._lost_to is None:
            with suppress(OSError):
                if self._remote is None:
                    os.unlink(self._path)
                elif _decoded(self._remote.read()) == self._record:
                    self._remote.delete()
        if self._descriptor is not None:
            os.close(self._descriptor)

    def forget(self) -> None:
        """Close the file in a child that was forked: the lock is held for as long as anybody has it open."""
        if not self._closed.is_set():
            self._closed.set()
            if self._descriptor is not None:
                os.close(self._descriptor)

    def _take(self) -> int:
        """Return the file, open and locked."""
        give_up = time.monotonic() + _BRIEFLY_SECS
        while True:
            with ExitStack() as opened:
                descriptor = open_regular(self._path, os.O_RDWR | os.O_CREAT)
                opened.callback(os.close, descriptor)
                locked, found = _lock(descriptor, fcntl.LOCK_EX), _read(descriptor)
                if locked is False:
                    if time.monotonic() > give_up:
                        raise self._in_use(found)
                elif _is_at(descriptor, self._path):
                    if found is not None and (locked is None or found.machine != self._record.machine):
                        self._await_standstill(found)
                    _write(descriptor, self._record)
                    opened.pop_all()
                    return descriptor
            time.sleep(_LOOK_SECS)

    def _take_remote(self, file: RemoteFile) -> None:
        """Write the file on an object store."""
        while not file.write(_encoded(self._record), new=True):
            found = _decoded(file.read())
            if found is not None and not _has_ended(found):
                self._await_standstill(found)
            file.delete()
        if (found := _decoded(file.read())) != self._record:  # two have written, where no put is conditional
            raise self._in_use(found)

    def _await_standstill(self, found: _Record) -> None:
        """Wait until a record that no lock protects has stood still for long enough."""
        _log.warning(
            "%s was written by %s, which has not said that it ended. Waiting %g s for a sign of it.",
            self._directory,
            found,
            EXPIRE_SECS,
        )
        end = time.monotonic() + EXPIRE_SECS
        while time.monotonic() < end:
            time.sleep(_LOOK_SECS if self._remote is None else _LOOK_REMOTE_SECS)
            now = self._now()
            if now is None and self._remote is not None:
                return
            if now is not None and now != found:
                raise self._in_use(now)

    def _now(self) -> _Record | None:
        return _read_path(self._path) if self._remote is None else _decoded(self._remote.read())

    def _in_use(self, holder: _Record | None) -> DirectoryInUseError:
        return DirectoryInUseError(
            f"{self._directory} is being written by {holder or 'another process'}. A directory has one "
            "writer: wait until it has ended, or choose another directory."
        )

    def _renew(self) -> None:
        while not self._closed.wait(RENEW_SECS):
            try:
                found = self._now()
                if found is not None and found.token != self._record.token:
                    self._lost_to = found
                    return
                self._record = dataclasses.replace(self._record, count=self._record.count + 1)
                if self._remote is not None:
                    self._remote.write(_encoded(self._record))
                elif self._descriptor is not None:
                    _write(self._descriptor, self._record)
            except OSError as exc:
                _log.warning("The lease of %s cannot be renewed: %s.", self._directory, exc)


class WriterWatch:
    """Sees whether a directory has a writer. For other processes, also on other machines.

    Args:
        directory: The directory.
        name: As of `Lease`.
    """

    def __init__(self, directory: str | os.PathLike[str], name: str = FILE_NAME) -> None:
        self._path = os.path.join(directory, name)
        self._seen: tuple[_Record, float] | None = None

    def is_writing(self) -> bool:
        """Return whether there is a writer now, or one of another machine was less than EXPIRE_SECS ago."""
        if RemoteFile.at(self._path) is not None:
            return self._is_counting(_read_path(self._path))
        try:
            descriptor = open_regular(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            locked, found = _lock(descriptor, fcntl.LOCK_SH), _read(descriptor)
        finally:
            os.close(descriptor)
        if locked is False:
            return True
        if locked and found is not None and found.machine == this_machine():
            return False
        return self._is_counting(found)

    def _is_counting(self, found: _Record | None) -> bool:
        if found is None or _has_ended(found):
            return False
        now = time.monotonic()
        if self._seen is None or self._seen[0] != found:
            self._seen = found, now
        return now - self._seen[1] < EXPIRE_SECS


_LEASES: "weakref.WeakSet[Lease]" = weakref.WeakSet()


def _forget_all() -> None:
    for lease in _LEASES:
        lease.forget()


os.register_at_fork(after_in_child=_forget_all)


def _lock(descriptor: int, how: int) -> bool | None:
    """Lock a file; returns False if others have locked it, None where files cannot be locked."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _has_ended(record: _Record) -> bool:
    """Return whether a record is of a process of this machine that is gone."""
    return record.machine == this_machine() and start_ticks(record.pid) is None


def _is_at(descriptor: int, path: str) -> bool:
    """Return whether the open file still is the one at a path: another process may have deleted it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _read(descriptor: int) -> _Record | None:
    """Return what is in the file; None while nothing is, or only a part."""
    return _decoded(os.pread(descriptor, 1 << 12, 0))


def _decoded(data: bytes | None) -> _Record | None:
    try:
        return None if data is None else _Record(**printable_json(json.loads(data)))
    except (ValueError, TypeError):
        return None


def _encoded(record: _Record) -> bytes:
    return json.dumps(dataclasses.asdict(record)).encode()


def _read_path(path: str) -> _Record | None:
    if (remote := RemoteFile.at(path)) is not None:
        return _decoded(remote.read())
    try:
        descriptor = open_regular(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, record: _Record) -> None:
    data = _encoded(record)
    os.pwrite(descriptor, data, 0)
    os.ftruncate(descriptor, len(data))


def this_machine() -> str:
    """Return what tells this machine from all others, and a container from its host."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)
