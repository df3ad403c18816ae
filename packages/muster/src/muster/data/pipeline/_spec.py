"""Leaves of elements: their specs (`TensorSpec`), conversion from Python values, stacking.

Leaves are NumPy arrays, NumPy scalars, sparse tensors, ``str``, ``bytes`` or any other Python object.
``bytes`` stack into object arrays, because NumPy's bytes type drops trailing zero bytes.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from muster._errors import DatasetError
from muster.data.pipeline._ragged_parts import is_ragged
from muster.data.pipeline._sparse_tensor import SparseTensor, stack_sparse
from muster.data.pipeline._structure import flatten, flatten_as, map_leaves, rebuild

Shape = tuple[int | None, ...]


def named_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return a NumPy type; text is ``"string"``, too, TensorFlow's name of it, which NumPy does not know."""
    return np.dtype(str if isinstance(dtype, str) and dtype == "string" else dtype)


class TensorSpec:
    """The shape and type of one component of a dataset's elements. Immutable.

    Source: tensorflow/python/framework/tensor.py, ``TensorSpec``.

    Example:
        ```python
        batches = Dataset.from_tensor_slices(np.zeros((8, 3), np.float32)).batch(4)
        assert batches.element_spec == muster.data.TensorSpec((None, 3), np.float32)
        ```
    """

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(
        self, shape: Iterable[int | None] | int | None, dtype: DTypeLike = np.float32, name: str | None = None
    ):
        """Describe a component.

        Args:
            shape: Sizes, None for one that varies; one size for one axis; or None for an unknown rank.
            dtype: Anything that ``np.dtype`` takes. Text of any length is ``str``, or ``"string"``.
            name: A name for people to read.

        Raises:
            ValueError: A size is negative.
        """
        sizes = (shape,) if isinstance(shape, int | np.integer) else shape
        self._shape: Shape | None = None if sizes is None else tuple(sizes)
        if any(size is not None and size < 0 for size in self._shape or ()):
            raise ValueError(f"a shape has sizes >= 0 or None, got {self._shape}.")
        self._dtype: np.dtype[Any] = _without_width(named_dtype(dtype))
        self._name = name

    @property
    def shape(self) -> Shape | None:
        """Sizes, None for one that varies; or None for an unknown rank."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type; text has no width (``np.dtype(str)``)."""
        return self._dtype

    @property
    def name(self) -> str | None:
        """The name, for people to read."""
        return self._name

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> "TensorSpec":
        """Return the spec of an array."""
        return cls(tensor.shape, tensor.dtype, name)

    @classmethod
    def from_spec(cls, spec: "TensorSpec", name: str | None = None) -> "TensorSpec":
        """Return the spec under another name, if one is given."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether a leaf or another spec fits this one."""
        spec = other if isinstance(other, TensorSpec) else spec_of(other)
        return self._dtype == spec._dtype and fits(spec._shape, self._shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self._shape == other._shape and self._dtype == other._dtype

    def __hash__(self) -> int:
        return hash((self._shape, self._dtype))

    def __repr__(self) -> str:
        name = "" if self._name is None else f", name={self._name!r}"
        return f"TensorSpec(shape={self._shape}, dtype={short_dtype(self._dtype)}{name})"


class RaggedTensorSpec(TensorSpec):
    """The shape and type of ragged tensors, and of what becomes ragged when it is batched.

    Args:
        shape: Sizes, None for those of ragged axes; or None for an unknown rank.
        dtype: The type of the values.
        ragged_rank: How many axes are ragged; None for all but the first.
        row_splits_dtype: Unused: splits are int64.

    Source: tensorflow/python/ops/ragged/ragged_tensor.py, ``RaggedTensorSpec``.
    """

    __slots__ = ("_ragged_rank",)

    def __init__(
        self,
        shape: Iterable[int | None] | None = None,
        dtype: DTypeLike = np.float32,
        ragged_rank: int | None = None,
        row_splits_dtype: DTypeLike = np.int64,
    ) -> None:
        super().__init__(shape, dtype)
        known = 0 if self._shape is None else len(self._shape) - 1
        self._ragged_rank = known if ragged_rank is None else ragged_rank

    @property
    def ragged_rank(self) -> int:
        """The number of ragged axes."""
        return self._ragged_rank

    def __repr__(self) -> str:
        return f"RaggedTensorSpec({self._shape}, {short_dtype(self._dtype)}, {self._ragged_rank}, int64)"


class SparseTensorSpec(TensorSpec):
    """The shape and type of sparse tensors.

    Source: tensorflow/python/framework/sparse_tensor.py, ``SparseTensorSpec``.
    """

    __slots__ = ()

    def __init__(self, shape: Iterable[int | None] | None = None, dtype: DTypeLike = np.float32) -> None:
        super().__init__(shape, dtype)

    @property
    def value_type(self) -> type:
        """The class of what it describes."""
        return SparseTensor

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self._shape}, {short_dtype(self._dtype)})"


def batched_spec(spec: TensorSpec, size: int | None) -> TensorSpec:
    """Return the spec of `size` elements of a spec, stacked."""
    shape = None if spec.shape is None else (size, *spec.shape)
    if isinstance(spec, RaggedTensorSpec):
        return RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank + 1)
    return type(spec)(shape, spec.dtype)


def short_dtype(dtype: np.dtype[Any]) -> str:
    """Return the name of a type, without the width of text."""
    return {"U": "str", "S": "bytes"}.get(dtype.kind, str(dtype))


def short(spec: Any) -> str:
    """Format a structure of specs in one line: ``uint8[28,28,1], int64[]``."""
    return ", ".join(
        f"{short_dtype(leaf.dtype)}[{'...' if leaf.shape is None else ','.join(map(str, leaf.shape))}]"
        for leaf in flatten(spec)
    )


def fits(shape: Shape | None, pattern: Shape | None) -> bool:
    """Return whether `shape` equals `pattern`, where None stands for any size."""
    if shape is None or pattern is None:
        return True
    return len(shape) == len(pattern) and all(
        None in (size, wanted) or size == wanted for size, wanted in zip(shape, pattern, strict=True)
    )


def common_spec(first: TensorSpec, second: TensorSpec) -> TensorSpec:
    """Return the spec that two specs of one type fit; sizes or ranks that differ are None."""
    if first.shape is None or second.shape is None or len(first.shape) != len(second.shape):
        return TensorSpec(None, first.dtype)
    shape = [a if a == b else None for a, b in zip(first.shape, second.shape, strict=True)]
    if isinstance(first, RaggedTensorSpec) and isinstance(second, RaggedTensorSpec):
        if first.ragged_rank == second.ragged_rank:
            return RaggedTensorSpec(shape, first.dtype, first.ragged_rank)
    elif isinstance(first, SparseTensorSpec) and isinstance(second, SparseTensorSpec):
        return SparseTensorSpec(shape, first.dtype)
    return TensorSpec(shape, first.dtype)


def spec_of(leaf: Any) -> TensorSpec:
    """Return the spec of one leaf."""
    if isinstance(leaf, np.ndarray | np.generic):
        return TensorSpec(leaf.shape, leaf.dtype)
    if isinstance(leaf, SparseTensor):
        return SparseTensorSpec([None] * len(leaf.shape), leaf.dtype)
    if is_ragged(leaf):
        return RaggedTensorSpec((None, *leaf.shape[1:]), leaf.dtype, leaf.ragged_rank)
    return TensorSpec((), str if isinstance(leaf, str) else object)


def as_leaf(value: Any, copy: bool = True) -> Any:
    """Convert a value from user code to a leaf.

    Python numbers and lists of them get TensorFlow's types: int32 (int64 if one is larger) and float32.

    Args:
        value: Anything.
        copy: Whether to copy an array: user code may reuse its buffer.
    """
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            return np.asarray(value)[()]  # a single value of NumPy's own class
        return value.copy() if copy else value
    if isinstance(value, str | bytes) and type(value) not in (np.str_, np.bytes_):
        return str(value) if isinstance(value, str) else bytes(value)
    if isinstance(value, np.generic):
        return value
    if isinstance(value, bool | int | float | complex | list):
        return as_array(value)[()]
    if hasattr(value, "__array__"):
        return as_leaf(np.asarray(value), copy)
    return value


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """Convert a component to an array, with TensorFlow's types for Python numbers.

    Raises:
        DatasetError: Nested lists differ in length.
    """
    try:
        array = np.asarray(value)
    except ValueError as exc:
        raise DatasetError(f"a nested list cannot become an array: {exc}") from exc
    if isinstance(value, list | bool | int | float | complex):
        first = value
        while isinstance(first, list | tuple) and first:
            first = first[0]
        if isinstance(first, bytes) and not isinstance(first, np.generic):
            return np.array(value, dtype=object)
        if not isinstance(first, np.generic | np.ndarray):
            array = _narrow(array)
    return array


def _narrow(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.complex128:
        return array.astype(np.complex64)
    if array.dtype == np.int64 and array.size:
        limits = np.iinfo(np.int32)
        if limits.min <= array.min() and array.max() <= limits.max:
            return array.astype(np.int32)
    return array


def as_element(value: Any) -> Any:
    """Convert a value from user code to an element."""
    return map_leaves(as_leaf, value)


def stack(elements: Sequence[Any]) -> Any:
    """Stack elements along a new first axis.

    Raises:
        DatasetError: They differ in structure, shape or type.
    """
    first = elements[0]
    if isinstance(first, str | bytes | np.ndarray | np.generic):  # alone, without a structure
        return _stack_leaves(elements)
    rows = [flatten_as(first, element) for element in elements]
    return rebuild(first, [_stack_leaves(leaves) for leaves in zip(*rows, strict=True)])


def _stack_leaves(leaves: Sequence[Any]) -> Any:
    first = leaves[0]
    if isinstance(first, str) and all(isinstance(leaf, str) for leaf in leaves):
        return np.array(leaves)
    if isinstance(first, np.ndarray | np.generic):
        check_alike(leaves)
        return np.stack(leaves) if isinstance(first, np.ndarray) else np.array(leaves)
    if isinstance(first, SparseTensor):
        return stack_sparse(leaves)
    if is_ragged(first):
        return first.stacked(leaves)
    return object_array(leaves)


def check_alike(leaves: Sequence[Any], ranks_only: bool = False) -> None:
    """Check that leaves have one type and shape (one rank, if `ranks_only`).

    Raises:
        DatasetError: Two differ; names both.
    """
    first = leaves[0]
    if isinstance(first, np.ndarray | np.generic) and all(
        type(leaf) is type(first) and leaf.dtype == first.dtype and leaf.shape == first.shape
        for leaf in leaves
    ):
        return  # avoids the cost of building specs
    wanted = spec_of(first)
    for i, leaf in enumerate(leaves):
        spec = spec_of(leaf)
        if spec.dtype != wanted.dtype:
            raise DatasetError(
                f"cannot batch elements of different types: element 0 of the batch is "
                f"{short(wanted)}, element {i} is {short(spec)}. Cast them to one type in `map`."
            )
        if ranks_only and spec.shape is not None and wanted.shape is not None:
            if len(spec.shape) != len(wanted.shape):
                raise DatasetError(
                    f"cannot pad elements of different ranks: element 0 of the batch has shape "
                    f"{wanted.shape}, element {i} has shape {spec.shape}."
                )
        elif spec.shape != wanted.shape:
            raise DatasetError(
                f"cannot batch elements of different shapes: element 0 of the batch has shape "
                f"{wanted.shape}, element {i} has shape {spec.shape}. Use `padded_batch` to pad them."
            )


def object_array(leaves: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return a vector of Python objects; NumPy would make lists among them axes."""
    array = np.empty(len(leaves), dtype=object)
    for i, leaf in enumerate(leaves):
        array[i] = leaf
    return array


def _without_width(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(dtype.kind) if dtype.kind in "US" else dtype
