"""The values that a server writes into a checkpoint, as of one instant."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from muster.checkpoint import FileRecord, changed_rows, column_of_key, gone_of, ids_of, write_part
from muster.ps._flat_layout import Array
from muster.ps._row_snapshots import RowPiece, RowSnapshot, as_slice

_NONE: Mapping[str, int] = {}
_ID = "int64"


class Base(NamedTuple):
    """A file with all rows of tables: its path, and its record."""

    path: str
    record: FileRecord


class ShardSnapshot(NamedTuple):
    """Arrays, and rows of tables.

    Attributes:
        arrays: Arrays by name, which do not change.
        tables: The names of the tables whose rows have numbers, each of which is an array.
        keyed: How many rows there are of those tables whose rows have ids, by their keys.
        rows: Their rows, which do change, in this order; None if there are none. All, or those that differ
            from a base.
    """

    arrays: Mapping[str, Array]
    tables: tuple[str, ...] = ()
    keyed: Mapping[str, int] = _NONE
    rows: RowSnapshot | None = None

    @property
    def needs_base(self) -> bool:
        """True if unchanged rows are missing."""
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
        of_parts = zip((*self.tables, *self.keyed), rows.counts, rows.gone, rows.layouts, strict=True)
        for name, count, gone, layout in of_parts:
            if name not in self.keyed:
                ((shape, dtype),) = layout
                blank[name] = (count, *shape), dtype
                if not rows.whole:
                    blank[changed_rows(name)] = (count,), _ID
                continue
            blank[ids_of(name)] = (count,), _ID
            for number, (shape, dtype) in enumerate(layout):
                blank[column_of_key(name, number)] = (count, *shape), dtype
            if not rows.whole:
                blank[gone_of(name)] = (gone,), _ID
        return write_part(folder, file, self.arrays, blank, self._fill)

    def close(self, written: bool) -> None:
        """Say whether all of it is in a checkpoint now."""
        if self.rows is not None:
            self.rows.close(written)

    def _fill(self, views: Mapping[str, Array]) -> Iterator[int]:
        """Write the rows, and return after each piece how many bytes that were."""
        names = (*self.tables, *self.keyed)
        whole = self.rows is not None and self.rows.whole
        filled: dict[str, int] = {}

        def write(key: str, array: Array) -> None:
            start = filled.get(key, 0)
            filled[key] = start + len(array)
            views[key][start : start + len(array)] = array

        for piece in self.rows or ():
            name = names[piece.part]
            if name in self.keyed:
                for key, array in _keyed_arrays(name, piece):
                    write(key, array)
            elif whole:
                views[name][as_slice(piece.ids)] = piece.arrays[0]
            else:
                write(changed_rows(name), piece.ids)
                write(name, piece.arrays[0])
            yield piece.ids.nbytes + sum(array.nbytes for array in piece.arrays)


def _keyed_arrays(name: str, piece: RowPiece) -> Iterator[tuple[str, Array]]:
    """Return the arrays of a piece of rows with ids, by their keys."""
    if not piece.arrays:
        yield gone_of(name), piece.ids
        return
    yield ids_of(name), piece.ids
    for number, array in enumerate(piece.arrays):
        yield column_of_key(name, number), array
