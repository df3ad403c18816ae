"""Sources of batches that other code makes: loaders, generators, lists of batches."""

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

import numpy as np

from muster._errors import DatasetError
from muster.data.adapters._arrays import as_arrays, column_names
from muster.data.adapters._kinds import is_kind, line_for
from muster.data.pipeline._handles import Handles, Loaded, Stream
from muster.data.pipeline._node import UNKNOWN, Epoch, Node, Run, TableSource
from muster.data.pipeline._spec import TensorSpec, spec_of
from muster.data.pipeline._structure import map_leaves

_log = logging.getLogger(__name__)


class _ByNumber(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


def batches_node(source: Any) -> Node:
    """Return a source of the batches of a loader.

    Args:
        source: An iterable of batches; or a function that returns one, for each pass.

    Raises:
        TypeError: It is neither.
    """
    if is_kind(source, "keras", "PyDataset"):
        if source.num_batches is not None:
            return NumberedBatches(source, source.num_batches)
        return LoadedBatches(lambda: map(source.__getitem__, itertools.count()), source)
    if isinstance(source, list):
        return NumberedBatches(source, len(source))
    if isinstance(source, Iterator):
        return LoadedBatches(_once(source), source)
    if isinstance(source, Iterable):
        return LoadedBatches(lambda: source, source)
    if callable(source):
        return LoadedBatches(source, source)
    raise TypeError(
        f"from_loader needs an iterable of batches, or a function that returns one, got {source!r}."
    )


def yields_batches(data: Any) -> bool:
    """Return whether data is an iterable of batches, rather than arrays in memory or something unknown."""
    if isinstance(data, list):
        return _are_batches(data)
    if (
        isinstance(data, Mapping | tuple | str | bytes)
        or hasattr(data, "__array__")
        or line_for(data) is not None
    ):
        return False
    if column_names(data) is not None or is_kind(data, "datasets", "Column"):
        return False
    return isinstance(data, Iterable) or is_kind(data, "keras", "PyDataset")


def _are_batches(items: list[Any]) -> bool:
    """Return whether the items of a list are structures of arrays, all alike."""
    first = items[0] if items else None
    if isinstance(first, Mapping):
        return len(first) > 0 and all(
            isinstance(each, Mapping) and each.keys() == first.keys() for each in items
        )
    if isinstance(first, tuple | list):
        arrays = isinstance(first, tuple) or any(
            hasattr(part, "__array__") and np.ndim(part) for part in first
        )
        return arrays and all(type(each) is type(first) and len(each) == len(first) for each in items)
    return False


def _once(iterator: Iterator[Any]) -> Callable[[], Iterator[Any]]:
    """Return a function that returns the iterator, and says why it cannot once more than one batch was read.

    Until then it begins again at the first batch, of which a model is made before training reads on.
    """
    first: list[Any] = []
    is_read = False

    def batches() -> Iterator[Any]:
        if is_read:
            raise DatasetError(
                f"{type(iterator).__name__} can be read once, and was. For another pass give a function that "
                "makes it: muster.data.Dataset.from_loader(lambda: ...)."
            )
        return read()

    def read() -> Iterator[Any]:
        nonlocal is_read
        if not first:
            first.extend(islice(iterator, 1))
        yield from first
        first.clear()
        is_read = True
        yield from iterator

    return batches


def _as_batch(batch: Any) -> Any:
    """Return a batch as a structure of arrays; what loaders collect in a list is a tuple."""
    return as_arrays(tuple(batch) if isinstance(batch, list) else batch)


def _varying(batch: Any) -> Any:
    """Return the spec of a batch, in which the number of examples may vary."""

    def vary(leaf: Any) -> TensorSpec:
        spec = spec_of(leaf)
        return TensorSpec((None, *spec.shape[1:]) if spec.shape else spec.shape, spec.dtype)

    return map_leaves(vary, batch)


class NumberedBatches(TableSource):
    """Batches that can be read by number: a list of them, or Keras' PyDataset.

    Args:
        batches: Returns the same batch for a number each time.
        count: How many there are.
    """

    uniform = False

    def __init__(self, batches: _ByNumber, count: int) -> None:
        super().__init__(label=f"from_loader({type(batches).__name__} of {count})")
        self._batches = batches
        self._count = count

    @property
    def cardinality(self) -> int:
        return self._count

    @cached_property
    def element_spec(self) -> Any:
        """The spec of the first batch.

        Raises:
            DatasetError: There is none.
        """
        if not self._count:
            raise DatasetError(f"the element_spec of {self.description} is unknown: it is empty.")
        return _varying(_as_batch(self._batches[0]))

    def load(self, run: Run, handles: Handles) -> Loaded:
        return [_as_batch(self._batches[row]) for row in np.asarray(handles).tolist()]


class LoadedBatches(Node):
    """Batches that can be read in their order alone. Going on at one reads those before it again.

    Args:
        open_pass: Returns an iterable of the batches of a pass.
        source: What the user gave, for messages; its length is taken as the number of batches.
    """

    is_constant = False

    def __init__(self, open_pass: Callable[[], Iterable[Any]], source: Any) -> None:
        self._name = "a function" if callable(source) else type(source).__name__
        super().__init__(label=f"from_loader({self._name})")
        self._open_pass = open_pass
        self._source = source
        self._peeked: list[tuple[Any, Iterator[Any]]] = []

    @cached_property
    def cardinality(self) -> int:
        try:
            return len(self._source)
        except (TypeError, NotImplementedError):  # such as a DataLoader of an iterable dataset
            return UNKNOWN

    @cached_property
    def element_spec(self) -> Any:
        """The spec of the first batch, which the next pass yields again.

        Raises:
            DatasetError: There is none.
        """
        batches = iter(self._open_pass())
        for first in batches:
            self._peeked.append((first, batches))
            return _varying(_as_batch(first))
        raise DatasetError(f"the element_spec of {self.description} is unknown: it is empty.")

    def open(self, run: Run, epoch: Epoch) -> Stream:
        if self._peeked:
            first, rest = self._peeked.pop()
            return _Loaded(itertools.chain([first], rest), self._name)
        return _Loaded(iter(self._open_pass()), self._name)


class _Loaded(Stream):
    def __init__(self, batches: Iterator[Any], name: str) -> None:
        super().__init__()
        self._batches = batches
        self._name = name

    def pull(self, count: int) -> Handles:
        return [_as_batch(batch) for batch in islice(self._batches, count)]

    def skip(self, count: int) -> int:
        if count:
            _log.warning(
                "Reading the first %d batches of %s again, to go on at the next one. They must come in the "
                "same order in each run: otherwise some examples count twice, and others never.",
                count,
                self._name,
            )
        return sum(1 for _ in islice(self._batches, count))

    def close(self) -> None:
        if hasattr(self._batches, "close"):
            self._batches.close()
