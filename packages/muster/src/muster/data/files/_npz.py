"""Sources with random access: rows of npz files, mapped into memory, ArrayRecord files, objects of users."""

import os
import struct
import zipfile
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from muster._errors import DatasetError
from muster._extras import extra_module
from muster._remote import fetch
from muster.data.files._files import FileSource, missing_file
from muster.data.pipeline._combine import merge
from muster.data.pipeline._handles import Handles, Loaded, Stacked
from muster.data.pipeline._node import Run, TableSource
from muster.data.pipeline._spec import TensorSpec, as_element, spec_of
from muster.data.pipeline._structure import map_leaves


class RandomAccess(Protocol):
    """An object with elements by number: a list, a data source of Grain, a map-style dataset of PyTorch."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class RandomAccessSource(TableSource):
    """The elements of an object, in order.

    Args:
        elements: Returns the same element for a number each time.
    """

    uniform = False

    def __init__(self, elements: RandomAccess):
        super().__init__()
        self._elements = elements

    @property
    def label(self) -> str:
        return f"from_source({type(self._elements).__name__} of {self.cardinality})"

    @cached_property
    def cardinality(self) -> int:
        return len(self._elements)

    @cached_property
    def element_spec(self) -> Any:
        """The spec of the first element, without shapes.

        Raises:
            DatasetError: There is no element.
        """
        if not self.cardinality:
            raise DatasetError(f"the element_spec of {self.description} is unknown: it is empty.")
        first = as_element(self._elements[0])
        return map_leaves(lambda leaf: TensorSpec(None, spec_of(leaf).dtype), first)

    def load(self, run: Run, handles: Handles) -> Loaded:
        return read_rows(self._elements, handles)


def read_rows(elements: RandomAccess, handles: Handles) -> list[Any]:
    """Return the elements with these numbers, in one call if the object has ``__getitems__``."""
    rows = np.asarray(handles).tolist()
    getitems = getattr(elements, "__getitems__", None)
    found = [elements[row] for row in rows] if getitems is None else getitems(rows)
    return [as_element(element) for element in found]


class ArrayRecordSource(TableSource, FileSource):
    """The records of ArrayRecord files, as bytes, read by number with Grain.

    Args:
        files: Paths.

    Raises:
        ImportError: Grain is not installed.
    """

    kind = "ArrayRecordDataset"
    uniform = False
    element_spec = TensorSpec((), object)

    def __init__(self, files: tuple[str, ...]):
        super().__init__(files)
        self._sources = extra_module("grain.sources", "grain", self.kind)

    @cached_property
    def cardinality(self) -> int:
        with self._records() as records:
            return len(records)

    def load(self, run: Run, handles: Handles) -> Loaded:
        records = run.stores.get(self)
        if records is None:
            records = run.stores[self] = self._records()  # until the iteration ends
        return read_rows(records, handles)

    def _records(self) -> Any:
        """Open the files as a sequence of their records, which can be used in a ``with`` statement."""
        for path in self.files:
            try:
                fetch(path)
                open(path, "rb").close()  # for an error that lists the files beside it
            except OSError as exc:
                raise missing_file(self.kind, path, self.files, exc) from exc
        try:
            records = self._sources.ArrayRecordDataSource(list(self.files))
            len(records)
        except (ValueError, RuntimeError) as exc:
            raise DatasetError(f"{', '.join(self.files)}: these are no ArrayRecord files: {exc}") from exc
        return records


Columns = dict[str, np.ndarray[Any, Any]]

_LOCAL_HEADER = struct.Struct("<26xHH")  # of a member of a zip file: lengths of the name and the extra field


class NpzSource(TableSource, FileSource):
    """The rows of the arrays in npz files, read by number.

    Args:
        files: Paths.
        keys: The arrays to read, or None for all in the first file.
    """

    kind = "NpzDataset"

    def __init__(self, files: tuple[str, ...], keys: list[str] | None):
        super().__init__(files)
        self._keys = keys

    @property
    def cardinality(self) -> int:
        return int(self._ends[-1])

    @property
    def element_spec(self) -> Any:
        return {name: TensorSpec(array.shape[1:], array.dtype) for name, array in self._parts[0].items()}

    def load(self, run: Run, handles: Handles) -> Loaded:
        rows = np.asarray(handles)
        files = np.searchsorted(self._ends, rows, side="right")
        places, parts = [], []
        for number in np.unique(files).tolist():
            where = np.flatnonzero(files == number)
            local = rows[where] - (self._ends[number - 1] if number else 0)
            places.append(where)
            # Mapped arrays are not aligned: `take` would first copy all of their rows.
            parts.append({name: np.asarray(array)[local] for name, array in self._parts[number].items()})
        if not parts:
            parts, places = [{name: array[:0] for name, array in self._parts[0].items()}], [rows]
        return Stacked(parts[0], len(rows)) if len(parts) == 1 else merge(places, parts)

    @cached_property
    def _ends(self) -> np.ndarray[Any, Any]:
        return np.cumsum([len(next(iter(columns.values()))) for columns in self._parts])

    @cached_property
    def _parts(self) -> list[Columns]:
        parts = [self._open(path) for path in self.files]
        first = {name: (array.shape[1:], array.dtype) for name, array in parts[0].items()}
        for path, columns in zip(self.files, parts, strict=True):
            here = {name: (array.shape[1:], array.dtype) for name, array in columns.items()}
            if here != first:
                raise DatasetError(
                    f"The files of NpzDataset differ: {path} has {_show(here)}, {self.files[0]} has "
                    f"{_show(first)}."
                )
        return parts

    def _open(self, path: str) -> Columns:
        try:
            fetch(path)
            with zipfile.ZipFile(path) as archive:
                members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
                keys = list(members) if self._keys is None else self._keys
                if missing := [key for key in keys if key not in members]:
                    raise DatasetError(f"{path} has no array {missing[0]!r}. It has {', '.join(members)}.")
                columns = {key: _array(path, archive, members[key]) for key in keys}
        except OSError as exc:
            raise missing_file(self.kind, path, self.files, exc) from exc
        except (zipfile.BadZipFile, ValueError) as exc:
            raise (
                exc if isinstance(exc, DatasetError) else DatasetError(f"{path} is no npz file: {exc}")
            ) from exc
        lengths = {name: array.shape[:1] for name, array in columns.items()}
        if not columns or () in lengths.values() or len(set(lengths.values())) > 1:
            raise DatasetError(
                f"{path}: its arrays must have rows, all as many, got the lengths {lengths}. Choose some by "
                "keys."
            )
        return columns


def _show(columns: dict[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{name}: {dtype}{list(shape)}" for name, (shape, dtype) in columns.items())


def _array(path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """Map an array of a file into memory, or read it if it is compressed."""
    if info.compress_type != zipfile.ZIP_STORED:
        with archive.open(info) as member:
            return np.lib.format.read_array(member, allow_pickle=False)
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        file.seek(name + extra, os.SEEK_CUR)
        version = np.lib.format.read_magic(file)
        read_header = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read_header(file)
        if dtype.hasobject:
            raise DatasetError(
                f"{path}: {info.filename} holds Python objects, which are not read from files."
            )
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.memmap(path, dtype, "r", file.tell(), shape, "F" if fortran else "C")
