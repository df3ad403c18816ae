"""Placeholders for values that an exported model's host computes from requests by Python code."""

from collections.abc import Iterable

from numpy.typing import DTypeLike

from muster.data.files._placeholder import ComputedPlaceholder, Placeholder, PlaceholderCall
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
