"""Persist a store: snapshots in the background, and the coordinator's changes at once."""

import logging
import os
import time
from collections.abc import Sequence

import msgspec

from muster.ps._flat_layout import Array
from muster.ps._recovery import Found
from muster.ps._saver import Saver, Snapshotted
from muster.ps._snapshots import Snapshots
from muster.ps.store._journal import Journal
from muster.ps.store._saved import FoundStore, Recorded, SavedStore

_log = logging.getLogger(__name__)


class Keeper:
    """Keeps what a server needs to go on when it was killed and is started again.

    Args:
        folder: The folder, made when it is needed.
        secs: How long values may have changed without a snapshot, in seconds; None for any time.
        updates: How many pushes there may be without a snapshot; None for any number.
    """

    def __init__(self, folder: str | os.PathLike[str], secs: float | None, updates: int | None) -> None:
        self._journal = Journal(folder)
        self._saver = Saver(Snapshots(folder, SavedStore), secs, updates, self._written)

    def find(self, origin: str) -> FoundStore | None:
        """Return what is there of a store, if it can be read: see `StoreMachine`."""
        try:
            changes = self._journal.read(origin)
        except OSError as exc:
            _log.error("The changes of this server cannot be read: %s. They are left out.", exc)
            changes = []
        found = self._saver.find(origin)
        if found is None and not changes:
            return None
        if found is None:
            at = changes[0][0].at
            saved = SavedStore(origin=origin, plan=b"", version=0, at=at)
            found = Found(saved, [], max(0.0, time.time() - at))
            since, begin = changes, 0
        else:
            begin = found.saved.changes + 1
            since = [each for each in changes if each[0].number >= begin]
        if [change.number for change, _ in since] != [*range(begin, begin + len(since))]:
            _log.error("Changes of this server are missing on its disk, so that it has lost its values.")
            return None
        return FoundStore(*found, since)

    def record(self, change: Recorded, arrays: Sequence[Array]) -> None:
        """Write a change that the coordinator has made; the beginning of a store in place of another."""
        if change.message is None:
            self._saver.remove()
        try:
            self._journal.write(msgspec.structs.replace(change, at=time.time()), arrays)
        except OSError as exc:
            _log.warning(
                "A change of this server's variables cannot be written: %s. Training goes on. A server that "
                "is killed before its next snapshot loses its values.",
                exc,
            )

    def look(self, machine: Snapshotted[SavedStore]) -> None:
        """Take a snapshot if one is due."""
        self._saver.look(machine)

    def wait(self) -> None:
        """Wait until what is being written is there."""
        self._saver.wait()

    def remove(self) -> None:
        """Remove all of it: the job has ended."""
        self._saver.wait()
        try:
            self._journal.remove()
        except OSError as exc:
            _log.warning("The changes of this server cannot be removed: %s.", exc)
        self._saver.remove()  # with the folder

    def _written(self, saved: SavedStore) -> None:
        try:
            self._journal.forget(saved.changes)
        except OSError as exc:
            _log.warning("Changes that a snapshot has cannot be removed: %s.", exc)
