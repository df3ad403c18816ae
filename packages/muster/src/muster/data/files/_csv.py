"""Rows of CSV files, read in chunks and converted to arrays by column."""

import csv
import io
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from typing import Any, Literal, NamedTuple

import numpy as np

from muster._errors import DatasetError
from muster.data.files._chunks import Chunk, ChunkedFiles, ChunkStream, Column
from muster.data.files._files import open_binary
from muster.data.pipeline._handles import Stream
from muster.data.pipeline._spec import TensorSpec, as_array

_CHUNK = 1024  # rows
_LINE_BREAK = re.compile("\r\n|\r|\n")
_TYPES = ("float32", "float64", "int32", "int64", "str")


class CsvRows(NamedTuple):
    """Rows of a file.

    Their fields are in one list: Python's garbage collector, which looks at every list again and again, would
    take as long with a list for each row as all the rest of reading.

    Attributes:
        lines: The number of the last line of each row.
        sizes: The number of fields of each row.
        fields: The fields of all rows.
    """

    lines: Sequence[int]
    sizes: list[int]
    fields: list[str]

    def row(self, number: int) -> list[str]:
        """Return the fields of a row."""
        start = sum(self.sizes[:number])
        return self.fields[start : start + self.sizes[number]]

    def columns(self) -> list[list[str]]:
        """Return as many columns as the shortest row has fields."""
        least = min(self.sizes)
        if self.sizes.count(least) == len(self.sizes):
            return [self.fields[place::least] for place in range(least)]
        starts = [stop - size for size, stop in zip(self.sizes, accumulate(self.sizes), strict=True)]
        return [[self.fields[start + place] for start in starts] for place in range(least)]


@dataclass(frozen=True, kw_only=True)
class CsvFormat:
    """The format of a CSV file.

    Args:
        compression: ``GZIP``, ``ZLIB`` or empty.
        header: Whether the first line holds names.
        field_delim: The character between fields.
        use_quote_delim: Whether fields may be in double quotes.
        na_value: Text that stands for an empty field.
        fields: The number of fields in a row, or None to accept any.
        selected: The numbers of the fields to read, or None for all.

    Raises:
        ValueError: `field_delim` is not one character.
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

    def chunks(self, path: str, rows: int) -> Generator[CsvRows, None, None]:
        """Open a file and yield its rows that are not empty, up to so many at a time.

        Raises:
            OSError: The file cannot be opened.
            DatasetError: The file cannot be read.
        """
        raw = open_binary(path, self.compression)
        return self._chunks(path, io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""), rows)

    def _chunks(self, path: str, file: io.TextIOWrapper, rows: int) -> Generator[CsvRows, None, None]:
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.use_quote_delim else csv.QUOTE_NONE
        with file:
            reader = csv.reader(file, delimiter=self.field_delim, quoting=quoting, strict=True)
            try:
                if self.header:
                    next(reader, None)
                before = reader.line_num
                while (read := _rows(islice(reader, rows))).sizes:
                    lines = _last_lines(read, before, reader.line_num)
                    before = reader.line_num
                    yield _filled(read._replace(lines=lines))
            except (csv.Error, UnicodeDecodeError, OSError, zlib.error) as exc:
                raise DatasetError(
                    f"{path}, after line {reader.line_num}: it cannot be read: {exc}."
                ) from exc


def _rows(reader: Iterable[list[str]]) -> CsvRows:
    """Return rows, with no line numbers."""
    sizes: list[int] = []
    fields: list[str] = []
    for row in reader:
        sizes.append(len(row))
        fields += row
    return CsvRows((), sizes, fields)


def _last_lines(rows: CsvRows, before: int, last: int) -> Sequence[int]:
    """Return the number of each row's last line, of rows that begin after a line and end with another."""
    if last - before == len(rows.sizes):
        return range(before + 1, last + 1)
    # Fields in quotes go over several lines.
    fields = iter(rows.fields)
    counts = (
        1 + sum(len(_LINE_BREAK.findall(field)) for field in islice(fields, size)) for size in rows.sizes
    )
    return list(accumulate(counts, initial=before))[1:]


def _filled(rows: CsvRows) -> CsvRows:
    """Leave out the rows of empty lines."""
    if all(rows.sizes):
        return rows
    lines = [line for line, size in zip(rows.lines, rows.sizes, strict=True) if size]
    return rows._replace(lines=lines, sizes=list(filter(None, rows.sizes)))


@dataclass(frozen=True)
class CsvColumn:
    """The type of a column.

    Args:
        dtype: float32, float64, int32, int64 or str.
        default: The value of an empty field, or None to refuse empty fields.
    """

    dtype: np.dtype[Any]
    default: Any = None

    @classmethod
    def of(cls, record_default: Any) -> "CsvColumn":
        """Make a column of an entry of ``record_defaults``: a dtype, a value, or a list of one value or none.

        Raises:
            ValueError: CSV files have no values of this type, or there are several values.
        """
        if isinstance(record_default, type | np.dtype):
            return cls(_known(np.dtype(record_default)))
        values = list(record_default) if isinstance(record_default, list | tuple) else record_default
        array = as_array(values).reshape(-1)
        if array.size > 1:
            raise ValueError(f"A default is one value, got {record_default!r}.")
        dtype = _known(array.dtype)
        return cls(dtype, dtype.type(array[0]) if array.size else None)

    @cached_property
    def _number(self) -> Callable[[str], Any]:
        return int if self.dtype.kind == "i" else float

    def read(self, texts: Sequence[str], na_value: str) -> Column:
        """Convert the fields of a column to an array.

        Raises:
            ValueError: A field is not a number, or is empty and has no default.
            OverflowError: A number does not fit into the type.
        """
        if self.dtype.kind == "U":
            if "" in texts or (na_value and na_value in texts):
                texts = [self._default() if text in ("", na_value) else text for text in texts]
            return np.array(texts, dtype=str)
        try:
            return np.array(list(map(self._number, texts)), self.dtype)
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
        kind: The name of the dataset.
        files: Paths.
        form: The format of the files.
        columns: The types of the selected fields, in the order of `CsvFormat.selected`.
        template: A structure like an element, whose leaves are the numbers of columns.
    """

    def __init__(
        self, kind: str, files: tuple[str, ...], form: CsvFormat, columns: list[CsvColumn], template: Any
    ):
        super().__init__(files, template, [TensorSpec((), column.dtype) for column in columns])
        self.kind = kind
        self._form = form
        self._columns = columns

    def open_file(self, path: str) -> Stream:
        return _CsvStream(path, self._form, self._columns)


class _CsvStream(ChunkStream):
    def __init__(self, path: str, form: CsvFormat, columns: list[CsvColumn]):
        self._read = form.chunks(path, _CHUNK)
        super().__init__(_CsvChunk(path, form, columns, rows) for rows in self._read)

    def close(self) -> None:
        self._read.close()


class _CsvChunk(Chunk):
    def __init__(self, path: str, form: CsvFormat, columns: list[CsvColumn], rows: CsvRows):
        super().__init__(len(rows.sizes))
        self._path = path
        self._form = form
        self._columns = columns
        self._texts = rows
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
        fields, line = self._texts.row(number), self._texts.lines[number]
        try:
            return [column[0] for column in self._read(CsvRows([line], [len(fields)], fields))]
        except (ValueError, OverflowError, IndexError) as exc:
            raise DatasetError(f"{self._path}, line {line}: {self._reason(fields)}") from exc

    def _readable(self) -> bool:
        """Return whether all rows can be read; if not, rows are read one by one."""
        if not self._broken and "columns" not in vars(self):
            try:
                _ = self.columns
            except (ValueError, OverflowError, IndexError):
                self._broken = True
            else:
                self._texts = CsvRows([], [], [])  # now in the arrays
        return not self._broken

    def _read(self, rows: CsvRows) -> list[Column]:
        expected = self._form.fields
        if expected is not None and rows.sizes.count(expected) < len(rows.sizes):
            raise IndexError
        texts = rows.columns()
        return [
            column.read(texts[place], self._form.na_value)
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
