"""What a pipeline is made of: nodes, the streams of handles they open, and runs.

A pipeline is read in two stages. A **stream** says *which* elements come next, as cheap handles: row
numbers for data in memory, the elements themselves for a generator. `Node.load` then turns the handles
that are really wanted into elements: a gather and a compiled map over a whole batch, or one call of a
Python function per element. So ordering, sharding, shuffling, repeating and skipping never compute an
element, and a position in the pipeline is only the number of elements that were taken from it.
"""

import copy
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from muster.data.pipeline._spec import stack
from muster.data.pipeline._structure import flatten, rebuild

INFINITE = -1
UNKNOWN = -2

Epoch = tuple[int, ...]
"""How often each `repeat` around a node, the outermost first, has begun anew."""

Handles = np.ndarray[Any, Any] | list[Any]
"""Row numbers, int64 of shape (n,) or (n, width), or a list of opaque handles."""

_SKIP_BLOCK = 4096


class Stacked(NamedTuple):
    """Several elements as one structure of arrays, each of shape (size, ...)."""

    columns: Any
    size: int


Loaded = Stacked | list[Any]
"""Elements in the form that was natural for the node which made them."""


def each(loaded: Loaded) -> list[Any]:
    """Return loaded elements as a list."""
    if isinstance(loaded, list):
        return loaded
    arrays = flatten(loaded.columns)
    return [rebuild(loaded.columns, [array[i] for array in arrays]) for i in range(loaded.size)]


def stacked(loaded: Loaded) -> Any:
    """Return loaded elements as one structure of arrays.

    Raises:
        DatasetError: They differ in structure, shape or type.
    """
    return loaded.columns if isinstance(loaded, Stacked) else stack(loaded)


def join(parts: Sequence[Handles]) -> Handles:
    """Put handles of one node behind each other."""
    filled = [part for part in parts if len(part)]
    if len(filled) <= 1:
        return filled[0] if filled else []
    if isinstance(filled[0], np.ndarray):
        return np.concatenate(filled)
    return [handle for part in filled for handle in part]


class Stream(ABC):
    """Handles in order. Belongs to one iteration and one thread."""

    def __init__(self, *sources: "Stream"):
        self.sources = sources

    @abstractmethod
    def pull(self, count: int) -> Handles:
        """Return the next `count` handles; fewer only at the end. Reads nothing beyond them."""

    def skip(self, count: int) -> int:
        """Pass over up to `count` handles and return how many there were."""
        done = 0
        while done < count:
            wanted = min(count - done, _SKIP_BLOCK)
            got = len(self.pull(wanted))
            done += got
            if got < wanted:
                break
        return done

    def close(self) -> None:
        """Release what this stream and those that it reads hold."""
        for source in self.sources:
            source.close()


class Rows(Stream):
    """Row numbers from 0 to `count` - 1."""

    def __init__(self, count: int):
        super().__init__()
        self._next = 0
        self._count = count

    def pull(self, count: int) -> Handles:
        first = self._next
        self._next = min(first + count, self._count)
        return np.arange(first, self._next)

    def skip(self, count: int) -> int:
        first = self._next
        self._next = min(first + count, self._count)
        return self._next - first


class RandomOrder:
    """The seed of a `shuffle`, and how many iterations have begun. Safe to use from threads.

    Attributes:
        reshuffle: Whether each iteration has an order of its own.
        given: The seed that the user gave, or None.
    """

    def __init__(self, seed: int | None, reshuffle: bool):
        self.reshuffle = reshuffle
        self.given = seed
        self._seed = seed
        self._iterations = 0
        self._lock = threading.Lock()

    @property
    def seed(self) -> int:
        """The seed given, or one drawn at its first use and kept."""
        with self._lock:
            if self._seed is None:
                self._seed = secrets.randbits(63)
            return self._seed

    def peek(self) -> int:
        """The seed so far, else any: what only looks must not draw one, which all workers have to share."""
        with self._lock:
            return 0 if self._seed is None else self._seed

    def settle(self, seed: int) -> None:
        """Take a seed, if none was given or drawn before."""
        with self._lock:
            if self._seed is None:
                self._seed = seed

    def begin(self) -> int:
        """Count one more iteration and return its number."""
        with self._lock:
            self._iterations += 1
            return self._iterations - 1 if self.reshuffle else 0

    def resume(self, seed: int, iteration: int) -> None:
        """Let what comes after go on where a saved iteration left off."""
        with self._lock:
            if self._seed is None:
                self._seed = seed
            self._iterations = max(self._iterations, iteration + 1)


class Run:
    """One iteration of a pipeline: the (seed, iteration) of each of its random orders."""

    def __init__(self, orders: Mapping["RandomOrder", tuple[int, int]]):
        self.orders = orders
        self.stores: dict[Node, Any] = {}
        """What nodes use in this run, so that it is looked up or opened only once: until the run ends."""

    @classmethod
    def begin(cls, node: "Node") -> "Run":
        """Begin a new iteration of `node`."""
        return cls({order: (order.seed, order.begin()) for order in node.random_orders})

    @classmethod
    def peek(cls, node: "Node") -> "Run":
        """Look at `node` without counting an iteration, or drawing a seed."""
        return cls({order: (order.peek(), 0) for order in node.random_orders})

    @cached_property
    def first(self) -> "Run":
        """The first iteration with the same seeds: the one whose order a `cache` keeps."""
        return Run({order: (seed, 0) for order, (seed, _) in self.orders.items()})


NodeType = TypeVar("NodeType", bound="Node")


class Node(ABC):
    """A source or an operation: immutable but for caches and counters."""

    def __init__(self, *inputs: "Node"):
        self.inputs = inputs

    @cached_property
    def width(self) -> int:
        """Columns of its row-number handles; 0 if its handles are opaque."""
        return 0

    @cached_property
    def uniform(self) -> bool:
        """Whether `load` always gives `Stacked`: all elements are known to be alike."""
        return False

    @property
    @abstractmethod
    def label(self) -> str:
        """The operation and its arguments, as far as they decide which elements come out."""

    @property
    @abstractmethod
    def cardinality(self) -> int:
        """The number of elements, `INFINITE` or `UNKNOWN`."""

    @property
    @abstractmethod
    def element_spec(self) -> Any:
        """Structure of `TensorSpec`."""

    @abstractmethod
    def open(self, run: Run, epoch: Epoch) -> Stream:
        """Begin to read."""

    @abstractmethod
    def load(self, run: Run, handles: Handles) -> Loaded:
        """Turn handles into elements, in the same order."""

    @cached_property
    def description(self) -> str:
        """The whole pipeline in one line: equal for equal pipelines."""
        head = self.inputs[0].description + " -> " if self.inputs else ""
        return head + self.label

    @cached_property
    def random_orders(self) -> list[RandomOrder]:
        """The random orders of this node and all before it, each once, in a fixed order."""
        found: dict[RandomOrder, None] = {}
        for node in self.inputs:
            found.update(dict.fromkeys(node.random_orders))
        return list(found)

    @cached_property
    def ahead(self) -> int:
        """How many elements to compute ahead of the reader; 0 for none."""
        return max((node.ahead for node in self.inputs), default=0)

    @cached_property
    def computes(self) -> bool:
        """Whether loading runs a user's function, rather than only a gather."""
        return any(node.computes for node in self.inputs)

    @cached_property
    def block(self) -> int:
        """How many elements an iterator best loads at a time."""
        return 1

    def with_inputs(self, inputs: Sequence["Node"]) -> "Node":
        """The same operation on other inputs, of the same elements."""
        other = without_cached(self)
        other.inputs = tuple(inputs)
        return other

    def as_handles(self, handles: list[Any]) -> Handles:
        """Bring single handles of this node into the form that `load` takes."""
        return np.array(handles, dtype=np.int64) if self.width else handles


def without_cached(node: NodeType) -> NodeType:
    """A copy of a node that has worked nothing out yet, so that parts of it can be replaced."""
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
    """An operation that says which elements come, and leaves them as they are."""

    def __init__(self, source: Node):
        super().__init__(source)

    @property
    def source(self) -> Node:
        """What is put into order."""
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
    def element_spec(self) -> Any:
        return self.source.element_spec

    def load(self, run: Run, handles: Handles) -> Loaded:
        return self.source.load(run, handles)


class Table(Node):
    """Rows that can be read in any order: as many as its cardinality."""

    @cached_property
    def width(self) -> int:
        return 1

    @cached_property
    def uniform(self) -> bool:
        return True

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return Rows(self.cardinality)
