"""`cache` computes elements once and keeps them in memory.

It keeps the order of the first iteration with the same seeds, so that a restarted process fills its cache
with the same elements.
"""

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from muster.data.pipeline._handles import Handles, Loaded, RowNumbers, Stacked, Stream, stacked, unstacked
from muster.data.pipeline._node import Epoch, Node, Ordering, Run
from muster.data.pipeline._structure import flatten, map_leaves, rebuild

_BLOCK_BYTES = 8 * 2**20
_BLOCK_ROWS = 1024


class Cache(Ordering):
    """The elements of the source, computed once.

    Elements of one structure, shape and type are kept as arrays, which are filled in blocks at the first
    read. Others are kept in a list, in the order of the first read.
    """

    label = "cache()"
    block = 1

    def __init__(self, source: Node):
        super().__init__(source)
        self._lock = threading.Lock()
        self._store: tuple[Any, _Columns | _Elements] | None = None

    @cached_property
    def uniform(self) -> bool:
        # A spec has no width of text, which an array needs. Opaque handles hold their elements anyway.
        return (
            self.source.uniform
            and self.source.width > 0
            and self.source.cardinality >= 0
            and all(spec.dtype.kind not in "US" for spec in flatten(self.source.element_spec))
        )

    @cached_property
    def width(self) -> int:
        return 1 if self.uniform else 0

    def open(self, run: Run, epoch: Epoch) -> Stream:
        store = self._store_of(run)
        return RowNumbers(self.source.cardinality) if isinstance(store, _Columns) else _ElementsStream(store)

    def load(self, run: Run, handles: Handles) -> Loaded:
        store = self._store_of(run)
        return store.take(np.asarray(handles)) if isinstance(store, _Columns) else list(handles)

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return Cache(*inputs)  # an empty one

    def _store_of(self, run: Run) -> "_Columns | _Elements":
        store: _Columns | _Elements | None = run.stores.get(self)
        if store is None:
            key = tuple(run.orders[order][0] for order in self.source.random_orders)
            with self._lock:
                if self._store is None or self._store[0] != key:
                    kind = _Columns if self.uniform else _Elements
                    self._store = (key, kind(self.source, run.first))
                store = run.stores[self] = self._store[1]
        return store


class _Columns:
    """Elements as arrays of shape (n, ...), by position in the source."""

    def __init__(self, node: Node, run: Run):
        self._node = node
        self._run = run
        count = node.cardinality
        stream = node.open(run, ())
        self._handles = np.asarray(stream.pull(count))
        stream.close()
        self._lock = threading.Lock()
        self._template = node.element_spec
        self._arrays: list[np.ndarray[Any, Any]] = []
        if node.computes:
            self._arrays = [np.empty((count, *s.shape), s.dtype) for s in flatten(self._template)]
        row_bytes = max(1, sum(array[:1].nbytes for array in self._arrays))
        self._block = min(_BLOCK_ROWS, max(1, _BLOCK_BYTES // row_bytes))
        self._filled = np.zeros(-(-count // self._block), dtype=bool)
        self._complete = False

    def take(self, places: np.ndarray[Any, Any]) -> Loaded:
        """Return the elements at `places`, int64 of shape (n,)."""
        if not self._node.computes:
            # The source only gathers: a copy of its rows would take memory twice.
            return self._node.load(self._run, self._handles[places])
        if not self._complete:
            with self._lock:
                self._fill(places)
        return Stacked(rebuild(self._template, [a.take(places, axis=0) for a in self._arrays]), len(places))

    def _fill(self, places: np.ndarray[Any, Any]) -> None:
        blocks = np.unique(places // self._block)
        for block in blocks[~self._filled[blocks]]:
            rows = slice(block * self._block, (block + 1) * self._block)
            columns = stacked(self._node.load(self._run, self._handles[rows]))
            for array, column in zip(self._arrays, flatten(columns), strict=True):
                array[rows] = column
            self._filled[block] = True
        self._complete = bool(self._filled.all())


class _Elements:
    """Elements in a list, in order."""

    def __init__(self, node: Node, run: Run):
        self.node = node
        self.run = run
        self.lock = threading.Lock()
        self.elements: list[Any] = []
        self.complete = False


class _ElementsStream(Stream):
    """The elements in the store, then those that the source has after them."""

    def __init__(self, store: _Elements):
        super().__init__()
        self._store = store
        self._next = 0
        self._source: Stream | None = None
        self._source_next = 0

    def pull(self, count: int) -> Handles:
        store = self._store
        pulled = store.elements[self._next : self._next + count]
        self._next += len(pulled)
        while len(pulled) < count and not store.complete:
            new = self._compute(count - len(pulled))
            pulled += new
            self._next += len(new)
        return pulled

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    def _compute(self, count: int) -> list[Any]:
        store = self._store
        if self._source is None:
            self._source = store.node.open(store.run, ())
        # Other iterations may have added elements since.
        self._source.skip(self._next - self._source_next)
        handles = self._source.pull(count)
        self._source_next = self._next + len(handles)
        loaded = unstacked(store.node.load(store.run, handles)) if len(handles) else []
        new = [map_leaves(_freeze, element) for element in loaded]
        with store.lock:
            # Another iteration may have added some of them.
            store.elements += new[len(store.elements) - self._next :]
            store.complete = store.complete or len(handles) < count
        return new


def _freeze(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        leaf.flags.writeable = False
    return leaf
