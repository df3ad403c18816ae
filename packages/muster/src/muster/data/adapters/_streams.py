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

# How many rows of Ray Data are read at a time.
_BLOCK_ROWS = 1024


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


class RayRows:
    """The rows of Ray Data, in their order.

    Args:
        dataset: A ``ray.data.Dataset``, or a ``DataIterator``.

    Raises:
        TypeError: It is neither.
    """

    def __init__(self, dataset: Any) -> None:
        if not is_kind(dataset, "ray", "Dataset", "DataIterator"):
            raise TypeError(f"from_ray needs a ray.data.Dataset or a DataIterator, got {dataset!r}.")
        self._dataset = dataset
        if is_kind(dataset, "ray", "Dataset"):
            # Ray's default is the order in which blocks are done: two readers would get two orders.
            dataset.context.execution_options.preserve_order = True

    def __iter__(self) -> Iterator[Any]:
        for block in self._dataset.iter_batches(batch_size=_BLOCK_ROWS, batch_format="numpy"):
            names = list(block)
            for row in zip(*block.values(), strict=True):
                yield dict(zip(names, row, strict=True))


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
