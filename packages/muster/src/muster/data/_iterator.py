"""Iteration over a dataset, with a position that can be saved."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from muster._errors import DatasetError, PositionError
from muster._user_code import stop_text
from muster.data._optional import GetNext
from muster.data.pipeline._handles import Handles, unstacked
from muster.data.pipeline._node import Node, Run
from muster.data.pipeline._prefetch import Prefetcher

_FORMAT = 1

Convert: TypeAlias = Callable[[list[Any]], Iterable[Any]]
"""Takes elements that are read together, and returns something for each."""


class DatasetIterator(GetNext):
    """The elements of a dataset, one after the other, as NumPy values.

    Arrays may be read-only. Use it in a ``with`` statement, or `close` it, to end its prefetch thread
    at once; otherwise the thread ends when the iterator is no longer referenced. Not for use by several
    threads at the same time.
    """

    def __init__(
        self,
        node: Node,
        position: Mapping[str, Any] | None,
        seed: int | None = None,
        convert: Convert | None = None,
    ):
        """Begin an iteration, or resume one at `position`.

        Args:
            node: The pipeline to read.
            position: The `position` of another iterator, or None.
            seed: Seeds the shuffles without a seed; None seeds them at random.
            convert: Takes elements that are read together, and returns what the iterator yields for each;
                None yields the elements.

        Raises:
            PositionError: `position` belongs to another pipeline.
        """
        self._node = node
        self._convert = convert
        self._run, self._consumed = begin_run(node, position, seed)
        self._elements: Generator[Any, None, None] | Prefetcher | None = None
        self._closed = False

    def __iter__(self) -> "DatasetIterator":
        return self

    def __next__(self) -> Any:
        """Return the next element.

        Raises:
            DatasetError: A user's function has raised StopIteration.
            StopIteration: There is none.
            ValueError: The iterator was closed.
        """
        if self._closed:
            raise ValueError("this dataset iterator was closed; make another one")
        if self._elements is None:
            self._elements = self._open()
        try:
            element = next(self._elements)
        except RuntimeError as exc:
            if isinstance(exc.__cause__, StopIteration):
                raise DatasetError(stop_text("A function of the dataset", exc.__cause__)) from exc
            raise
        self._consumed += 1
        return element

    @property
    def element_spec(self) -> Any:
        """Structure of `TensorSpec` of one element."""
        return self._node.element_spec

    @property
    def position(self) -> dict[str, Any]:
        """The position of the reader: a small value for JSON.

        `Dataset.iterator` of an equal pipeline, in this process or another, continues from it with the next
        element. Elements that are read ahead do not count.
        """
        return position_of(self._node, self._run, self._consumed)

    def go_on(self, position: Mapping[str, Any]) -> None:
        """Continue at another `position`, such as one that was saved.

        Raises:
            PositionError: `position` belongs to another pipeline.
        """
        self._run, self._consumed = begin_run(self._node, position)
        if self._elements is not None:
            self._elements.close()
            self._elements = None

    def close(self) -> None:
        """End the iteration and its thread."""
        self._closed = True
        if self._elements is not None:
            self._elements.close()

    def __enter__(self) -> "DatasetIterator":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> "Generator[Any, None, None] | Prefetcher":
        elements = _read(self._node, self._run, self._consumed, self._convert)
        return Prefetcher(elements, self._node.ahead) if self._node.ahead else elements


def position_of(node: Node, run: Run, elements: int) -> dict[str, Any]:
    """Return the position after so many elements of an iteration."""
    return {
        "format": _FORMAT,
        "pipeline": node.description,
        "orders": [list(run.orders[order]) for order in node.random_orders],
        "elements": elements,
    }


def next_orders(dataset: Any) -> list[tuple[int, int]]:
    """Return the seeds and counts by which the next iteration of a dataset will be shuffled.

    The seeds are known once an iteration has begun.
    """
    return [order.next for order in dataset._node.random_orders]


def return_to_orders(dataset: Any, orders: Sequence[Sequence[int]]) -> None:
    """Let the next iteration of a dataset be shuffled as a saved one, and those after it as it went on.

    Args:
        dataset: The dataset.
        orders: As of `next_orders`.

    Raises:
        PositionError: The dataset has more shuffles, or fewer, than the one whose orders were saved.
    """
    own = dataset._node.random_orders
    if len(own) != len(orders):
        raise PositionError(
            f"the dataset that was saved has {len(orders)} shuffle(s), and this one has {len(own)}: go on "
            "with the one that was saved, or begin anew without what was saved."
        )
    for order, (seed, iteration) in zip(own, orders, strict=True):
        order.return_to(seed, iteration)


def moved_position(position: Mapping[str, Any], elements: int) -> dict[str, Any]:
    """Return the position `elements` elements further on in the same iteration."""
    return {**position, "elements": int(position["elements"]) + elements}


def _read(node: Node, run: Run, consumed: int, convert: Convert | None) -> Generator[Any, None, None]:
    stream = node.open(run, ())
    try:
        passed = stream.skip(consumed)
        if passed < consumed:
            raise PositionError(
                f"the position is after {consumed} elements, but the pipeline {node.description} has only "
                f"{passed}. Its data is not what it was."
            )
        while len(handles := stream.pull(node.block)):
            for elements in _load(node, run, handles):
                yield from elements if convert is None else convert(elements)
    finally:
        stream.close()
        run.stores.clear()


def _load(node: Node, run: Run, handles: Handles) -> Iterator[list[Any]]:
    """Yield the elements together; one by one if one is wrong, so that those before it are yielded first."""
    try:
        elements = unstacked(node.load(run, handles))
    except DatasetError:
        if len(handles) == 1:
            raise
        for i in range(len(handles)):
            yield unstacked(node.load(run, handles[i : i + 1]))
    else:
        yield elements


def begin_run(node: Node, position: Mapping[str, Any] | None, seed: int | None = None) -> tuple[Run, int]:
    """Begin an iteration, or go on with one; return it and the number of its elements that are taken.

    Args:
        node: The pipeline.
        position: Where to go on; None begins anew.
        seed: Seeds the shuffles without a seed; None seeds them at random.

    Raises:
        DatasetError: A source of the pipeline has no values.
        PositionError: `position` belongs to another pipeline.
    """
    node.require_values()
    if position is None:
        if seed is not None:
            for number, order in enumerate(node.random_orders):
                order.settle(int(np.random.SeedSequence((seed % 2**64, number)).generate_state(1)[0]))
        return Run.begin(node), 0
    orders, elements = _check(node, position)
    for order, (seed, iteration) in zip(node.random_orders, orders, strict=True):
        order.resume(seed, iteration)
    return Run(dict(zip(node.random_orders, orders, strict=True))), elements


def _check(node: Node, position: Mapping[str, Any]) -> tuple[list[tuple[int, int]], int]:
    try:
        version, pipeline = position["format"], position["pipeline"]
        orders = [(int(seed), int(iteration)) for seed, iteration in position["orders"]]
        elements = int(position["elements"])
    except (KeyError, TypeError, ValueError) as exc:
        raise PositionError(f"a position is what DatasetIterator.position gave, got {position!r}.") from exc
    if version != _FORMAT:
        raise PositionError(
            f"the position has format {version!r}, this version of muster reads format {_FORMAT}. "
            "Use the version that wrote it, or begin anew."
        )
    if pipeline != node.description or len(orders) != len(node.random_orders) or elements < 0:
        raise PositionError(
            f"the position belongs to another pipeline.\n  It was taken in: {pipeline}\n"
            f"  This one is:     {node.description}\n"
            "Use the same operations, sizes and seeds, or begin anew."
        )
    return orders, elements
