"""Hold and update a plan's tables in this process, as a parameter server does, without sockets."""

import os
import threading
import uuid
from collections.abc import Sequence

from muster._errors import CheckpointError
from muster.checkpoint import PartRecord, link_base
from muster.ps import _messages as messages
from muster.ps._client import FirstValues, FunctionPart, Pulled, Pushed, first_requests
from muster.ps._flat_layout import Array, Flat, FlatLayout
from muster.ps._plan import Plan
from muster.ps._shard_snapshot import Base, ShardSnapshot
from muster.ps._store import Store
from muster.ps.contents import Device

# How long a checkpoint waits for one that is written into another folder, in seconds.
_PATIENCE_SECS = 600.0


class LocalStore:
    """Holds what a plan says, looks up rows, and updates them. One thread uses it.

    Args:
        plan: The plan.
        values: What it begins with.
        device: Where values live.
    """

    def __init__(self, plan: Plan, values: FirstValues, device: Device) -> None:
        self._store = Store(device)
        self._store.take_plan(plan.encode())
        begins = messages.Initialize(step=0, origin=uuid.uuid4().hex)
        for message, arrays in first_requests(plan, begins, values):
            self._store.change(message, arrays)  # type: ignore[arg-type]  # all of them are changes
        self._layout = FunctionPart(plan.signature).layout
        self._pulled = list(FlatLayout(plan.pulled).sizes)
        self._base: Base | None = None
        self._part: LocalPart | None = None

    def pull(self) -> Flat:
        """Return what is read as a whole."""
        pulled = self._store.contents.pull(self._store.fingerprint)
        return dict(zip(self._pulled, pulled, strict=True))

    def look_up(self, ids: Sequence[Array]) -> list[Array]:
        """Return the rows of each table, by ids as of `Pushed`."""
        contents, name, counts = self._store.contents, self._store.fingerprint, tuple(map(len, ids))
        asked = contents.asked(name, counts, self._layout.pack_ids(ids))
        return [look_up() for look_up in asked]

    def push(self, pushed: Pushed) -> Pulled:
        """Run the update of a push, and return what is read then."""
        contents, name = self._store.contents, self._store.fingerprint
        arrays = [*pushed.flat.values(), *self._layout.pack_rows(pushed.whole, pushed.rows)]
        push = contents.prepare(name, tuple(len(ids) for ids, _ in pushed.rows), arrays)
        taken = contents.run(name, push)
        self._store.version += 1
        rows = self.look_up(pushed.asks) if pushed.asks else []
        return Pulled(
            messages.Values(version=self._store.version), dict(zip(self._pulled, taken, strict=True)), rows
        )

    def begin_part(self, folder: str, file: str) -> "LocalPart":
        """Begin to write the values of now into the folder of a checkpoint.

        Args:
            folder: The folder.
            file: The name of the file.

        Raises:
            CheckpointError: Another part has been written for too long.
        """
        if self._part is not None:
            self._part.finish()
        has_base = self._base is not None and link_base(folder, self._base.path)
        values = self._store.begin_part((), not has_base)
        self._part = LocalPart(self, folder, file, values, self._base if values.needs_base else None)
        return self._part

    def keep(self, base: Base) -> None:
        """Take a file that has all rows as the one from which later ones differ."""
        self._base = base


class LocalPart:
    """The part of a checkpoint that a `LocalStore` writes, on the thread of whoever waits for it.

    Args:
        store: The store.
        folder: The folder.
        file: The name of the file.
        values: What to write.
        base: The file from which the values differ; None if all are there.
    """

    def __init__(
        self, store: LocalStore, folder: str, file: str, values: ShardSnapshot, base: Base | None
    ) -> None:
        self._store, self._folder, self._file = store, folder, file
        self._values, self._base = values, base
        self._done = threading.Event()

    def finish(self) -> None:
        """Wait until another thread has written it.

        Raises:
            CheckpointError: That takes too long.
        """
        if not self._done.wait(_PATIENCE_SECS):
            raise CheckpointError(
                f"{self._folder} has been written for {_PATIENCE_SECS:g} s, and is not done."
            )

    def wait(self) -> list[PartRecord]:
        """Write the file, and return its record.

        Raises:
            CheckpointError: It cannot be written; nothing of it is left.
        """
        try:
            return [self._write()]
        except (ValueError, OSError) as exc:
            raise CheckpointError(f"{self._folder} was not written: {exc}.") from exc
        finally:
            self._done.set()

    def _write(self) -> PartRecord:
        values, base, written = self._values, self._base, False
        try:
            record = values.write(self._folder, self._file)
            written = True
        finally:
            values.close(written)
        counts = dict(values.keyed)
        if base is None:
            if values.rows is not None:
                self._store.keep(Base(os.path.join(self._folder, self._file), record))
            return PartRecord(record, counts=counts)
        # What was linked into this folder stays there when the earlier checkpoint is deleted.
        name = os.path.basename(base.path)
        self._store.keep(Base(os.path.join(self._folder, name), base.record))
        return PartRecord(record, (*values.tables, *values.keyed), (name, base.record), counts)
