"""Stateful operations, computed in order: windows, groups, scans, random choices.

They read their sources in order, and handles are the elements.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster.data.pipeline._handles import Handles, Loaded, Stream, unstacked
from muster.data.pipeline._node import UNKNOWN, Epoch, Node, RandomOrder, Run, TableSource
from muster.data.pipeline._spec import TensorSpec, spec_of
from muster.data.pipeline._structure import map_leaves

_AHEAD = 16
"""The number of elements loaded at a time, if they have numbers and need no Python function."""

Compute = Callable[..., Iterator[Any]]


class InOrder(Node):
    """The elements that a function makes of the elements of datasets, which it reads in their order.

    Args:
        label: The operation and its arguments.
        sources: The datasets that it reads.
        function: Takes an iterator a dataset and, if there is an `order`, a generator of random numbers;
            returns an iterator of elements.
        spec: Returns the spec of an element, given those of the sources; None takes the type of the first
            element, of unknown shape.
        count: Returns the number of elements, given the numbers of the sources; None if it is unknown.
        order: Seeds the random numbers.
    """

    is_constant = False

    def __init__(
        self,
        label: str,
        sources: Sequence[Node],
        function: Compute,
        *,
        spec: Callable[..., Any] | None = None,
        count: Callable[..., int] | None = None,
        order: RandomOrder | None = None,
    ) -> None:
        super().__init__(*sources, label=label)
        self._function = function
        self._spec = spec
        self._count = count
        self._order = order

    @cached_property
    def description(self) -> str:
        if len(self.inputs) < 2:
            return super().description
        return f"({', '.join(node.description for node in self.inputs)}) -> {self.label}"

    @cached_property
    def random_orders(self) -> list[RandomOrder]:
        return super().random_orders + ([] if self._order is None else [self._order])

    @cached_property
    def cardinality(self) -> int:
        if self._count is None:
            return UNKNOWN
        return self._count(*(node.cardinality for node in self.inputs))

    @cached_property
    def element_spec(self) -> Any:
        """Structure of `TensorSpec` of one element.

        Raises:
            DatasetError: The first element is needed for it, and there is none.
        """
        if self._spec is not None:
            return self._spec(*(node.element_spec for node in self.inputs))
        elements = self.peek(1)
        if not elements:
            raise DatasetError(f"the element_spec of {self.description} is unknown: it is empty.")
        return map_leaves(lambda leaf: TensorSpec(None, spec_of(leaf).dtype), elements[0])

    def open(self, run: Run, epoch: Epoch) -> Stream:
        streams = [node.open(run, epoch) for node in self.inputs]
        iterators: list[Any] = [
            _elements(node, run, stream) for node, stream in zip(self.inputs, streams, strict=True)
        ]
        if self._order is not None:
            seed, iteration = run.orders[self._order]
            key = (iteration, *epoch) if self._order.reshuffle else ()
            iterators.append(np.random.default_rng(np.random.SeedSequence(seed % 2**64, spawn_key=key)))
        return _Computed(self._function(*iterators), streams)


class _Computed(Stream):
    def __init__(self, elements: Iterator[Any], sources: Sequence[Stream]):
        super().__init__(*sources)
        self._elements = elements

    def pull(self, count: int) -> Handles:
        return list(islice(self._elements, count))


def _elements(node: Node, run: Run, stream: Stream) -> Iterator[Any]:
    """Yield the elements of a stream; those that cannot fail are computed several at a time."""
    count = _AHEAD if node.width and (node.uniform or not node.computes) else node.block
    while len(handles := stream.pull(count)):
        yield from unstacked(node.load(run, handles))


class ListSource(TableSource):
    """Elements in a list.

    Args:
        elements: The elements.
        spec: Returns the spec of one.
    """

    uniform = False

    def __init__(self, elements: list[Any], spec: Callable[[], Any]) -> None:
        super().__init__(label=f"{len(elements)} elements")
        self._elements = elements
        self._spec = spec

    @property
    def cardinality(self) -> int:
        return len(self._elements)

    @property
    def element_spec(self) -> Any:
        return self._spec()

    def load(self, run: Run, handles: Handles) -> Loaded:
        return [self._elements[row] for row in np.asarray(handles).tolist()]


def windows(
    elements: Iterator[Any], size: int, shift: int, stride: int, drop_remainder: bool
) -> Iterator[list[Any]]:
    """Yield lists of `size` elements that lie `stride` apart; each begins `shift` after the one before.

    Source: tensorflow/core/kernels/data/window_dataset_op.cc.
    """
    span = (size - 1) * stride + 1
    buffer: list[Any] = []
    while True:
        buffer += islice(elements, span - len(buffer))
        if not buffer or (drop_remainder and len(buffer) < span):
            return
        yield buffer[::stride]
        for _ in islice(elements, shift - len(buffer)) if shift > len(buffer) else ():
            pass
        del buffer[:shift]


def groups(
    elements: Iterator[Any], key_of: Callable[[Any], int], size_of: Callable[[int], int]
) -> Iterator[tuple[int, list[Any]]]:
    """Yield keys and lists of elements that have them: a full list at once, others at the end, by key.

    Source: tensorflow/core/kernels/data/experimental/group_by_window_dataset_op.cc.
    """
    found: dict[int, list[Any]] = {}
    for element in elements:
        key = key_of(element)
        group = found.setdefault(key, [])
        group.append(element)
        if len(group) >= size_of(key):
            yield key, found.pop(key)
    yield from sorted(found.items())


def sampled(
    sources: Sequence[Iterator[Any]], weights: Sequence[float], stop: bool, random: np.random.Generator
) -> Iterator[Any]:
    """Yield elements of sources, each time of one that is drawn by its weight.

    Args:
        sources: The sources.
        weights: Their weights, which need not add up to 1.
        stop: Whether to end with the first source that ends.
        random: Draws.
    """
    left = np.array(weights, float)
    while left.any():
        number = int(np.searchsorted(np.cumsum(left), random.random() * left.sum(), side="right"))
        found = list(islice(sources[number], 1))
        yield from found
        if not found:
            if stop:
                return
            left[number] = 0


def chosen(sources: Sequence[Iterator[Any]], choices: Iterator[Any], stop: bool) -> Iterator[Any]:
    """Yield elements of the sources whose numbers another iterator has.

    Raises:
        DatasetError: There is no source of such a number.
    """
    for choice in choices:
        number = int(choice)
        if not 0 <= number < len(sources):
            raise DatasetError(
                f"choose_from_datasets has {len(sources)} datasets, and choice_dataset chose number {number}."
            )
        found = list(islice(sources[number], 1))
        yield from found
        if not found and stop:
            return


def resampled(
    elements: Iterator[Any],
    class_of: Callable[[Any], int],
    target: np.ndarray[Any, Any],
    initial: np.ndarray[Any, Any] | None,
    random: np.random.Generator,
) -> Iterator[tuple[np.int32, Any]]:
    """Yield classes and elements, and drop as many that classes are distributed as in `target`.

    Args:
        elements: The elements.
        class_of: Returns the number of an element's class.
        target: How classes are to be distributed.
        initial: How they are; None estimates it by those that were seen.
        random: Draws.
    """
    seen = np.ones(len(target))
    for element in elements:
        number = class_of(element)
        seen[number] += 1
        shares = seen / seen.sum() if initial is None else np.maximum(initial, np.finfo(float).tiny)
        ratios = target / shares
        if random.random() < ratios[number] / ratios.max():
            yield np.int32(number), element


def unrepeated(elements: Iterator[Any], key_of: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield the first of elements that have the same key."""
    seen: set[Any] = set()
    for element in elements:
        key = key_of(element)
        if key not in seen:
            seen.add(key)
            yield element
