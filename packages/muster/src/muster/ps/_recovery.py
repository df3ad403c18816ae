"""Restore a restarted server from its newest snapshot, and count the lost updates."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from muster.ps._flat_layout import Array
from muster.ps._journal import Recorded
from muster.ps._messages import Seen
from muster.ps._row_snapshots import RowPiece
from muster.ps._snapshots import Saved

_log = logging.getLogger(__name__)


class Found(NamedTuple):
    """A snapshot, its arrays, how old it is in seconds, its rows, which can be read once, the changes since
    then, with their arrays, and the number of times that it was gone on from, or others before it."""

    saved: Saved
    arrays: list[Array]
    age_secs: float
    pieces: Iterable[RowPiece] = ()
    changes: Sequence[tuple[Recorded, Sequence[Array]]] = ()
    restarts: int = 1


Find = Callable[[str], Found | None]
"""Returns the newest snapshot of the values of an origin; None if there is none."""


def no_snapshot(origin: str) -> None:
    """Find no snapshot, since none are written."""


class Recovery:
    """Finds what to restore, and counts what is lost.

    Lost are those changes that workers have seen and that came after the snapshot.

    Args:
        name: The server's task.
        run: The random id of its process.
        find: Finds snapshots.

    Attributes:
        lost_updates: How many changes of the values are lost.
        lost_secs: How long training had gone on after the snapshot, in seconds.
    """

    def __init__(self, name: str, run: str, find: Find) -> None:
        self.lost_updates = 0
        self.lost_secs = 0.0
        self._name = name
        self._run = run
        self._find = find
        self._saved: Saved | None = None
        self._taken_at = 0.0  # by the clock of `now`

    def find(self, seen: Seen, now: float) -> Found | None:
        """Return the snapshot of the values that a worker knows of, if there is one.

        Args:
            seen: What the worker says.
            now: The time in seconds.
        """
        found = self._find(seen.origin) if seen.origin else None
        if found is not None:
            self._saved, self._taken_at = found.saved, now - found.age_secs
            _log.warning(
                "%s was started again, and goes on from its snapshot of %.1f s ago.",
                self._name,
                found.age_secs,
            )
        return found

    def count(self, seen: Seen, now: float) -> None:
        """Count what is lost of what a worker has seen, which joins."""
        if self._saved is None or seen.run == self._run or seen.origin != self._saved.origin:
            return
        if (lost := seen.version - self._saved.version) > self.lost_updates:
            # Those that another worker had seen count already.
            in_all = " in all" if self.lost_updates else ""
            self.lost_updates = lost
            self.lost_secs = max(self.lost_secs, now - seen.idle_secs - self._taken_at)
            _log.warning(
                "%s lost %d updates%s, %.1f s of training.", self._name, lost, in_all, self.lost_secs
            )
