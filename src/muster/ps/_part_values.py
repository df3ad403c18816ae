"""What a server writes into a checkpoint, as of one instant."""

from collections.abc import Mapping
from typing import NamedTuple

from muster.checkpoint import FileRecord, changed_rows, write_part
from muster.ps._flat_layout import Array
from muster.ps._row_snapshots import RowSnapshot


class Base(NamedTuple):
    """A file with all rows of tables: its path, and its record."""

    path: str
    record: FileRecord


class PartValues(NamedTuple):
    """Arrays, and rows of tables.

    Attributes:
        arrays: Arrays by name, which do not change.
        tables: The names of the tables, each of which is an array.
        rows: Their rows, which do change; None if there are none. All, or those that differ from a base.
    """

    arrays: Mapping[str, Array]
    tables: tuple[str, ...] = ()
    rows: RowSnapshot | None = None

    @property
    def needs_base(self) -> bool:
        """Whether rows that have not changed are missing."""
        return self.rows is not None and not self.rows.whole

    def write(self, folder: str, file: str) -> FileRecord:
        """Write a data file of a checkpoint.

        Raises:
            ValueError: The name is none of a data file.
            OSError: It cannot be written; nothing of it is left.
        """
        rows = self.rows
        if rows is None:
            return write_part(folder, file, self.arrays)
        blank: dict[str, tuple[tuple[int, ...], str]] = {}
        for name, count, ((shape, dtype),) in zip(self.tables, rows.counts, rows.layouts, strict=True):
            blank[name] = (count, *shape), dtype
            if not rows.whole:
                blank[changed_rows(name)] = (count,), "int64"
        return write_part(folder, file, self.arrays, blank, self._fill)

    def close(self, written: bool) -> None:
        """Say whether all of it is in a checkpoint now."""
        if self.rows is not None:
            self.rows.close(written)

    def _fill(self, views: Mapping[str, Array]) -> None:
        rows = self.rows
        filled = dict.fromkeys(self.tables, 0)
        for part, ids, (array,) in rows or ():
            name = self.tables[part]
            if rows is not None and rows.whole:
                views[name][ids] = array
            else:
                start, stop = filled[name], filled[name] + len(ids)
                views[changed_rows(name)][start:stop], views[name][start:stop] = ids, array
                filled[name] = stop
