"""Operations that map elements to datasets and read those: flat_map and interleave.

A handle is a pair of such a dataset and a handle in it, so that skipped elements are not loaded.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster.data.pipeline._combine import merge
from muster.data.pipeline._handles import Handles, Loaded, Stacked, Stream, unstacked
from muster.data.pipeline._map import spread
from muster.data.pipeline._node import UNKNOWN, Epoch, Node, RandomOrder, Run
from muster.data.pipeline._spec import TensorSpec
from muster.data.pipeline._structure import flatten, form


class _Inner:
    """The dataset of one element, and its run."""

    def __init__(self, node: Node, run: Run):
        self.node = node
        self.run = run


class Interleave(Node):
    """The elements of the datasets to which a function maps elements.

    `cycle_length` datasets are open at a time and are read in turn, `block_length` elements a turn. At its
    turn, a dataset that has ended is replaced by the next.

    Source: tensorflow/core/kernels/data/interleave_dataset_op.cc.

    Args:
        source: The elements to map.
        function: Maps an element to a node; called in each pass, also for skipped elements.
        cycle_length: The number of open datasets.
        block_length: The number of elements of a turn.
    """

    is_constant = False

    def __init__(self, source: Node, function: Callable[..., Node], cycle_length: int, block_length: int):
        label = "flat_map()" if cycle_length == 1 else f"interleave({cycle_length}, {block_length})"
        super().__init__(source, label=label)
        self.function = function
        self._cycle = cycle_length
        self._block = block_length
        self._order = RandomOrder(None, reshuffle=True)
        """Seeds the shuffles without a seed in the datasets of elements."""

    @property
    def cardinality(self) -> int:
        return 0 if self.inputs[0].cardinality == 0 else UNKNOWN

    @cached_property
    def random_orders(self) -> list[RandomOrder]:
        return [*self.inputs[0].random_orders, self._order]

    @cached_property
    def element_spec(self) -> Any:
        """The `element_spec` of the first dataset.

        Raises:
            DatasetError: There is no dataset.
        """
        node = self.first()
        if node is None:
            raise DatasetError(f"the element_spec of {self.description} is unknown: it makes no dataset.")
        return node.element_spec

    def first(self) -> Node | None:
        """Return the dataset of the first element, or None without elements."""
        elements = self.inputs[0].peek(1)
        return spread(self.function, elements[0]) if elements else None

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _InterleaveStream(self, run, epoch, self._cycle, self._block)

    def make(self, run: Run, handles: Handles, number: int) -> _Inner:
        """Return the dataset of an element, whose seeds follow from its `number` in the pass."""
        (element,) = unstacked(self.inputs[0].load(run, handles))
        node: Node = spread(self.function, element)
        seed, iteration = run.orders[self._order]
        orders = {}
        for place, order in enumerate(node.random_orders):
            drawn = np.random.SeedSequence((seed % 2**64, number, place)).generate_state(1)[0]
            orders[order] = (
                int(drawn) if order.user_seed is None else order.user_seed,
                iteration if order.reshuffle else 0,
            )
        return _Inner(node, Run(orders))

    def load(self, run: Run, handles: Handles) -> Loaded:
        places: dict[_Inner, list[int]] = {}
        for place, (inner, _) in enumerate(handles):
            places.setdefault(inner, []).append(place)
        parts = [
            inner.node.load(inner.run, inner.node.as_handles([handles[place][1] for place in group]))
            for inner, group in places.items()
        ]
        if len(parts) == 1:
            return parts[0]
        batches = [part for part in parts if isinstance(part, Stacked)]
        if len(batches) == len(parts) and _alike(batches):
            return merge([np.array(group) for group in places.values()], [part.columns for part in batches])
        elements: list[Any] = [None] * len(handles)
        for group, part in zip(places.values(), parts, strict=True):
            for place, element in zip(group, unstacked(part), strict=True):
                elements[place] = element
        return elements


def _alike(parts: list[Stacked]) -> bool:
    """Return whether rows have the same structure, shapes and types in all parts."""
    specs = [[TensorSpec(array.shape[1:], array.dtype) for array in flatten(part.columns)] for part in parts]
    forms = [form(part.columns) for part in parts]
    return all(spec == specs[0] for spec in specs) and all(other == forms[0] for other in forms)


class _InterleaveStream(Stream):
    def __init__(self, node: Interleave, run: Run, epoch: Epoch, cycle: int, block: int):
        self._source = node.inputs[0].open(run, epoch)
        super().__init__(self._source)
        self._node = node
        self._run = run
        self._epoch = epoch
        self._open: list[tuple[_Inner, Stream] | None] = [None] * cycle
        self._block = block
        self._turn = 0
        self._taken = 0
        self._made = 0
        self._ended = False

    def pull(self, count: int) -> Handles:
        pulled: list[Any] = []

        def take(inner: _Inner, stream: Stream, wanted: int) -> int:
            handles = stream.pull(wanted)
            pulled.extend((inner, handle) for handle in handles)
            return len(handles)

        self._take(count, take)
        return pulled

    def skip(self, count: int) -> int:
        return self._take(count, lambda inner, stream, wanted: stream.skip(wanted))

    def close(self) -> None:
        for _, stream in filter(None, self._open):
            stream.close()
        super().close()

    def _take(self, count: int, take: Callable[[_Inner, Stream, int], int]) -> int:
        """Take elements from the open datasets in turn; return their number."""
        done = 0
        while done < count and (current := self._current()) is not None:
            wanted = min(count - done, self._block - self._taken)
            got = take(*current, wanted)
            done += got
            self._taken += got
            if got < wanted:
                current[1].close()
                self._open[self._turn] = None
            if got < wanted or self._taken == self._block:
                self._end_turn()
        return done

    def _current(self) -> tuple[_Inner, Stream] | None:
        """Return the dataset whose turn it is, or None if all have ended."""
        while True:
            current = self._open[self._turn]
            if current is not None:
                return current
            if not self._ended:
                handles = self._source.pull(1)
                if len(handles):
                    inner = self._node.make(self._run, handles, self._made)
                    self._made += 1
                    self._open[self._turn] = (inner, inner.node.open(inner.run, self._epoch))
                    continue
                self._ended = True
            if not any(self._open):
                return None
            self._end_turn()

    def _end_turn(self) -> None:
        self._taken = 0
        self._turn = (self._turn + 1) % len(self._open)
