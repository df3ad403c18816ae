"""Write snapshots of a server as its values change: in the background, and never more often than it can."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from muster.ps._recovery import Found
from muster.ps._snapshots import Savable, Snapshots, Taken

_log = logging.getLogger(__name__)

# Writing may take this part of the time, and no more.
_SHARE = 0.1

_S = TypeVar("_S", bound=Savable)


class Snapshotted(Protocol[_S]):
    """A machine whose values are saved."""

    @property
    def milestones(self) -> int:
        """The number of changes so far that must be saved at once."""

    @property
    def version(self) -> int:
        """The number of changes of the values."""

    def snapshot(self, at: float) -> Taken[_S]:
        """Return all that it needs to go on from here, as of a time in seconds since the epoch."""


class Saver(Generic[_S]):
    """Decides when a snapshot is due, and writes it.

    Args:
        snapshots: Where to.
        secs: How long values may have changed without a snapshot, in seconds; None for any time.
        updates: How many changes there may be without a snapshot; None for any number.
        written: Called with each snapshot that is on the disk, perhaps on another thread.
    """

    def __init__(
        self,
        snapshots: Snapshots[_S],
        secs: float | None,
        updates: int | None,
        written: Callable[[_S], None] | None = None,
    ) -> None:
        self._snapshots = snapshots
        self._written = written
        self._secs = secs
        self._updates = updates
        self._milestones = 0
        self._version = 0
        self._taken_at = 0.0
        self._pause = 0.0
        self._failed = False
        self._thread: threading.Thread | None = None

    def find(self, origin: str) -> Found[_S] | None:
        """Return the newest snapshot of the values of an origin, if it can be read: see `Machine`."""
        try:
            found = self._snapshots.read(origin)
        except (OSError, ValueError) as exc:
            _log.error("The snapshot of this server cannot be read: %s. It is left out.", exc)
            return None
        if found is None:
            return None
        saved, arrays, pieces = found
        return Found(saved, arrays, max(0.0, time.time() - saved.at), pieces)

    def look(self, machine: Snapshotted[_S]) -> None:
        """Take a snapshot if one is due.

        It is written in the background, but for those that must be there before workers hear what is in them.
        """
        if machine.milestones != self._milestones:
            self.wait()
            self._begin(machine)
            self._write(machine.snapshot(time.time()))
        elif self._is_due(machine.version) and not (self._thread and self._thread.is_alive()):
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
        """Remove the snapshot: the job has ended, or another one begins."""
        self.wait()
        self._version = 0
        try:
            self._snapshots.remove()
        except OSError as exc:
            _log.warning("The snapshot of this server cannot be removed: %s.", exc)

    def _is_due(self, version: int) -> bool:
        secs = time.monotonic() - self._taken_at
        late = self._secs is not None and secs >= self._secs
        updates = version - self._version
        many = self._updates is not None and updates >= self._updates
        return updates > 0 and (late or many) and secs >= self._pause

    def _begin(self, machine: Snapshotted[_S]) -> None:
        self._milestones, self._version = machine.milestones, machine.version
        self._taken_at = time.monotonic()

    def _write(self, taken: Taken[_S]) -> None:
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
            if self._written is not None:
                self._written(saved)
            _log.debug("Wrote %d bytes of a snapshot, version %d.", written, saved.version)
        finally:
            if taken.rows is not None:
                taken.rows.close(is_written)
        self._pause = (time.monotonic() - began) / _SHARE
