"""``tf.ragged``: functions that create ragged tensors, and operations that only they have."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from muster.data import RaggedTensor, SparseTensor
from muster_tensorflow.library.ops._arrays import DTypeLike, as_array
from muster_tensorflow.library.ops._operation import on_rows, operation
from muster_tensorflow.library.ops.arrays import _select, _shape
from muster_tensorflow.library.ops.ragged import _ragged_shape
from muster_tensorflow.library.ops.ragged._ragged_values import stack_rows, with_structure

# With the methods that `add_operators` gives it.
_made: Any = RaggedTensor


def constant(
    pylist: Any,
    dtype: DTypeLike = None,
    ragged_rank: int | None = None,
    inner_shape: Sequence[int] | None = None,
    name: str | None = None,
    row_splits_dtype: DTypeLike = np.int64,
) -> Any:
    """Return nested lists as a ragged tensor; an array if there is nothing ragged.

    Args:
        pylist: Lists of lists, of numbers or text.
        dtype: The type of the values; None is int32, float32 or text, as they are.
        ragged_rank: How many axes after the first are ragged; None for all but those of `inner_shape`.
        inner_shape: The shape of the innermost values, which has no ragged axes.
        name: Unused.
        row_splits_dtype: Unused: splits are int64.

    Raises:
        ValueError: Lists are nested to different depths, or have text and numbers.

    Source: tensorflow/python/ops/ragged/ragged_factory_ops.py, ``constant``.
    """
    depth = _depth(pylist)
    inner = None if inner_shape is None else len(tuple(inner_shape))
    rank = max(0, depth - 1 - (inner or 0)) if ragged_rank is None else ragged_rank
    found = pylist
    lengths = []
    for _ in range(rank):
        if any(isinstance(each, str | bytes) or not hasattr(each, "__len__") for each in found):
            raise ValueError(f"pylist has values beside nested lists: {pylist!r}.")
        lengths.append([len(each) for each in found])
        found = list(itertools.chain.from_iterable(found))
    if len({isinstance(each, str | bytes) for each in found}) > 1:
        raise ValueError(f"pylist must have values of one kind, got text and numbers: {pylist!r}.")
    values = as_array(list(found), dtype)
    if not values.size and dtype is None:
        values = values.astype(np.float32)
    if inner_shape is not None and not values.size:
        values = values.reshape(-1, *inner_shape)
    return _made.from_nested_row_lengths(values, lengths)


def _depth(value: Any) -> int:
    """Return how deep lists are nested."""
    if isinstance(value, np.ndarray):
        # One of objects may hold lists, such as a column of a table.
        return value.ndim + (max(map(_depth, value.flat), default=0) if value.dtype == object else 0)
    if not isinstance(value, list | tuple):
        return 0
    return 1 + max(map(_depth, value), default=0)


@operation
def range_(
    starts: Any,
    limits: Any = None,
    deltas: Any = 1,
    dtype: DTypeLike = None,
    name: str | None = None,
    row_splits_dtype: DTypeLike = np.int64,
) -> RaggedTensor:
    """Return rows of numbers: each from a start up to a limit; without limits, from 0 up to `starts`."""
    first, last = (np.zeros_like(as_array(starts)), starts) if limits is None else (starts, limits)
    bounds = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(as_array(each))) for each in (first, last, deltas))
    )
    rows = [np.arange(*each) for each in zip(*bounds, strict=True)]
    kind = np.result_type(*bounds) if dtype is None else dtype
    return RaggedTensor.from_row_lengths(
        np.concatenate([np.zeros(0, kind), *rows]).astype(kind), list(map(len, rows))
    )


@operation
def stack(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Stack arrays or ragged tensors of any lengths along a new axis."""
    tensors = [each if isinstance(each, RaggedTensor) else as_array(each) for each in values]
    if tensors[0].ndim == 0:
        return _shape.stack(tensors, axis)
    if tensors[0].ndim > 1:
        tensors = [_ragged_shape.as_ragged(each) for each in tensors]
    if axis == 0:
        return stack_rows(tensors)
    if tensors[0].ndim == 1:
        return RaggedTensor.from_tensor(_shape.stack(tensors, axis))
    return _ragged_shape.stack(tensors, axis)


@operation
def cross(inputs: Sequence[Any], name: str | None = None) -> RaggedTensor:
    """Return for each row each combination of values of several inputs, as text with ``_X_`` in between.

    Args:
        inputs: Ragged and sparse tensors and arrays of shape (rows, values), of text or integers.
        name: Unused.

    Raises:
        ValueError: An input has other values, or another number of rows or of axes.

    Source: tensorflow/python/ops/ragged/ragged_array_ops.py, ``cross``.
    """
    given = []
    for number, each in enumerate(inputs):
        rows = _made.from_sparse(each) if isinstance(each, SparseTensor) else each
        rows = rows if isinstance(rows, RaggedTensor) else as_array(rows)
        if rows.ndim != 2 or rows.dtype.kind not in "iuSUO":
            raise ValueError(f"inputs[{number}] must be rows of text or integers, got {each!r}.")
        given.append(_ragged_shape.as_ragged(rows).lists())
    if len({*map(len, given)}) > 1:
        raise ValueError(f"The inputs must have the same number of rows, got {[*map(len, given)]}.")
    found = [list(itertools.product(*rows)) for rows in zip(*given, strict=True)]
    texts = ["_X_".join(map(_as_text, values)) for values in itertools.chain.from_iterable(found)]
    return RaggedTensor.from_row_lengths(as_array(texts, np.str_), list(map(len, found)))


def _as_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function with the flat values of ragged tensors among its arguments.

    Raises:
        ValueError: The ragged tensors have rows of different lengths.
    """
    found: list[RaggedTensor] = []

    def flat(value: Any) -> Any:
        if isinstance(value, RaggedTensor):
            found.append(value)
            return value.flat_values
        if isinstance(value, list | tuple):
            return type(value)(map(flat, value))
        return value

    values, named = list(map(flat, args)), {name: flat(value) for name, value in kwargs.items()}
    if not all(with_structure(each, found[0]) for each in found):
        raise ValueError("All ragged inputs must have the same row_splits.")
    result = op(*values, **named)
    return found[0].with_flat_values(result) if found else result


@operation
def boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """Return the values where a mask is True, in their rows.

    Args:
        data: An array or a ragged tensor.
        mask: Booleans for its first axes.
        name: Unused.

    Source: tensorflow/python/ops/ragged/ragged_array_ops.py, ``boolean_mask``.
    """
    wanted = mask if isinstance(mask, RaggedTensor) else np.asarray(as_array(mask), bool)
    if not isinstance(wanted, RaggedTensor) and wanted.ndim == 1:
        at = np.flatnonzero(wanted)
        return data.rows_at(at) if isinstance(data, RaggedTensor) else as_array(data)[at]
    rows = _ragged_shape.as_ragged(wanted, wanted.ndim - 1)
    return _masked(_ragged_shape.as_ragged(data, rows.ragged_rank), rows)


def _masked(data: RaggedTensor, mask: RaggedTensor) -> RaggedTensor:
    if isinstance(mask.inner, RaggedTensor):
        return data.with_values(_masked(_ragged_shape.as_ragged(data.inner), mask.inner))
    at = np.flatnonzero(np.asarray(mask.inner))
    counts = np.bincount(mask.coordinates()[0][at], minlength=len(mask))
    return RaggedTensor.from_row_lengths(data.taken(at), counts)


@on_rows(_select.boolean_mask)
def _boolean_mask(tensor: Any, mask: Any, axis: int | None = None, name: str | None = None) -> Any:
    return boolean_mask(tensor, mask)


@operation
def row_splits_to_segment_ids(splits: Any, name: str | None = None, out_type: DTypeLike = np.int64) -> Any:
    """Return the number of each value's row."""
    lengths = np.diff(np.asarray(splits))
    return np.repeat(np.arange(len(lengths)), lengths).astype(out_type or np.int64)


@operation
def segment_ids_to_row_splits(
    segment_ids: Any, num_segments: int | None = None, out_type: DTypeLike = np.int64, name: str | None = None
) -> Any:
    """Return where rows begin, and where the last one ends, of the numbers of values' rows."""
    ids = np.asarray(segment_ids)
    count = int(ids.max(initial=-1)) + 1 if num_segments is None else int(num_segments)
    return np.searchsorted(ids, np.arange(count + 1)).astype(out_type or np.int64)


@operation
def stack_dynamic_partitions(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> Any:
    """Return the values of each partition as rows, in their order."""
    ids = np.asarray(as_array(partitions)).ravel()
    order = np.argsort(ids, kind="stable")
    rows = data.rows_at(order) if isinstance(data, RaggedTensor) else as_array(data)[order]
    return RaggedTensor.from_row_lengths(rows, np.bincount(ids, minlength=int(num_partitions)))


class _Partition:
    """The splits of a ragged tensor, or the places of a sparse one, as what JAX compares and hashes."""

    def __init__(self, arrays: Sequence[Any], uniform: tuple[int | None, ...] = ()) -> None:
        self.arrays = list(arrays)
        self.uniform = uniform
        self._key = (tuple((each.shape, each.tobytes()) for each in self.arrays), uniform)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Partition) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _taken_apart(ragged: RaggedTensor) -> tuple[tuple[Any], _Partition]:
    each: Any = ragged
    uniform = []
    while isinstance(each, RaggedTensor):
        uniform.append(each.uniform_row_length)
        each = each.inner
    return (ragged.plain_values,), _Partition(ragged.plain_splits, tuple(uniform))


def _put_together(partition: _Partition, values: tuple[Any]) -> Any:
    made = values[0]
    for splits, uniform in zip(reversed(partition.arrays), reversed(partition.uniform), strict=True):
        made = RaggedTensor.of_checked(made, splits, uniform)
    return made


jax.tree_util.register_pytree_node(RaggedTensor, _taken_apart, _put_together)


def _sparse_taken_apart(sparse: SparseTensor) -> tuple[tuple[Any], _Partition]:
    return (sparse.plain_values,), _Partition([sparse.plain_indices, np.array(sparse.shape)])


def _sparse_put_together(partition: _Partition, values: tuple[Any]) -> SparseTensor:
    indices, shape = partition.arrays
    return SparseTensor.of_checked(indices, values[0], shape)


jax.tree_util.register_pytree_node(SparseTensor, _sparse_taken_apart, _sparse_put_together)
