"""Persist a server: its first values and other changes at once, snapshots of what updates change in the
background."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from muster._clocks import is_ahead
from muster.ps._flat_layout import Array
from muster.ps._journal import Journal, Recorded
from muster.ps._recovery import Found
from muster.ps._snapshots import Saved, Snapshots, Taken

_log = logging.getLogger(__name__)

# Writing may take this part of the time, and no more.
_SHARE = 0.1


class Snapshotted(Protocol):
    """A machine whose values are saved."""

    @property
    def milestones(self) -> int:
        """The number of updates so far that a snapshot must have before callers hear of them."""

    @property
    def updates(self) -> int:
        """The number of changes of the values so far, but for those that are recorded."""

    def snapshot(self, at: float) -> Taken:
        """Return all that it needs to go on from here, as of a time in seconds since the epoch."""


class Keeper:
    """Keeps what a server needs to go on when it was killed and is started again.

    Those are changes by request, each of which is on the disk before it is answered, and snapshots of all,
    which are never written more often than they can be.

    Args:
        folder: The folder, made when it is needed.
        secs: How long values may have changed without a snapshot, in seconds; None for any time.
        updates: How many updates there may be without a snapshot; None for any number.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        secs: float | None,
        updates: int | None,
    ) -> None:
        self._journal = Journal(folder)
        self._snapshots = Snapshots(folder)
        self._secs = secs
        self._updates = updates
        self._milestones = 0
        self._snapshot = 0  # how many updates the last one has
        self._taken_at = 0.0
        self._pause = 0.0
        self._failed = False
        self._thread: threading.Thread | None = None

    def find(self, origin: str) -> Found | None:
        """Return what is there of the values of an origin, if it can be read: the newest snapshot, and the
        changes since then. If there are changes alone, the snapshot has no plan."""
        try:
            changes = self._journal.read(origin)
        except OSError as exc:
            _log.error("The changes of this server cannot be read: %s. They are left out.", exc)
            changes = []
        found, begin = self._find_snapshot(origin), 0
        if found is None:
            if not changes:
                return None
            at = changes[0][0].at
            found = Found(Saved(origin=origin, plan=b"", version=0, at=at), [], _age(at))
        else:
            begin = found.saved.changes + 1
        since = [each for each in changes if each[0].number >= begin]
        if [change.number for change, _ in since] != [*range(begin, begin + len(since))]:
            _log.error("Changes of this server are missing on its disk, so that it has lost its values.")
            return None
        return found._replace(changes=since, restarts=self._count_restart())

    def record(self, change: Recorded, arrays: Sequence[Array] = ()) -> None:
        """Write a change; the beginning of new values in place of all that is there."""
        if change.message is None:
            self._remove_snapshot()
        try:
            self._journal.write(msgspec.structs.replace(change, at=time.time()), arrays)
        except OSError as exc:
            _log.warning(
                "A change of this server's variables cannot be written: %s. Training goes on. A server that "
                "is killed before its next snapshot loses its values.",
                exc,
            )

    def look(self, machine: Snapshotted) -> None:
        """Take a snapshot if one is due.

        It is written in the background, but for those that must be there before callers hear what is in them.
        """
        if machine.milestones != self._milestones:
            self.wait()
            self._begin(machine)
            self._write(machine.snapshot(time.time()))
        elif self._is_due(machine.updates) and not (self._thread and self._thread.is_alive()):
            self._begin(machine)
            self._thread = threading.Thread(
                target=self._write, args=[machine.snapshot(time.time())], name="muster-snapshot", daemon=True
            )
            self._thread.start()

    def wait(self) -> None:
        """Wait until what is being written is there."""
        if self._thread is not None:
            self._thread.join()

    def remove(self) -> None:
        """Remove all of it: the job has ended."""
        self.wait()
        try:
            self._journal.remove()
        except OSError as exc:
            _log.warning("The changes of this server cannot be removed: %s.", exc)
        self._remove_snapshot()  # with the folder

    def _find_snapshot(self, origin: str) -> Found | None:
        try:
            found = self._snapshots.read(origin)
        except (OSError, ValueError) as exc:
            _log.error("The snapshot of this server cannot be read: %s. It is left out.", exc)
            return None
        if found is None:
            return None
        saved, arrays, pieces = found
        return Found(saved, arrays, _age(saved.at), pieces)

    def _count_restart(self) -> int:
        try:
            return self._snapshots.count_restart()
        except (OSError, ValueError) as exc:
            _log.warning("It cannot be counted that this server was started again: %s.", exc)
            return 1

    def _remove_snapshot(self) -> None:
        self.wait()
        self._snapshot = 0
        try:
            self._snapshots.remove()
        except OSError as exc:
            _log.warning("The snapshot of this server cannot be removed: %s.", exc)

    def _is_due(self, made: int) -> bool:
        secs = time.monotonic() - self._taken_at
        late = self._secs is not None and secs >= self._secs
        updates = made - self._snapshot
        many = self._updates is not None and updates >= self._updates
        return updates > 0 and (late or many) and secs >= self._pause

    def _begin(self, machine: Snapshotted) -> None:
        self._milestones, self._snapshot = machine.milestones, machine.updates
        self._taken_at = time.monotonic()

    def _write(self, taken: Taken) -> None:
        began = time.monotonic()
        saved, is_written = taken.saved, False
        try:
            written = self._snapshots.write(*taken)
            is_written = True
        except OSError as exc:
            _log.warning(
                "A snapshot of this server cannot be written: %s. Training goes on. A server that is killed "
                "now goes on from the one before.",
                exc,
            )
            self._failed = True
        else:
            if self._failed:
                _log.warning("Snapshots of this server can be written again.")
            self._failed = False
            self._forget(saved.changes)
            _log.debug("Wrote %d bytes of a snapshot, version %d.", written, saved.version)
        finally:
            if taken.rows is not None:
                taken.rows.close(is_written)
        self._pause = (time.monotonic() - began) / _SHARE

    def _forget(self, changes: int) -> None:
        try:
            self._journal.forget(changes)
        except OSError as exc:
            _log.warning("Changes that a snapshot has cannot be removed: %s.", exc)


def _age(at: float) -> float:
    now = time.time()
    return 0.0 if is_ahead(at, now, "What this server goes on from") else max(0.0, now - at)
