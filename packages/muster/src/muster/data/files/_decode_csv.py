"""``tf.io.decode_csv``: values of lines that are in CSV format, also in requests to exported models."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from muster._errors import DatasetError
from muster.data.files._csv import CsvColumn, CsvFormat
from muster.data.files._placeholder import ComputedPlaceholder, Parsed, Placeholder, PlaceholderCall
from muster.data.pipeline._rows import by_rows, of_each
from muster.data.pipeline._stand_in import StandIn
from muster.data.pipeline._structure import replaced


class HostPlaceholder(Placeholder):
    """Stands for values that the host computes of those of other placeholders.

    Args:
        dtype: As for `Placeholder`.
        shape: As for `Placeholder`.
        call: What computes them.
        number: Which of the leaves of its results it is.
        column_of: The placeholder whose values, in a single axis, are its column; None if it has others.
    """

    __slots__ = ("_call", "_column_of", "_number")

    def __init__(
        self,
        dtype: DTypeLike,
        shape: Iterable[int | None] | None,
        call: PlaceholderCall,
        number: int,
        column_of: Placeholder | None = None,
    ) -> None:
        super().__init__(dtype, shape)
        self._call, self._number, self._column_of = call, number, column_of

    @property
    def call(self) -> PlaceholderCall:
        """The call that computes the values."""
        return self._call

    @property
    def number(self) -> int:
        """Its index among the leaves of the call's results."""
        return self._number

    @property
    def column_of(self) -> Placeholder | None:
        """The placeholder whose values are its only column; None if it has others."""
        return self._column_of


def sources_of(placeholder: Placeholder) -> list[Placeholder]:
    """Return what a placeholder is computed of in the end: what requests fill, or is parsed of it."""
    if not isinstance(placeholder, HostPlaceholder | ComputedPlaceholder):
        return [placeholder]
    found: list[Placeholder] = []
    replaced((placeholder.call.args, placeholder.call.kwargs), Placeholder, found.append)
    return list(dict.fromkeys(source for each in found for source in sources_of(each)))


@dataclass(frozen=True, kw_only=True)
class CsvField:
    """Describes a field of lines.

    Attributes:
        place: The number of the field, from 0.
        dtype: float32, float64, int32, int64 or text.
        default: The value of an empty field; None refuses empty ones.
        fields: The number of fields in a line; None for any.
        field_delim: The character between fields.
        use_quote_delim: Whether fields may be in double quotes.
        na_value: Text that stands for an empty field.
        shape: The shape of the value of a line: () or (1,).
    """

    place: int
    dtype: np.dtype[Any]
    default: Any = None
    fields: int | None = None
    field_delim: str = ","
    use_quote_delim: bool = True
    na_value: str = ""
    shape: tuple[int, ...] = ()


def csv_placeholders(
    records: Placeholder,
    columns: Sequence[CsvColumn],
    field_delim: str,
    use_quote_delim: bool,
    na_value: str,
    select_cols: Sequence[int] | None,
) -> list[Placeholder]:
    """Return what stands for the fields of lines; arguments as for `decode_csv`."""
    lines = records.column_of if isinstance(records, ComputedPlaceholder | HostPlaceholder) else records
    if lines is None or lines.parsed is not None or lines.shape is None or len(lines.shape) != 1:
        raise TypeError(f"An exported model reads CSV of a vector of lines, got {records!r}.")
    places = range(len(columns)) if select_cols is None else select_cols
    found = []
    for place, column in zip(places, columns, strict=True):
        field = CsvField(
            place=place,
            dtype=column.dtype,
            default=column.default,
            fields=len(columns) if select_cols is None else None,
            field_delim=field_delim,
            use_quote_delim=use_quote_delim,
            na_value=na_value,
            shape=(1,) if lines is not records else (),
        )
        parsed = Parsed(lines, str(place), field)
        found.append(Placeholder(column.dtype, (*lines.shape, *field.shape), parsed=parsed))
    return found


_TEXT = np.dtype(str)


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    name: str | None = None,
) -> list[Any]:
    """Read lines of CSV files, in the ``map`` of a `TextLineDataset`.

    Args:
        records: A line, or an array of lines, each of one row.
        record_defaults: For each column its default, or its dtype or an empty array if every row has a value:
            float32, float64, int32, int64 or text.
        field_delim: The character between fields.
        use_quote_delim: Whether fields may be in double quotes.
        na_value: Text that stands for an empty field.
        select_cols: The numbers of the columns to read, rising; None reads all.
        name: Ignored.

    Returns:
        For each column an array of the shape of ``records``; of one line its values; of a `Placeholder` of
        lines, one for the values.

    Raises:
        DatasetError: A line has not as many fields as there are columns, or a field is not of the column's
            dtype, or it is empty without a default.

    Source: tensorflow/python/ops/parsing_ops.py, ``decode_csv_v2``.
    """
    if isinstance(records, StandIn):
        named = (record_defaults, field_delim, use_quote_delim, na_value, select_cols)
        found: list[Any] = records.source.compute(decode_csv, (records, *named), {})
        return found
    columns = [CsvColumn.of(default) for default in record_defaults]
    if select_cols is not None and len(select_cols) != len(columns):
        raise ValueError(
            f"There are {len(columns)} record_defaults for {len(select_cols)} columns in select_cols."
        )
    if isinstance(records, Placeholder):
        return csv_placeholders(records, columns, field_delim, use_quote_delim, na_value, select_cols)
    form = CsvFormat(field_delim=field_delim, use_quote_delim=use_quote_delim, na_value=na_value)
    places = range(len(columns)) if select_cols is None else list(select_cols)
    alone = isinstance(records, str | bytes)
    lines = np.asarray(records, object)
    texts = [line.decode() if isinstance(line, bytes) else str(line) for line in lines.ravel().tolist()]
    fields_of = _splitter(texts, form)
    fields: list[str] = []  # in one list, as in `CsvRows`
    wanted = len(columns) if select_cols is None else max(places, default=-1) + 1
    for number, text in enumerate(texts):
        row = fields_of(text)
        if len(row) < wanted or (len(row) > wanted and select_cols is None):
            raise DatasetError(f"Expect {wanted} fields but have {len(row)} in record {number}: {text!r}.")
        fields += row[:wanted]
    read = []
    for place, column in zip(places, columns, strict=True):
        try:
            values = column.read(fields[place::wanted], form.na_value)
        except (ValueError, OverflowError) as exc:
            raise DatasetError(f"Field {place} cannot be read as {column.dtype}: {exc}.") from exc
        array = np.asarray(values)
        if alone:
            read.append(str(array[0]) if array.dtype.kind == "U" else array[0])
        else:
            read.append(array.reshape(lines.shape))
    return read


by_rows(of_each, decode_csv)


def _splitter(lines: Sequence[str], form: CsvFormat) -> Callable[[str], list[str]]:
    """Return what takes the fields of each of some lines: Python's reader where there are quotes."""
    delimiter = form.field_delim
    special = ("\r", "\n", '"') if form.use_quote_delim else ("\r", "\n")
    if not any(mark in line for mark in special for line in lines):
        return lambda line: line.split(delimiter) if line else []
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if form.use_quote_delim else csv.QUOTE_NONE
    return lambda line: next(csv.reader([line], delimiter=delimiter, quoting=quoting), [])


def read_csv_fields(lines: Any, wanted: Mapping[str, CsvField]) -> dict[str, np.ndarray[Any, Any]]:
    """Read fields of lines.

    Args:
        lines: Text, shape (n,).
        wanted: The fields by key.

    Returns:
        By key the values, shape (n, …).

    Raises:
        DatasetError: As by `decode_csv`.
    """
    forms = {
        key: replace(field, place=0, dtype=_TEXT, default=None, shape=()) for key, field in wanted.items()
    }
    texts = {}
    for form in set(forms.values()):
        count = form.fields or 1 + max(wanted[key].place for key in wanted if forms[key] == form)
        texts[form] = decode_csv(
            np.asarray(lines, object),
            [""] * count,
            form.field_delim,
            form.use_quote_delim,
            form.na_value,
            None if form.fields else range(count),
        )
    found = {}
    for key, field in wanted.items():
        try:
            values = CsvColumn(field.dtype, field.default).read(texts[forms[key]][field.place].tolist(), "")
        except (ValueError, OverflowError) as exc:
            raise DatasetError(f"Field {field.place} cannot be read as {field.dtype}: {exc}.") from exc
        found[key] = np.asarray(values).reshape(-1, *field.shape)
    return found
