"""Elements that come one after the other from elsewhere: an IterableDataset of Hugging Face."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import Any

from muster._errors import DatasetError
from muster.data.adapters._kinds import is_kind
from muster.data.pipeline._handles import Handles, Stream
from muster.data.pipeline._node import UNKNOWN, Epoch, Node, Run
from muster.data.pipeline._spec import TensorSpec, as_element, spec_of
from muster.data.pipeline._structure import map_leaves


def is_streamed(source: Any) -> bool:
    """Return whether a source has elements in their order alone, and can be read anew."""
    return is_kind(source, "datasets", "IterableDataset")


class StreamedSource(Node):
    """The elements of an iterable, which is read anew for each pass.

    To go on at a position, the elements before it are read again, and not converted.

    Args:
        elements: The iterable.
    """

    cardinality = UNKNOWN
    is_constant = False

    def __init__(self, elements: Iterable[Any]) -> None:
        super().__init__(label=f"from_source({type(elements).__name__})")
        self._elements = elements

    @cached_property
    def element_spec(self) -> Any:
        """The spec of the first element, without shapes.

        Raises:
            DatasetError: There is no element.
        """
        for first in self._elements:
            return map_leaves(lambda leaf: TensorSpec(None, spec_of(leaf).dtype), as_element(first))
        raise DatasetError(f"the element_spec of {self.description} is unknown: it is empty.")

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _Streamed(iter(self._elements))


class _Streamed(Stream):
    def __init__(self, elements: Iterator[Any]) -> None:
        super().__init__()
        self._elements = elements

    def pull(self, count: int) -> Handles:
        return [as_element(each) for each in islice(self._elements, count)]

    def skip(self, count: int) -> int:
        return sum(1 for _ in islice(self._elements, count))

    def close(self) -> None:
        if hasattr(self._elements, "close"):
            self._elements.close()
