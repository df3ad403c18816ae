"""Rows of CSV files, read a chunk at a time and turned into arrays column by column."""

import csv
import io
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster.data.files._chunks import Chunk, ChunkedFiles, ChunkStream, Column
from muster.data.files._files import open_binary
from muster.data.pipeline._node import Stream
from muster.data.pipeline._spec import TensorSpec, as_array

_CHUNK = 1024  # rows
_TYPES = ("float32", "float64", "int32", "int64", "str")


@dataclass(frozen=True, kw_only=True)
class CsvFormat:
    """How a file is written.

    Args:
        compression: of the file.
        header: whether its first line holds names.
        field_delim: what is between two fields.
        use_quote_delim: whether a field may be in double quotes.
        na_value: a field that stands for nothing, as an empty one does.
        fields: how many fields a row has; None if that is not checked.
        selected: the numbers of the fields that are read; None for all.
    """

    compression: str = ""
    header: bool = False
    field_delim: str = ","
    use_quote_delim: bool = True
    na_value: str = ""
    fields: int | None = None
    selected: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.field_delim, str) or len(self.field_delim) != 1:
            raise ValueError(f"field_delim is one character, got {self.field_delim!r}.")

    def rows(self, path: str) -> Generator[tuple[int, list[str]], None, None]:
        """The number of its last line, and the fields, of each row that is not empty.

        Raises:
            OSError: The file cannot be opened.
            DatasetError: It cannot be read.
        """
        raw = open_binary(path, self.compression)
        return self._rows(path, io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""))

    def _rows(self, path: str, file: io.TextIOWrapper) -> Generator[tuple[int, list[str]], None, None]:
        quoting: Any = csv.QUOTE_MINIMAL if self.use_quote_delim else csv.QUOTE_NONE
        with file:
            reader = csv.reader(file, delimiter=self.field_delim, quoting=quoting, strict=True)
            try:
                if self.header:
                    next(reader, None)
                for row in reader:
                    if row:
                        yield reader.line_num, row
            except (csv.Error, UnicodeDecodeError, OSError, zlib.error) as exc:
                raise DatasetError(
                    f"{path}, after line {reader.line_num}: it cannot be read: {exc}."
                ) from exc


@dataclass(frozen=True)
class CsvColumn:
    """What a column is read as.

    Args:
        dtype: float32, float64, int32, int64 or str.
        default: stands in for a field that is empty; None if there must be a value.
    """

    dtype: np.dtype[Any]
    default: Any = None

    @classmethod
    def of(cls, given: Any) -> "CsvColumn":
        """From what ``record_defaults`` has for it: a dtype, or a default value (in a list, if you like).

        Raises:
            ValueError: The type is none that CSV files are read as.
        """
        if isinstance(given, type | np.dtype):
            return cls(_known(np.dtype(given)))
        array = as_array(list(given) if isinstance(given, list | tuple) else given).reshape(-1)
        if array.size > 1:
            raise ValueError(f"A default is one value, got {given!r}.")
        dtype = _known(array.dtype)
        return cls(dtype, dtype.type(array[0]) if array.size else None)

    @cached_property
    def _number(self) -> Callable[[str], Any]:
        return int if self.dtype.kind == "i" else float

    def read(self, texts: Sequence[str], na_value: str) -> Column:
        """The fields of a column as an array.

        Raises:
            ValueError, OverflowError: One cannot be read.
        """
        if self.dtype.kind == "U":
            if "" in texts or (na_value and na_value in texts):
                texts = [self._default() if text in ("", na_value) else text for text in texts]
            return np.array(texts, dtype=str)
        try:
            return np.array([self._number(text) for text in texts], self.dtype)
        except ValueError:
            numbers = (self._default() if t in ("", na_value) else self._number(t) for t in texts)
            return np.array(list(numbers), self.dtype)

    def _default(self) -> Any:
        if self.default is None:
            raise ValueError("it is empty, and the column has no default")
        return self.default


def _known(dtype: np.dtype[Any]) -> np.dtype[Any]:
    name = "str" if dtype.kind in "US" else str(dtype)
    if name not in _TYPES:
        raise ValueError(f"A column of a CSV file has one of the types {', '.join(_TYPES)}, got {dtype}.")
    return np.dtype(str) if name == "str" else dtype


class CsvSource(ChunkedFiles):
    """The rows of CSV files.

    Args:
        kind: the name of the dataset.
        files: paths.
        form: how they are written.
        columns: what is read of each row, in the order of its fields.
        template: the structure of an element, whose leaves are the numbers of columns.
    """

    def __init__(
        self, kind: str, files: tuple[str, ...], form: CsvFormat, columns: list[CsvColumn], template: Any
    ):
        super().__init__(kind, files, template, [TensorSpec((), column.dtype) for column in columns])
        self._form = form
        self._columns = columns

    def open_file(self, path: str) -> Stream:
        return _CsvStream(path, self._form, self._columns)


class _CsvStream(ChunkStream):
    def __init__(self, path: str, form: CsvFormat, columns: list[CsvColumn]):
        self._rows = form.rows(path)
        super().__init__(self._read(path, form, columns))

    def close(self) -> None:
        self._rows.close()

    def _read(self, path: str, form: CsvFormat, columns: list[CsvColumn]) -> Iterator[Chunk]:
        while rows := list(islice(self._rows, _CHUNK)):
            yield _CsvChunk(path, form, columns, rows)


class _CsvChunk(Chunk):
    def __init__(
        self, path: str, form: CsvFormat, columns: list[CsvColumn], rows: list[tuple[int, list[str]]]
    ):
        super().__init__(len(rows))
        self._path = path
        self._form = form
        self._columns = columns
        self._lines = [line for line, _ in rows]
        self._texts = [row for _, row in rows]
        self._places = range(len(columns)) if form.selected is None else form.selected
        self._broken = False

    @cached_property
    def columns(self) -> list[Column]:
        return self._read(self._texts)

    def part(self, start: int, stop: int) -> list[Column]:
        if self._readable():
            return super().part(start, stop)
        return [np.array(column) for column in zip(*map(self.row, range(start, stop)), strict=True)]

    def row(self, number: int) -> list[Any]:
        if self._readable():
            return super().row(number)
        fields = self._texts[number]
        try:
            return [column[0] for column in self._read([fields])]
        except (ValueError, OverflowError, IndexError) as exc:
            raise DatasetError(f"{self._path}, line {self._lines[number]}: {self._reason(fields)}") from exc

    def _readable(self) -> bool:
        """Whether all rows can be read; where one cannot, the others are read one by one."""
        if not self._broken and "columns" not in vars(self):
            try:
                _ = self.columns
            except (ValueError, OverflowError, IndexError):
                self._broken = True
            else:
                self._texts = []  # the arrays have them
        return not self._broken

    def _read(self, rows: list[list[str]]) -> list[Column]:
        expected = self._form.fields
        if expected is not None and any(len(row) != expected for row in rows):
            raise IndexError
        return [
            column.read([row[place] for row in rows], self._form.na_value)
            for place, column in zip(self._places, self._columns, strict=True)
        ]

    def _reason(self, fields: list[str]) -> str:
        expected = self._form.fields or max(self._places) + 1
        if len(fields) != expected and (self._form.fields or len(fields) < expected):
            return f"expected {expected} fields, got {len(fields)}: {fields!r}."
        for place, column in zip(self._places, self._columns, strict=True):
            try:
                column.read([fields[place]], self._form.na_value)
            except (ValueError, OverflowError) as exc:
                name = "text" if column.dtype.kind == "U" else str(column.dtype)
                return f"field {place}, {fields[place]!r}, cannot be read as {name}: {exc}."
        return "it cannot be read."
