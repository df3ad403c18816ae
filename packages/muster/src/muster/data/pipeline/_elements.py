"""Operations that compute elements: map, filter, ignore_errors, batch, padded_batch, unbatch."""

import logging
import math
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from itertools import accumulate, cycle
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster.data.pipeline._handles import Handles, Loaded, Stacked, Stream, join, stacked, unstacked
from muster.data.pipeline._map import MapFunction
from muster.data.pipeline._node import UNKNOWN, Epoch, Node, Ordering, Run
from muster.data.pipeline._padding import Padding, RaggedRows
from muster.data.pipeline._ragged_tensor import RaggedTensor
from muster.data.pipeline._sparse_tensor import SparseTensor
from muster.data.pipeline._spec import RaggedTensorSpec, TensorSpec, batched_spec, object_array, spec_of
from muster.data.pipeline._structure import flatten, flatten_as, map_leaves, rebuild

_log = logging.getLogger(__name__)

# Errors of a program, rather than of its data.
_MISTAKES = (AttributeError, ImportError, NameError, TypeError)
# How many batches are loaded at a time, at most: of rows that are gathered alone; and where a function of the
# user computes them, so that the first one waits for less.
_BLOCK_BATCHES, _COMPUTED_BATCHES = 32, 8
_BLOCK_BYTES = 2 * 2**20


class Map(Ordering):
    """The results of a function of the elements. It is not called for skipped elements."""

    label = "map()"
    block = 1
    computes = True
    ragged = False

    def __init__(self, source: Node, function: Callable[..., Any]):
        super().__init__(source)
        self._function = MapFunction(function, "map")

    @cached_property
    def _traced_spec(self) -> Any | None:
        return self._function.output_spec(self.source.element_spec)

    @cached_property
    def uniform(self) -> bool:
        return self.source.uniform and self._traced_spec is not None

    @cached_property
    def is_constant(self) -> bool:
        return super().is_constant and self._traced_spec is not None

    @cached_property
    def element_spec(self) -> Any:
        """Structure of `TensorSpec` of a result.

        A function that runs in Python is applied to the first element for the types; shapes are unknown.

        Raises:
            DatasetError: The function runs in Python, and there is no element.
        """
        if self._traced_spec is not None:
            return self._traced_spec
        elements = self.peek(1)
        if not elements:
            raise DatasetError(
                f"the element_spec of {self.description} is unknown: its function runs in Python and "
                "the dataset is empty."
            )
        specs = map_leaves(spec_of, elements[0])
        return map_leaves(
            lambda spec: spec if isinstance(spec, RaggedTensorSpec) else TensorSpec(None, spec.dtype), specs
        )

    def load(self, run: Run, handles: Handles) -> Loaded:
        return self._function.apply(self.source.load(run, handles))


class _Chosen(Node):
    """Some of the elements. Handles are the elements."""

    @property
    def cardinality(self) -> int:
        return 0 if self.inputs[0].cardinality == 0 else UNKNOWN

    @property
    def element_spec(self) -> Any:
        return self.inputs[0].element_spec


class _ChosenStream(Stream):
    """Reads until there are as many elements as are asked for."""

    def __init__(self, node: Node, run: Run, epoch: Epoch):
        self._source = node.open(run, epoch)
        super().__init__(self._source)
        self._node, self._run = node, run

    def pull(self, count: int) -> Handles:
        kept: list[Any] = []
        while len(kept) < count:
            wanted = count - len(kept)
            handles = self._source.pull(wanted)
            if len(handles):
                kept += self.chosen(handles)
            if len(handles) < wanted:
                break
        return kept

    @abstractmethod
    def chosen(self, handles: Handles) -> list[Any]:
        """Return the elements of these handles that are kept."""


class Filter(_Chosen):
    """The elements for which a predicate is true."""

    label = "filter()"

    def __init__(self, source: Node, predicate: Callable[..., Any]):
        super().__init__(source)
        self._predicate = MapFunction(predicate, "filter")

    @cached_property
    def is_constant(self) -> bool:
        return super().is_constant and self._predicate.output_spec(self.element_spec) is not None

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _FilterStream(self.inputs[0], self._predicate, run, epoch)


class _FilterStream(_ChosenStream):
    def __init__(self, node: Node, predicate: MapFunction, run: Run, epoch: Epoch):
        super().__init__(node, run, epoch)
        self._predicate = predicate

    def chosen(self, handles: Handles) -> list[Any]:
        loaded = self._node.load(self._run, handles)
        kept = []
        for element, decision in zip(
            unstacked(loaded), unstacked(self._predicate.apply(loaded)), strict=True
        ):
            decided = np.asarray(decision)
            if decided.shape or decided.dtype != bool:
                raise DatasetError(
                    f"filter needs a function that returns one boolean, it returned {decision!r}."
                )
            if decided:
                kept.append(element)
        return kept


class WithoutErrors(_Chosen):
    """The elements that can be computed.

    Args:
        source: The dataset.
        log_warning: Whether to log each error, rather than the first one of a pass.
    """

    label = "ignore_errors()"

    def __init__(self, source: Node, log_warning: bool):
        super().__init__(source)
        self._log_warning = log_warning

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _WithoutErrorsStream(self.inputs[0], run, epoch, self._log_warning)


class _WithoutErrorsStream(_ChosenStream):
    def __init__(self, node: Node, run: Run, epoch: Epoch, log_warning: bool):
        super().__init__(node, run, epoch)
        self._log_warning, self._skipped = log_warning, 0

    def chosen(self, handles: Handles) -> list[Any]:
        try:
            return unstacked(self._node.load(self._run, handles))
        except _MISTAKES:
            raise
        except Exception as exc:
            if len(handles) > 1:  # then one after the other
                return [element for i in range(len(handles)) for element in self.chosen(handles[i : i + 1])]
            self._skipped += 1
            if self._log_warning or self._skipped == 1:
                _log.warning("%s leaves out an element: %s", self._node.description, exc)
            return []


class Batch(Node):
    """Consecutive elements, stacked or padded. A handle is the handles of the elements of a batch."""

    def __init__(
        self, source: Node, batch_size: int, drop_remainder: bool, padding: Padding | RaggedRows | None = None
    ):
        name = "batch" if padding is None else padding.operation
        dropped = ", drop_remainder=True" if drop_remainder else ""
        super().__init__(source, label=f"{name}({batch_size}{dropped})")
        self._batch_size = batch_size
        self._drop_remainder = drop_remainder
        self._padding = padding

    @property
    def cardinality(self) -> int:
        known = self.inputs[0].cardinality
        if known < 0:
            return known
        return known // self._batch_size if self._drop_remainder else -(-known // self._batch_size)

    @cached_property
    def ahead(self) -> int:
        return -(-self.inputs[0].ahead // self._batch_size)

    @cached_property
    def block(self) -> int:
        # The calls for one small batch take longer than its data.
        source = self.inputs[0]
        if self._padding is not None or not source.uniform:
            return 1
        rows = [math.prod(spec.shape) * spec.dtype.itemsize for spec in flatten(source.element_spec)]
        most = _COMPUTED_BATCHES if source.computes else _BLOCK_BATCHES
        return max(1, min(most, _BLOCK_BYTES // max(1, self._batch_size * int(sum(rows)))))

    @property
    def element_spec(self) -> Any:
        size = self._batch_size if self._drop_remainder else None
        spec = self.inputs[0].element_spec
        if self._padding is not None:
            spec = self._padding.element_spec(spec)
        return map_leaves(lambda leaf: batched_spec(leaf, size), spec)

    @cached_property
    def _ragged(self) -> RaggedRows | None:
        """Return what stacks rows of ragged tensors; None if there are none among the elements."""
        chosen = [isinstance(spec, RaggedTensorSpec) for spec in flatten(self.inputs[0].element_spec)]
        return RaggedRows(chosen) if any(chosen) else None

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _BatchStream(self.inputs[0].open(run, epoch), self._batch_size, self._drop_remainder)

    def load(self, run: Run, handles: Handles) -> Loaded:
        source = self.inputs[0]
        padding = self._padding or (self._ragged if source.ragged else None)
        if padding is not None:
            return [padding.stack(unstacked(source.load(run, group))) for group in handles]
        if 1 < len(handles) <= self.block:
            return _split(_frozen(stacked(source.load(run, join(list(handles))))), list(map(len, handles)))
        return [_frozen(stacked(source.load(run, group))) for group in handles]


class _BatchStream(Stream):
    def __init__(self, source: Stream, batch_size: int, drop_remainder: bool):
        super().__init__(source)
        self._source = source
        self._batch_size = batch_size
        self._drop_remainder = drop_remainder

    def pull(self, count: int) -> Handles:
        groups: list[Any] = []
        while len(groups) < count:
            group = self._source.pull(self._batch_size)
            full = len(group) == self._batch_size
            if full or (len(group) and not self._drop_remainder):
                groups.append(group)
            if not full:
                break
        return groups

    def skip(self, count: int) -> int:
        passed = self._source.skip(count * self._batch_size)
        return passed // self._batch_size if self._drop_remainder else -(-passed // self._batch_size)


def _frozen(columns: Any) -> Any:
    """Make arrays read-only, because a running step may still read them."""
    for leaf in flatten(columns):
        if isinstance(leaf, np.ndarray):
            leaf.flags.writeable = False
    return columns


def _split(columns: Any, sizes: list[int]) -> list[Any]:
    """Split a structure of arrays into consecutive batches of these sizes."""
    arrays = flatten(columns)
    stops = list(accumulate(sizes))
    return [
        rebuild(columns, [array[stop - size : stop] for array in arrays])
        for stop, size in zip(stops, sizes, strict=True)
    ]


class Unbatch(Node):
    """The rows of the elements. Handles are the rows."""

    @property
    def label(self) -> str:
        return "unbatch()"

    @property
    def cardinality(self) -> int:
        known = self.inputs[0].cardinality
        if known <= 0:
            return known
        sizes = {leaf.shape[0] for leaf in flatten(self.inputs[0].element_spec) if leaf.shape}
        size = sizes.pop() if len(sizes) == 1 else None
        return UNKNOWN if size is None else known * size

    @property
    def element_spec(self) -> Any:
        return map_leaves(_row_spec, self.inputs[0].element_spec)

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _UnbatchStream(self.inputs[0], run, epoch)


class _UnbatchStream(Stream):
    def __init__(self, node: Node, run: Run, epoch: Epoch):
        self._source = node.open(run, epoch)
        super().__init__(self._source)
        self._node = node
        self._run = run
        self._rows: list[Any] = []
        self._next = 0

    def pull(self, count: int) -> Handles:
        pulled: list[Any] = []
        while True:
            rows = self._rows[self._next : self._next + count - len(pulled)]
            self._next += len(rows)
            pulled += rows
            if len(pulled) == count:
                return pulled
            handles = self._source.pull(1)
            if not len(handles):
                return pulled
            (element,) = unstacked(self._node.load(self._run, handles))
            rows = map_leaves(_rows_of, element)
            self._rows, self._next = unstacked(Stacked(rows, _row_count(element))), 0


class Rebatch(Unbatch):
    """The rows of the elements, in batches of sizes that take turns. Handles are the batches."""

    def __init__(self, source: Node, sizes: tuple[int, ...], drop_remainder: bool):
        super().__init__(source)
        self._sizes = sizes
        self._drop_remainder = drop_remainder

    @property
    def label(self) -> str:
        return f"rebatch({list(self._sizes)}{', drop_remainder=True' if self._drop_remainder else ''})"

    @property
    def cardinality(self) -> int:
        rows = super().cardinality
        if rows <= 0:
            return rows
        cycles, rest = divmod(rows, sum(self._sizes))
        ends = list(accumulate(self._sizes))
        partial = sum(end <= rest for end in ends) + (rest not in (0, *ends) and not self._drop_remainder)
        return cycles * len(ends) + partial

    @property
    def element_spec(self) -> Any:
        size = self._sizes[0] if self._drop_remainder and len(set(self._sizes)) == 1 else None
        return map_leaves(
            lambda row: batched_spec(row, size),
            super().element_spec,
        )

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return _RebatchStream(self.inputs[0], self._sizes, self._drop_remainder, run, epoch)


class _RebatchStream(Stream):
    def __init__(self, node: Node, sizes: tuple[int, ...], drop_remainder: bool, run: Run, epoch: Epoch):
        self._source = node.open(run, epoch)
        super().__init__(self._source)
        self._node = node
        self._sizes = cycle(sizes)
        self._drop_remainder = drop_remainder
        self._run = run
        self._element: Any = None
        self._next = self._count = 0

    def pull(self, count: int) -> Handles:
        batches: list[Any] = []
        while len(batches) < count:
            size = next(self._sizes)
            pieces, rows = self._rows(size)
            if rows == size or (rows and not self._drop_remainder):
                batches.append(_concatenated(pieces))
            if rows < size:
                break
        return batches

    def _rows(self, size: int) -> tuple[list[Any], int]:
        """Return the next rows as slices of elements, and their number, which is less only at the end."""
        pieces, wanted = [], size
        while wanted:
            if self._next == self._count:
                handles = self._source.pull(1)
                if not len(handles):
                    break
                (self._element,) = unstacked(self._node.load(self._run, handles))
                self._next, self._count = 0, _row_count(self._element)
            stop = min(self._next + wanted, self._count)
            rows = [leaf[self._next : stop] for leaf in flatten(self._element)]
            pieces.append(rebuild(self._element, rows))
            wanted -= stop - self._next
            self._next = stop
        return pieces, size - wanted


def _concatenated(pieces: list[Any]) -> Any:
    """Concatenate the rows of structures of arrays."""
    if len(pieces) == 1:
        return pieces[0]
    try:
        columns = zip(*(flatten_as(pieces[0], piece) for piece in pieces), strict=True)
        return _frozen(rebuild(pieces[0], [np.concatenate(column) for column in columns]))
    except ValueError as exc:
        raise DatasetError(f"rebatch joins rows of one shape and structure, got others: {exc}.") from exc


def _rows_of(leaf: Any) -> Any:
    """Return the rows of a ragged or sparse tensor as objects, and an array as it is."""
    return object_array(leaf.rows()) if isinstance(leaf, RaggedTensor | SparseTensor) else leaf


def _row_count(element: Any) -> int:
    shapes: list[tuple[int, ...]] = [getattr(leaf, "shape", ()) for leaf in flatten(element)]
    if () in shapes or len({shape[0] for shape in shapes}) != 1:
        raise DatasetError(
            "unbatch and rebatch cut the components of an element along their first axis, which must be "
            f"equally long; their shapes are {shapes}."
        )
    return shapes[0][0]


def _row_spec(spec: TensorSpec) -> TensorSpec:
    if spec.shape == ():
        raise DatasetError(
            "unbatch and rebatch need components with a first axis, got single values. Leave unbatch out, or "
            "call batch in place of rebatch."
        )
    shape = None if spec.shape is None else spec.shape[1:]
    if isinstance(spec, RaggedTensorSpec):
        return RaggedTensorSpec(shape, spec.dtype, max(0, spec.ragged_rank - 1))
    return type(spec)(shape, spec.dtype)
