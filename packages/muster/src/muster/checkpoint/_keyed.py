"""Store rows with ids in a checkpoint's data files, and read them in pieces.

What is kept for the ids of a hashed table are arrays with a row for each id, in any order: the ids, when and
how often each occurred, the rows, and the slots of an optimizer. Others are of the ids that wait for more
occurrences. Each server has its own in its file, and a clock that counts pushes.
"""

import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from muster._arrays import dtype_named
from muster._errors import CheckpointError, CheckpointNotFoundError
from muster.checkpoint import _mapped_array
from muster.checkpoint._arrays import open_regular
from muster.checkpoint._manifest import Manifest, Piece, VariableRecord
from muster.checkpoint._mapped_array import ArrayPlace, MappedArray, MappedFile, MappedRows

Array = np.ndarray[Any, Any]

# Of what is kept for each id: the clock and the count, the row, and then the slots.
NOTES, ROWS = 0, 1
# How many bytes of it are read at a time.
_PIECE_BYTES = 8 << 20
_NO_IDS = np.empty(0, np.int64)


def ids_of(key: str) -> str:
    """Return the key of the ids of rows, by the key of these."""
    return f"{key}#ids"


def column_of_key(key: str, number: int) -> str:
    """Return the key of what each row has, by its number."""
    return f"{key}#{number}"


def gone_of(key: str) -> str:
    """Return the key of the ids of rows that are gone since all were written."""
    return f"{key}#gone"


def waiting_for(key: str) -> str:
    """Return the key of the ids that wait for more occurrences, by that of the table."""
    return f"{key}#waiting"


def clock_of(key: str) -> str:
    """Return the key of the clocks of a table."""
    return f"{key}#clock"


class KeyedPiece(NamedTuple):
    """Some rows of a hashed table.

    Attributes:
        ids: int64 of shape (n,), all different, in any order.
        uses: uint32 of shape (n, 2): the table's clock when each id was last trained, and how often it was.
        columns: The rows and slots that were asked for, each of n rows; none for ids that have no rows yet.
        waiting: Whether these are ids without rows.
    """

    ids: Array
    uses: Array
    columns: tuple[Array, ...]
    waiting: bool = False


class SavedTable:
    """A hashed table in a checkpoint, which is read in pieces.

    Args:
        path: The directory of the checkpoint.
        name: The name of the table: that of its variable.
        records: The variables of the checkpoint.

    Attributes:
        name: As given.
        columns: The names of the rows and their slots, in order: variables of the checkpoint.
    """

    def __init__(self, path: str, name: str, records: Mapping[str, VariableRecord]) -> None:
        self.name = name
        self._path = path
        self._records = records
        (self._key,) = {piece.keyed for piece in records[name].pieces}
        columns: dict[int, str] = {}
        for column, record in records.items():
            prefix, _, number = record.pieces[0].key.rpartition("#")
            if record.pieces[0].keyed == prefix == self._key and number.isdigit() and int(number) >= ROWS:
                columns[int(number)] = column
        columns[ROWS] = name  # it may be there under several names
        self.columns = tuple(columns[number] for number in sorted(columns))

    def __len__(self) -> int:
        return self._records[self.name].shape[0]

    @property
    def waiting(self) -> int:
        """The number of ids without a row yet, which wait for more occurrences."""
        return self._records[waiting_for(self.name)].shape[0]

    def shape(self, column: str) -> tuple[int, ...]:
        """Return the shape of a row of a column."""
        return self._records[column].shape[1:]

    def place(self, column: str) -> int:
        """Return which of the variables of the checkpoint a column is, counted from 0."""
        return [*self._records].index(column)

    def clock(self) -> int:
        """Return how many pushes it had seen, to which `KeyedPiece.uses` refer."""
        with self._opened() as files:
            return self._clocks(files)[0]

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[KeyedPiece]:
        """Return all rows, and the ids that wait for more occurrences, some at a time.

        The checkpoint must have been checked, as `read_checkpoint` does.

        Args:
            columns: The columns to read; None for all.

        Raises:
            CheckpointNotFoundError: The checkpoint was deleted.
            CheckpointError: It cannot be read.
        """
        names = self.columns if columns is None else columns
        with self._opened() as files:
            clocks = self._clocks(files)
            sources = [(False, self.name, names), (True, waiting_for(self.name), ())]
            for waiting, of, wanted in sources:
                listed = [of if waiting else ids_of(of), _uses_of(of), *wanted]
                pieces = [self._records[each].pieces for each in listed]
                for number, each in enumerate(zip(*pieces, strict=True)):
                    shift = np.uint32((clocks[0] - clocks[number]) % (1 << 32))
                    for ids, uses, *found in self._of_part(files, each, listed):
                        uses[:, 0] += shift
                        yield KeyedPiece(ids, uses, tuple(found), waiting)

    def sorted(self, column: str) -> tuple[Array, "Array | MappedArray"]:
        """Return the ids that have rows, and a column of these, which stays in the files if it is large.

        Returns:
            The ids, int64 of shape (n,), ascending without signs; and their rows, followed by one of zeros.

        Raises:
            CheckpointNotFoundError: The checkpoint was deleted.
            CheckpointError: It cannot be read.
        """
        ids, places, parts, end = [_NO_IDS], [_NO_IDS], [], 0
        record = self._records[column]
        with self._opened() as files:
            for piece, keys in zip(record.pieces, self._records[ids_of(self.name)].pieces, strict=True):
                for file, replaced in self._files_of(files, keys):
                    found = files.array(file, keys.key, (), "int64")
                    stays = np.flatnonzero(_are_absent(found, replaced))
                    ids.append(found[stays])
                    places.append(end + stays)
                    if len(found):
                        parts.append(MappedRows(end, end + len(found), files.place(file, piece.key)))
                    end += len(found)
        unordered = np.concatenate(ids)
        order = np.argsort(unordered.view(np.uint64), kind="stable")
        stored = MappedArray((end, *record.shape[1:]), dtype_named(record.dtype), parts)
        rows = stored.reordered(np.concatenate(places)[order])
        if rows.nbytes >= _mapped_array.LEAST_MAPPED_BYTES:
            return unordered[order], rows
        try:
            return unordered[order], np.asarray(rows)
        finally:
            rows.close()

    @contextmanager
    def _opened(self) -> Iterator["_Files"]:
        """Return the data files, open in a ``with`` block."""
        try:
            with ExitStack() as stack:
                yield _Files(self._path, stack)
        except FileNotFoundError as exc:
            raise CheckpointNotFoundError(f"The checkpoint {self._path} was deleted.") from exc
        except OSError as exc:
            raise CheckpointError(f"The checkpoint at {self._path} cannot be read: {exc}.") from exc

    def _files_of(self, files: "_Files", ids: Piece) -> Iterator[tuple[str, Array]]:
        """Return the files of a server's part: that with all rows, and that with those that have changed
        since; with each the ids, in ascending order, of rows in it that do not count any more."""
        changes = ids.changes
        if changes is None:
            yield ids.file, _NO_IDS
            return
        keys = changes.rows, gone_of(ids.keyed)
        yield ids.file, np.sort(np.concatenate([files.array(changes.file, key, (), "int64") for key in keys]))
        yield changes.file, _NO_IDS

    def _clocks(self, files: "_Files") -> list[int]:
        """Return the clock of each part."""
        pieces = self._records[clock_of(self.name)].pieces
        return [int(files.array(each.file, each.key, (), "int64", 0, 1)[0]) for each in pieces]

    def _of_part(
        self, files: "_Files", pieces: Sequence[Piece], names: Sequence[str]
    ) -> Iterator[list[Array]]:
        """Return arrays of a server's part, some rows at a time; the first one has their ids."""
        records = [self._records[name] for name in names]
        layouts = [(record.shape[1:], record.dtype) for record in records]
        nbytes = sum(dtype_named(dtype).itemsize * int(np.prod(shape)) for shape, dtype in layouts)
        step = max(1, _PIECE_BYTES // nbytes)
        for file, replaced in self._files_of(files, pieces[0]):
            count = files.count(file, pieces[0].key)
            for start in range(0, count, step):
                stop = min(start + step, count)
                arrays = [
                    files.array(file, piece.key, *layout, start, stop)
                    for piece, layout in zip(pieces, layouts, strict=True)
                ]
                if len(replaced):
                    stays = _are_absent(arrays[0], replaced)
                    arrays = [array[stays] for array in arrays]
                yield arrays


def tables_of(path: str, manifest: Manifest) -> dict[str, SavedTable]:
    """Return the hashed tables of a checkpoint, by name, in their order."""
    found = {
        name
        for name, record in manifest.variables.items()
        if record.is_keyed and record.pieces[0].key == column_of_key(record.pieces[0].keyed, ROWS)
    }
    return {name: SavedTable(path, name, manifest.variables) for name in manifest.variables if name in found}


def column_record(
    key: str, number: int, shape: tuple[int, ...], dtype: str, files: Sequence[str]
) -> VariableRecord:
    """Return the record of what each row has, before it is known how many there are.

    Args:
        key: The key of the rows.
        number: The number of the column.
        shape: The shape of a row.
        dtype: The name of its dtype.
        files: The data file of each part.
    """
    return _record(key, column_of_key(key, number), shape, dtype, files)


def table_records(name: str, key: str, files: Sequence[str]) -> dict[str, VariableRecord]:
    """Return the records of what a checkpoint has of a hashed table beside rows and slots, by their names.

    Args:
        name: The name of the table.
        key: The key of its rows.
        files: The data file of each part.
    """
    waiting = waiting_for(key)
    clocks = [Piece(file, clock_of(key), part, part + 1) for part, file in enumerate(files)]
    return {
        ids_of(name): _record(key, ids_of(key), (), "int64", files),
        _uses_of(name): column_record(key, NOTES, (2,), "uint32", files),
        waiting_for(name): _record(waiting, ids_of(waiting), (), "int64", files),
        _uses_of(waiting_for(name)): column_record(waiting, NOTES, (2,), "uint32", files),
        clock_of(name): VariableRecord((len(files),), "int64", tuple(clocks)),
    }


def _record(keyed: str, key: str, shape: tuple[int, ...], dtype: str, files: Sequence[str]) -> VariableRecord:
    return VariableRecord((0, *shape), dtype, tuple(Piece(file, key, 0, 0, keyed=keyed) for file in files))


def joined_piece(piece: Piece, files: Mapping[str, Mapping[str, Array]], dtype: np.dtype[Any]) -> Array:
    """Return the elements of a piece of rows with ids.

    Args:
        piece: The piece.
        files: The bytes of the arrays of each data file, by key.
        dtype: The dtype of the elements.
    """
    elements: Array = files[piece.file][piece.key].view(dtype)
    if (changes := piece.changes) is None:
        return elements
    of = files[changes.file]
    replaced = np.concatenate([of[changes.rows].view(np.int64), of[gone_of(piece.keyed)].view(np.int64)])
    stays = _are_absent(files[piece.file][ids_of(piece.keyed)].view(np.int64), np.sort(replaced))
    rows = elements.reshape(len(stays), -1)[stays] if len(stays) else elements
    return np.concatenate([rows.reshape(-1), of[changes.key].view(dtype)])


def _are_absent(ids: Array, others: Array) -> Array:
    """Return which of some ids are not among others, which are sorted."""
    if not len(others):
        return np.ones(len(ids), bool)
    places = np.minimum(np.searchsorted(others, ids), len(others) - 1)
    return np.asarray(others[places] != ids)


def _uses_of(name: str) -> str:
    return f"{name}#uses"


class _Files:
    """The data files of a checkpoint, of whose arrays rows are read."""

    def __init__(self, path: str, stack: ExitStack) -> None:
        self._path = path
        self._stack = stack
        self._opened: dict[str, tuple[BinaryIO, int, dict[str, Any]]] = {}

    def count(self, name: str, key: str) -> int:
        """Return how many rows an array has."""
        _, _, entries = self._open(name)
        return int(entries[key]["shape"][0])

    def array(
        self,
        name: str,
        key: str,
        shape: tuple[int, ...],
        dtype: str,
        start: int = 0,
        stop: int | None = None,
    ) -> Array:
        """Return some rows of an array of a file, by the shape and dtype of a row."""
        file, begin, entries = self._open(name)
        kind = dtype_named(dtype)
        nbytes = kind.itemsize * int(np.prod(shape))
        first, last = entries[key]["data_offsets"]
        stop = (last - first) // nbytes if stop is None else stop
        buffer = np.empty((stop - start) * nbytes, np.uint8)
        file.seek(begin + first + start * nbytes)
        view, done = buffer.data, 0
        while done < len(view):
            if not (count := file.readinto(view[done:])):  # type: ignore[attr-defined]
                raise OSError(f"{name} has become shorter")
            done += count
        return buffer.view(kind).reshape(-1, *shape)

    def place(self, name: str, key: str) -> ArrayPlace:
        """Return where an array of a file is, which stays mapped into memory when this file is closed."""
        file, begin, entries = self._open(name)
        return ArrayPlace(MappedFile(file), begin + int(entries[key]["data_offsets"][0]))

    def _open(self, name: str) -> tuple[BinaryIO, int, dict[str, Any]]:
        if name not in self._opened:
            path = os.path.join(self._path, name)
            file = self._stack.enter_context(open(path, "rb", buffering=0, opener=open_regular))
            (length,) = struct.unpack("<Q", file.read(8))
            self._opened[name] = file, 8 + length, json.loads(file.read(length))
        return self._opened[name]
