"""The base classes of the nodes of a pipeline, and the runs that read them.

A pipeline is read in two stages. A **stream** yields the next elements as cheap handles: row numbers for
data in memory, the elements themselves for a generator. `Node.load` then computes the elements of the
handles that are needed: a gather and a compiled map over a batch, or one call of a Python function per
element. So ordering, sharding, shuffling, repeating and skipping never compute an element, and a position
in the pipeline is the number of elements taken from it.
"""

import copy
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from muster.data.pipeline._handles import Handles, Loaded, RowNumbers, Stream, unstacked

INFINITE = -1
UNKNOWN = -2

Epoch = tuple[int, ...]
"""The pass that each `repeat` after a node is in, the outermost `repeat` first."""


class RandomOrder:
    """The seed of a `shuffle` and a count of its iterations. Safe to use from threads.

    Attributes:
        reshuffle: Whether iterations differ in order.
        user_seed: The seed from the user, or None.
    """

    def __init__(self, seed: int | None, reshuffle: bool):
        self.reshuffle = reshuffle
        self.user_seed = seed
        self._seed = seed
        self._iterations = 0
        self._lock = threading.Lock()

    @property
    def seed(self) -> int:
        """The seed from the user, or one drawn at the first use and kept.

        It is drawn from Python's random numbers, so that seeding these fixes it, as TensorFlow's seed does,
        and that workers which share them have the same one.
        """
        with self._lock:
            if self._seed is None:
                self._seed = random.getrandbits(63)
            return self._seed

    def peek(self) -> int:
        """Return the seed, or 0 before there is one: drawn here, it would differ between workers."""
        with self._lock:
            return 0 if self._seed is None else self._seed

    def settle(self, seed: int) -> None:
        """Set the seed, unless there is one."""
        with self._lock:
            if self._seed is None:
                self._seed = seed

    def begin(self) -> int:
        """Begin an iteration and return its number."""
        with self._lock:
            self._iterations += 1
            return self._iterations - 1 if self.reshuffle else 0

    def resume(self, seed: int, iteration: int) -> None:
        """Restore the seed and the count of a saved iteration."""
        with self._lock:
            if self.user_seed is None:
                self._seed = seed  # a look at the data may have drawn another one
            self._iterations = max(self._iterations, iteration + 1)

    @property
    def next(self) -> tuple[int, int]:
        """The seed, once there is one, and the count of the next iteration."""
        return self.peek(), self._iterations

    def return_to(self, seed: int, iteration: int) -> None:
        """Let the next iteration be a saved one."""
        self.resume(seed, iteration)
        with self._lock:
            self._iterations = iteration


class Run:
    """One iteration of a pipeline: the (seed, iteration) of each of its random orders."""

    def __init__(self, orders: Mapping["RandomOrder", tuple[int, int]]):
        self.orders = orders
        self.stores: dict[Node, Any] = {}
        """Open files and cached elements of nodes, until the run ends."""

    @classmethod
    def begin(cls, node: "Node") -> "Run":
        """Begin an iteration of `node`."""
        return cls({order: (order.seed, order.begin()) for order in node.random_orders})

    @cached_property
    def first(self) -> "Run":
        """The first iteration with the same seeds, whose order a `cache` keeps."""
        return Run({order: (seed, 0) for order, (seed, _) in self.orders.items()})


NodeType = TypeVar("NodeType", bound="Node")


class Node(ABC):
    """A source or an operation of a pipeline. Immutable but for caches and counters."""

    def __init__(self, *inputs: "Node", label: str = ""):
        self.inputs = inputs
        self._label = label

    @property
    def label(self) -> str:
        """The operation and those of its arguments that change its elements."""
        return self._label

    def require_values(self) -> None:
        """Check that all sources have the values that elements are made of.

        Raises:
            DatasetError: One has none.
        """
        for node in self.inputs:
            node.require_values()

    @cached_property
    def width(self) -> int:
        """Columns of the row-number handles; 0 if the handles are opaque."""
        return 0

    @cached_property
    def uniform(self) -> bool:
        """True if `load` always returns `Stacked`: all elements have one structure, shape and type."""
        return False

    @cached_property
    def ragged(self) -> bool:
        """True if elements have rows of ragged tensors, which stay ragged in batches."""
        return any(node.ragged for node in self.inputs)

    @cached_property
    def block(self) -> int:
        """The number of elements to load at a time."""
        return 1

    @property
    @abstractmethod
    def cardinality(self) -> int:
        """The number of elements, `INFINITE` or `UNKNOWN`."""

    @property
    @abstractmethod
    def element_spec(self) -> Any:
        """Structure of `TensorSpec` of one element."""

    @abstractmethod
    def open(self, run: Run, epoch: Epoch) -> Stream:
        """Return a stream of the handles of one pass."""

    def load(self, run: Run, handles: Handles) -> Loaded:
        """Compute the elements of handles, in the same order; by default the handles are the elements."""
        return list(handles)

    def peek(self, count: int) -> list[Any]:
        """Return up to `count` first elements, without counting an iteration or drawing a seed."""
        run = Run({order: (order.peek(), 0) for order in self.random_orders})
        stream = self.open(run, ())
        try:
            handles = stream.pull(count)
            return unstacked(self.load(run, handles)) if len(handles) else []
        finally:
            stream.close()

    @cached_property
    def description(self) -> str:
        """The pipeline in one line: equal for equal pipelines."""
        head = self.inputs[0].description + " -> " if self.inputs else ""
        return head + self.label

    @cached_property
    def random_orders(self) -> list[RandomOrder]:
        """The random orders of this node and of its inputs, without repetition, in a fixed order."""
        found: dict[RandomOrder, None] = {}
        for node in self.inputs:
            found.update(dict.fromkeys(node.random_orders))
        return list(found)

    @cached_property
    def is_constant(self) -> bool:
        """True if all passes have the same elements: nothing is random, and no function runs in Python."""
        return not self.random_orders and all(node.is_constant for node in self.inputs)

    @cached_property
    def ahead(self) -> int:
        """The number of elements to compute ahead of the reader."""
        return max((node.ahead for node in self.inputs), default=0)

    @cached_property
    def computes(self) -> bool:
        """True if `load` calls a function of the user, rather than only gathering rows."""
        return any(node.computes for node in self.inputs)

    def with_inputs(self, inputs: Sequence["Node"]) -> "Node":
        """Return the same operation on other inputs, whose elements have the same spec."""
        other = without_cached(self)
        other.inputs = tuple(inputs)
        return other

    def as_handles(self, handles: list[Any]) -> Handles:
        """Convert a list of single handles to the form that `load` takes."""
        return np.array(handles, dtype=np.int64) if self.width else handles


def without_cached(node: NodeType) -> NodeType:
    """Copy a node without its cached properties, so that its inputs can be replaced."""
    cached = {
        name
        for base in type(node).__mro__
        for name, value in vars(base).items()
        if isinstance(value, cached_property)
    }
    other = copy.copy(node)
    other.__dict__ = {name: value for name, value in vars(node).items() if name not in cached}
    return other


class Ordering(Node):
    """An operation on one source that, unless overridden, passes its elements on unchanged."""

    @property
    def source(self) -> Node:
        """The only input."""
        return self.inputs[0]

    @cached_property
    def width(self) -> int:
        return self.source.width

    @cached_property
    def uniform(self) -> bool:
        return self.source.uniform

    @cached_property
    def block(self) -> int:
        return self.source.block

    @property
    def cardinality(self) -> int:
        return self.source.cardinality

    @property
    def element_spec(self) -> Any:
        return self.source.element_spec

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return self.source.open(run, epoch)

    def load(self, run: Run, handles: Handles) -> Loaded:
        return self.source.load(run, handles)


class TableSource(Node):
    """A source whose rows can be read by number: as many as its cardinality."""

    width = 1
    uniform = True

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return RowNumbers(self.cardinality)
