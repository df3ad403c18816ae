"""Sources of elements: arrays, ranges of numbers, Python generators."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster.data.pipeline._handles import Handles, Loaded, RowNumbers, Stacked, Stream, unstacked
from muster.data.pipeline._node import INFINITE, UNKNOWN, Epoch, Node, Run, TableSource
from muster.data.pipeline._ragged_tensor import RaggedTensor
from muster.data.pipeline._sparse_tensor import SparseTensor
from muster.data.pipeline._spec import (
    RaggedTensorSpec,
    SparseTensorSpec,
    TensorSpec,
    as_array,
    as_leaf,
    fits,
    object_array,
    short,
    spec_of,
)
from muster.data.pipeline._structure import flatten, flatten_as, map_leaves, rebuild

_ALIGNMENT = 64
"""In bytes. XLA reads an array on the host in place if it is aligned to this."""


class ArraySource(TableSource):
    """The rows of arrays of equal length, gathered in place.

    Args:
        template: The structure of an element.
        arrays: Those of its leaves. A vector of objects may hold sparse tensors, or arrays of different
            lengths.
        name: What made the dataset.
        specs: The specs of such objects; None for those of the arrays' rows.
    """

    def __init__(
        self,
        template: Any,
        arrays: list[np.ndarray[Any, Any]],
        name: str,
        specs: Sequence[TensorSpec | None] = (),
    ):
        super().__init__()
        self._template = template
        self._arrays = arrays
        self._specs = specs or [None] * len(arrays)
        self.uniform = not any(self._specs)
        self.ragged = any(isinstance(spec, RaggedTensorSpec) for spec in self._specs)
        self._name = name

    @classmethod
    def slices(cls, tensors: Any) -> "ArraySource":
        """Slice a structure of arrays along their first axis.

        Raises:
            ValueError: There is no array, or one without axes.
            DatasetError: The arrays have different lengths.
        """
        leaves = flatten(tensors)
        arrays = [
            object_array(leaf.rows()) if isinstance(leaf, SparseTensor | RaggedTensor) else as_array(leaf)
            for leaf in leaves
        ]
        if not arrays:
            raise ValueError(f"from_tensor_slices needs at least one array, got {tensors!r}.")
        shapes = [array.shape for array in arrays]
        if () in shapes:
            raise ValueError(
                f"from_tensor_slices cuts arrays along their first axis, but component {shapes.index(())} is "
                "a single value. Use from_tensors for one element."
            )
        if len({shape[0] for shape in shapes}) > 1:
            raise DatasetError(
                "from_tensor_slices needs components of the same length, got lengths "
                f"{[shape[0] for shape in shapes]} (shapes {shapes})."
            )
        specs = [
            RaggedTensorSpec(leaf.shape[1:], leaf.dtype, leaf.ragged_rank - 1)
            if isinstance(leaf, RaggedTensor)
            else SparseTensorSpec(leaf.shape[1:], leaf.dtype)
            if isinstance(leaf, SparseTensor)
            else None
            for leaf in leaves
        ]
        return cls(tensors, arrays, "from_tensor_slices", specs)

    @classmethod
    def single(cls, tensors: Any) -> "ArraySource":
        """Make a source of one element.

        Raises:
            ValueError: There is no leaf.
        """
        leaves = [as_leaf(leaf) for leaf in flatten(tensors)]
        if not leaves:
            raise ValueError(f"from_tensors needs at least one value, got {tensors!r}.")
        arrays = [
            np.asarray(leaf)[None]
            if isinstance(leaf, np.ndarray | np.generic | str)
            else object_array([leaf])
            for leaf in leaves
        ]
        kinds = SparseTensor | RaggedTensor
        specs = [spec_of(leaf) if isinstance(leaf, kinds) else None for leaf in leaves]
        return cls(tensors, arrays, "from_tensors", specs)

    @property
    def label(self) -> str:
        return f"{self._name}({self.cardinality} of {short(self.element_spec)})"

    @property
    def cardinality(self) -> int:
        return len(self._arrays[0])

    @property
    def element_spec(self) -> Any:
        return rebuild(
            self._template,
            [
                spec or TensorSpec(a.shape[1:], a.dtype)
                for a, spec in zip(self._arrays, self._specs, strict=True)
            ],
        )

    def load(self, run: Run, handles: Handles) -> Loaded:
        gathered = [_gather(array, handles) for array in self._arrays]
        if not self.uniform:
            return unstacked(Stacked(rebuild(self._template, gathered), len(handles)))
        return Stacked(rebuild(self._template, gathered), len(handles))


def _gather(array: np.ndarray[Any, Any], rows: Handles) -> np.ndarray[Any, Any]:
    """Copy rows into aligned memory; JAX would copy other memory again."""
    if array.dtype.kind not in "biufc":
        return array.take(rows, axis=0)
    shape = (len(rows), *array.shape[1:])
    memory = np.empty(math.prod(shape) * array.itemsize + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    aligned = memory[start : memory.size - _ALIGNMENT + start].view(array.dtype).reshape(shape)
    # Row numbers are never out of range, and with mode="raise" NumPy would gather into a buffer first.
    return array.take(rows, axis=0, out=aligned, mode="clip")


class RangeSource(TableSource):
    """Evenly spaced numbers, computed when they are loaded."""

    def __init__(self, numbers: range, dtype: np.dtype[Any]):
        super().__init__(label=f"{numbers} of {dtype}")
        self._numbers = numbers
        self._dtype = dtype

    @property
    def cardinality(self) -> int:
        return len(self._numbers)

    @property
    def element_spec(self) -> Any:
        return TensorSpec((), self._dtype)

    def load(self, run: Run, handles: Handles) -> Loaded:
        rows = np.asarray(handles)
        return Stacked((self._numbers.start + rows * self._numbers.step).astype(self._dtype), len(rows))


class CountSource(RangeSource):
    """The int64 numbers from a first one, without an end."""

    cardinality = INFINITE

    def __init__(self, first: int) -> None:
        super().__init__(range(first, first + sys.maxsize), np.dtype(np.int64))

    def open(self, run: Run, epoch: Epoch) -> Stream:
        return RowNumbers(len(self._numbers))


class GeneratorSource(Node):
    """The elements of a Python generator, which is called again for each pass."""

    cardinality = UNKNOWN
    is_constant = False

    def __init__(self, function: Callable[..., Iterable[Any]], args: tuple[Any, ...], spec: Any):
        """Check the arguments.

        Args:
            function: Returns an iterable; called for each pass. To resume at a position, elements before it
                are generated again and dropped: it must yield the same ones each time.
            args: Arguments of `function`, which gets them as NumPy values.
            spec: Structure of `TensorSpec` that elements must fit.

        Raises:
            TypeError: `function` is not callable, or a leaf of `spec` is not a `TensorSpec`.
            ValueError: `spec` has no leaf.
        """
        if not callable(function):
            raise TypeError(f"from_generator needs a function that returns an iterable, got {function!r}.")
        leaves = flatten(spec)
        if not leaves:
            raise ValueError(f"output_signature needs at least one TensorSpec, got {spec!r}.")
        for leaf in leaves:
            if not isinstance(leaf, TensorSpec):
                raise TypeError(f"output_signature is a structure of TensorSpec, got {leaf!r} in it.")
        super().__init__(label=f"from_generator({short(spec)})")
        self._function = function
        self._args = tuple(map_leaves(as_leaf, arg) for arg in args)
        self._spec = spec
        self._specs: list[TensorSpec] = leaves

    @property
    def element_spec(self) -> Any:
        return self._spec

    def open(self, run: Run, epoch: Epoch) -> Stream:
        elements = self._function(*self._args)
        try:
            iterator = iter(elements)
        except TypeError as exc:
            raise TypeError(
                f"from_generator needs a function that returns an iterable, {self._function!r} returned "
                f"{elements!r}."
            ) from exc
        return _Generated(iterator, self._convert)

    def _convert(self, value: Any) -> Any:
        leaves = flatten_as(self._spec, value)
        return rebuild(
            self._spec, [_conform(leaf, spec) for leaf, spec in zip(leaves, self._specs, strict=True)]
        )


class _Generated(Stream):
    def __init__(self, elements: Iterator[Any], convert: Callable[[Any], Any]):
        super().__init__()
        self._elements = elements
        self._convert = convert

    def pull(self, count: int) -> Handles:
        return [self._convert(value) for value in islice(self._elements, count)]

    def skip(self, count: int) -> int:
        return sum(1 for _ in islice(self._elements, count))

    def close(self) -> None:
        if hasattr(self._elements, "close"):
            self._elements.close()


def _conform(value: Any, spec: TensorSpec) -> Any:
    """Convert a value from a generator to a leaf that fits `spec`.

    Raises:
        DatasetError: It does not fit.
    """
    if isinstance(value, tuple):
        value = list(value)  # where the signature has a leaf, it is one array, as in TensorFlow
    leaf = as_leaf(value)
    if isinstance(leaf, np.ndarray) and leaf.size == 0 and isinstance(value, list):
        leaf = leaf.astype(spec.dtype)  # an empty list has no type
    elif isinstance(value, float | complex | list) and leaf.dtype.kind in "fc" and spec.dtype.kind in "fc":
        leaf = _cast(np.asarray(value)[()], spec.dtype)  # Python's numbers have 64 bits; `as_leaf` keeps 32
    elif isinstance(value, list) and spec.dtype.kind == "U":
        leaf = _decoded(leaf)
    elif isinstance(leaf, np.ndarray | np.generic) and spec.dtype.kind not in "OUS":
        leaf = _cast(leaf, spec.dtype)
    found = spec_of(leaf)
    as_objects = spec.dtype.kind == "O" or (spec.dtype.kind in "SU" and isinstance(leaf, bytes))
    if not (as_objects or found.dtype == spec.dtype) or not fits(found.shape, spec.shape):
        raise DatasetError(
            f"the generator yielded {_shorten(value)}, which is {short(found)}, where its signature says "
            f"{short(spec)}. Change the generator or its output_signature."
        )
    return leaf


def _decoded(leaf: Any) -> Any:
    """Return an array of texts that were bytes; any other array, such as one of images, as it is."""
    if not isinstance(leaf, np.ndarray) or not all(isinstance(each, bytes) for each in leaf.flat):
        return leaf
    try:
        texts = [each.decode() for each in leaf.ravel().tolist()]
    except UnicodeDecodeError:
        return leaf
    return np.array(texts, str).reshape(leaf.shape)


def _cast(leaf: Any, dtype: np.dtype[Any]) -> Any:
    """Cast numbers unless that changes integers; return those unchanged."""
    if leaf.dtype == dtype:
        return leaf
    if leaf.dtype.kind in "iu" and dtype.kind in "iu":
        cast = leaf.astype(dtype)
        return cast if np.array_equal(cast, leaf) else leaf
    return leaf.astype(dtype) if np.can_cast(leaf.dtype, dtype, "same_kind") else leaf


def _shorten(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
