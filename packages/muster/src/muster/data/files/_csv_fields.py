"""Parse CSV lines in requests to exported models."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from muster.data.files._csv import CsvColumn
from muster.data.files._placeholder import ComputedPlaceholder, Parsed, Placeholder, PlaceholderCall
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
