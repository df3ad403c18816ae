"""``tf.sparse``: sparse tensors, and what Keras' layers give with ``sparse=True``."""

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse import BCOO

from muster.data import SparseTensor
from muster.program import SparseRows
from muster_tensorflow.library.ops._arrays import DTypeLike, as_array
from muster_tensorflow.library.ops._operation import operation


@operation
def to_dense(
    sp_input: SparseTensor | BCOO,
    default_value: Any = None,
    validate_indices: bool = True,
    name: str | None = None,
) -> Any:
    """Return the array, with a value for its empty places.

    Args:
        sp_input: A sparse tensor; or one of JAX, as layers give it with ``sparse=True``.
        default_value: The value; None is 0, or empty text. Of a sparse tensor of JAX, only 0.
        validate_indices: Unused.
        name: Unused.

    Raises:
        ValueError: Empty places of a sparse tensor of JAX are to have another value than 0.

    Source: tensorflow/python/ops/sparse_ops.py, ``sparse_tensor_to_dense``.
    """
    if not isinstance(sp_input, BCOO):
        return sp_input.to_dense(default_value)
    if default_value:
        raise ValueError(f"default_value must be 0 for what a layer gives, got {default_value!r}.")
    return sp_input.todense()


@operation
def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """Return the values of an array other than 0, or than empty text; in a step, of a matrix."""
    if isinstance(tensor, jax.core.Tracer) and tensor.ndim == 2:
        empty = tensor == 0
        columns = jnp.argsort(empty, axis=1, stable=True)
        packed = jnp.take_along_axis(tensor, columns, axis=1)
        counts = jnp.sum(~empty, axis=1, dtype="int32")
        return SparseRows(columns.astype("int32"), packed, counts, tensor.shape[1])
    array = np.asarray(as_array(tensor))
    there = array != ("" if array.dtype.kind == "U" else b"" if array.dtype.kind in "SO" else 0)
    return SparseTensor(np.argwhere(there), array[there], array.shape)


@operation
def add(a: Any, b: Any, threshold: float = 0) -> Any:
    """Add two sparse tensors; or a sparse tensor and an array, which gives an array.

    Args:
        a: One of them.
        b: The other, of the same shape.
        threshold: Sums of sparse tensors that are smaller are left out.
    """
    if not (isinstance(a, SparseTensor) and isinstance(b, SparseTensor)):
        dense = [each.to_dense() if isinstance(each, SparseTensor) else as_array(each) for each in (a, b)]
        return dense[0] + dense[1]
    if a.shape != b.shape:
        raise ValueError(f"Operands' shapes do not match, got {a.shape} and {b.shape}.")
    total = _merged([a, b], jax.ops.segment_sum, np.add)
    if not threshold:
        return total
    return retain(total, np.abs(np.asarray(total.plain_values)) >= threshold)


def _merged(tensors: Sequence[SparseTensor], on_device: Callable[..., Any], on_host: Any) -> SparseTensor:
    """Return one value for each place at which one of the tensors has one."""
    shape = tensors[0].shape
    places = np.concatenate([_linear(each.plain_indices, shape) for each in tensors])
    there, numbers = np.unique(places, return_inverse=True)
    return _by_place(there, numbers, [each.plain_values for each in tensors], shape, on_device, on_host)


def _by_place(
    there: Any, numbers: Any, values: Sequence[Any], shape: Any, on_device: Callable[..., Any], on_host: Any
) -> SparseTensor:
    if all(isinstance(each, np.ndarray) for each in values):
        whole = np.concatenate(values)
        order = np.argsort(numbers, kind="stable")
        found = on_host.reduceat(whole[order], np.searchsorted(numbers[order], np.arange(len(there))))
    else:
        found = on_device(
            jnp.concatenate([jnp.asarray(each) for each in values]), jnp.asarray(numbers), len(there)
        )
    return SparseTensor(_unravelled(there, shape), found[: len(there)], shape)


def _linear(indices: Any, shape: Sequence[int]) -> Any:
    return np.ravel_multi_index(tuple(indices.T), tuple(shape)) if len(indices) else np.zeros(0, np.int64)


def _unravelled(places: Any, shape: Sequence[int]) -> Any:
    return np.stack(np.unravel_index(np.asarray(places, np.int64), tuple(shape)), axis=1)


@operation
def maximum(sp_a: SparseTensor, sp_b: SparseTensor, name: str | None = None) -> SparseTensor:
    """Return the larger value at each place; an empty one counts as 0."""
    return _with_zeros(sp_a, sp_b, jax.ops.segment_max, np.maximum)


@operation
def minimum(sp_a: SparseTensor, sp_b: SparseTensor, name: str | None = None) -> SparseTensor:
    """Return the smaller value at each place; an empty one counts as 0."""
    return _with_zeros(sp_a, sp_b, jax.ops.segment_min, np.minimum)


def _with_zeros(
    a: SparseTensor, b: SparseTensor, on_device: Callable[..., Any], on_host: Any
) -> SparseTensor:
    zeros = [each.with_values(each.plain_values * 0) for each in (a, b)]
    whole = [
        _merged([a, zeros[1]], jax.ops.segment_sum, np.add),
        _merged([b, zeros[0]], jax.ops.segment_sum, np.add),
    ]
    return _merged(whole, on_device, on_host)


@operation
def sparse_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Any:
    """Return the product of a sparse matrix and a dense one, or of a dense and a sparse one.

    Args:
        sp_a: A matrix.
        b: A matrix; one of the two is sparse.
        adjoint_a: Whether to transpose `sp_a`, and conjugate it.
        adjoint_b: Whether to transpose `b`, and conjugate it.
        name: Unused.
    """
    if isinstance(b, SparseTensor):
        turned = sparse_dense_matmul(b, sp_a, not adjoint_b, not adjoint_a)
        return turned.T
    if adjoint_a:
        sp_a = transpose(sp_a)
    dense = jnp.asarray(as_array(b))
    dense = dense.conj().T if adjoint_b else dense
    if sp_a.shape[1] != dense.shape[0]:
        raise ValueError(f"Matrices of shapes {sp_a.shape} and {tuple(dense.shape)} have no product.")
    rows, columns = sp_a.plain_indices.T
    products = jnp.asarray(sp_a.plain_values)[:, None] * dense[columns]
    return jax.ops.segment_sum(products, jnp.asarray(rows), sp_a.shape[0])


@operation
def slice(sp_input: SparseTensor, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """Return the part that begins at `start` and has at most this size."""
    first = np.asarray(start, np.int64)
    sizes = np.maximum(np.minimum(np.asarray(size, np.int64), np.array(sp_input.shape) - first), 0)
    moved = sp_input.plain_indices - first
    at = np.flatnonzero(((moved >= 0) & (moved < sizes)).all(axis=1))
    return SparseTensor(moved[at], sp_input.plain_values[at], sizes)


@operation
def split(sp_input: SparseTensor, num_split: int, axis: int, name: str | None = None) -> list[SparseTensor]:
    """Split along an axis; the first parts are one longer if it does not divide."""
    shape = sp_input.shape
    size, more = divmod(shape[axis], num_split)
    parts, start = [], [0] * len(shape)
    for number in range(num_split):
        sizes = list(shape)
        sizes[axis] = size + (number < more)
        parts.append(slice(sp_input, start, sizes))
        start[axis] += sizes[axis]
    return parts


@operation
def concat(
    axis: int, sp_inputs: Sequence[SparseTensor], expand_nonconcat_dims: bool = False, name: str | None = None
) -> SparseTensor:
    """Join sparse tensors along an axis.

    Raises:
        ValueError: They differ in other axes, and `expand_nonconcat_dims` is False.
    """
    shapes = np.array([each.shape for each in sp_inputs])
    along = axis % shapes.shape[1]
    whole = shapes.max(axis=0)
    others = np.delete(shapes, along, axis=1)
    if not expand_nonconcat_dims and (others != others[0]).any():
        raise ValueError(f"Sparse tensors of shapes {shapes.tolist()} differ in more than the axis {axis}.")
    whole[along] = shapes[:, along].sum()
    starts = np.zeros_like(shapes)
    starts[1:, along] = np.cumsum(shapes[:-1, along])
    indices = [each.plain_indices + start for each, start in zip(sp_inputs, starts, strict=True)]
    return SparseTensor(np.concatenate(indices), _joined([each.plain_values for each in sp_inputs]), whole)


def _joined(values: Sequence[Any]) -> Any:
    return (
        np.concatenate(values)
        if all(isinstance(each, np.ndarray) for each in values)
        else jnp.concatenate(values)
    )


@operation
def reorder(sp_input: SparseTensor, name: str | None = None) -> SparseTensor:
    """Return it: the values of a sparse tensor are in the order of the array's elements from the start."""
    return sp_input


@operation
def reshape(sp_input: SparseTensor, shape: Any, name: str | None = None) -> SparseTensor:
    """Give a sparse tensor another shape; -1 stands for the size that fits."""
    sizes = np.asarray(shape, np.int64).copy()
    if (sizes == -1).any():
        sizes[sizes == -1] = math.prod(sp_input.shape) // max(1, -math.prod(sizes.tolist()))
    places = _linear(sp_input.plain_indices, sp_input.shape)
    return SparseTensor(_unravelled(places, sizes.tolist()), sp_input.plain_values, sizes)


@operation
def reset_shape(sp_input: SparseTensor, new_shape: Any = None) -> SparseTensor:
    """Give a sparse tensor a shape with more room; None is the smallest that has room for its values."""
    smallest = sp_input.plain_indices.max(axis=0, initial=-1) + 1
    return SparseTensor(
        sp_input.plain_indices, sp_input.plain_values, smallest if new_shape is None else new_shape
    )


@operation
def transpose(
    sp_input: SparseTensor, perm: Sequence[int] | None = None, name: str | None = None
) -> SparseTensor:
    """Permute the axes into the order ``perm``; without one, reverse them."""
    order = list(range(len(sp_input.shape)))[::-1] if perm is None else [int(each) for each in perm]
    shape = [sp_input.shape[each] for each in order]
    return SparseTensor(sp_input.plain_indices[:, order], sp_input.plain_values, shape)


@operation
def expand_dims(sp_input: SparseTensor, axis: int | None = None, name: str | None = None) -> SparseTensor:
    """Insert an axis of size 1; by default at the end."""
    rank = len(sp_input.shape)
    at = (-1 if axis is None else axis) % (rank + 1)
    indices = np.insert(sp_input.plain_indices, at, 0, axis=1)
    return SparseTensor(indices, sp_input.plain_values, np.insert(np.array(sp_input.shape), at, 1))


@operation
def retain(sp_input: SparseTensor, to_retain: Any) -> SparseTensor:
    """Return the values where a vector of booleans, one for each value, is True."""
    at = np.flatnonzero(np.asarray(to_retain))
    return SparseTensor.of_checked(
        sp_input.plain_indices[at], sp_input.plain_values[at], np.array(sp_input.shape)
    )


def _reduction(on_device: Callable[..., Any], on_host: Any, name: str) -> Callable[..., Any]:
    def operation_of(
        sp_input: SparseTensor,
        axis: Any = None,
        keepdims: bool | None = None,
        output_is_sparse: bool = False,
        name: str | None = None,
    ) -> Any:
        if isinstance(sp_input, SparseRows) and on_host is np.add and not output_is_sparse:
            return sp_input.to_dense().sum(axis, keepdims=bool(keepdims))
        rank = len(sp_input.shape)
        axes = range(rank) if axis is None else {int(each) % rank for each in np.ravel(axis)}
        kept = [each for each in range(rank) if each not in axes]
        sizes = [sp_input.shape[each] for each in kept]
        places = (
            _linear(sp_input.plain_indices[:, kept], sizes)
            if kept
            else np.zeros(len(sp_input.plain_values), np.int64)
        )
        there, numbers = np.unique(places, return_inverse=True)
        found = _by_place(there, numbers, [sp_input.plain_values], sizes or [1], on_device, on_host)
        shape = (
            [1 if each in axes else size for each, size in enumerate(sp_input.shape)] if keepdims else sizes
        )
        if output_is_sparse:
            return reshape(found, shape)
        return found.to_dense().reshape(tuple(shape))

    operation_of.__name__ = operation_of.__qualname__ = name
    operation_of.__doc__ = f"Do as ``tf.{name}`` on the values that there are, along an axis, several or all."
    return operation(operation_of)


reduce_sum = _reduction(jax.ops.segment_sum, np.add, "reduce_sum")
reduce_max = _reduction(jax.ops.segment_max, np.maximum, "reduce_max")


def map_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function with the values of sparse tensors, which lie at the same places, among its arguments.

    Raises:
        ValueError: They lie at other places.
    """
    found = [each for each in (*args, *kwargs.values()) if isinstance(each, SparseTensor)]
    if not found:
        raise ValueError("No SparseTensor in argument list of map_values.")
    first = found[0]
    in_step = isinstance(first, SparseRows)  # whose places nobody can compare here
    if not in_step and not all(np.array_equal(each.plain_indices, first.plain_indices) for each in found):
        raise ValueError("SparseTensors of map_values must have the same indices.")

    def values_of(value: Any) -> Any:
        if not isinstance(value, SparseTensor):
            return value
        return value.plain_values if in_step else value.values

    values = op(*map(values_of, args), **{key: values_of(each) for key, each in kwargs.items()})
    return first.with_values(values) if in_step else SparseTensor(first.plain_indices, values, first.shape)


@operation
def eye(
    num_rows: int, num_columns: int | None = None, dtype: DTypeLike = np.float32, name: str | None = None
) -> SparseTensor:
    """Return a matrix with ones on the diagonal."""
    columns = num_rows if num_columns is None else num_columns
    count = builtins.min(num_rows, columns)
    return SparseTensor(
        np.repeat(np.arange(count), 2).reshape(-1, 2), np.ones(count, dtype), (num_rows, columns)
    )


@operation
def fill_empty_rows(sp_input: SparseTensor, default_value: Any, name: str | None = None) -> Any:
    """Put a value into the first column of rows without values.

    Returns:
        The sparse tensor, and which rows had no values, booleans of shape (rows,).
    """
    rows = sp_input.shape[0]
    empty = ~np.isin(np.arange(rows), sp_input.plain_indices[:, 0])
    new = np.zeros((int(empty.sum()), len(sp_input.shape)), np.int64)
    new[:, 0] = np.flatnonzero(empty)
    values = sp_input.plain_values
    filled = np.full(len(new), default_value, values.dtype if values.dtype.kind != "U" else None)
    made = SparseTensor(
        np.concatenate([sp_input.plain_indices, new]), _joined([values, filled]), sp_input.shape
    )
    return made, empty


@operation
def to_indicator(sp_input: SparseTensor, vocab_size: int, name: str | None = None) -> Any:
    """Return an array of booleans that says which ids the values of each row are."""
    found = np.zeros((*sp_input.shape[:-1], vocab_size), bool)
    found[(*sp_input.plain_indices[:, :-1].T, np.asarray(sp_input.plain_values))] = True
    return found


@operation
def softmax(sp_input: SparseTensor, name: str | None = None) -> SparseTensor:
    """Return the softmax of the values of each row, without its empty places."""
    outer = sp_input.shape[:-1]
    rows, numbers = np.unique(_linear(sp_input.plain_indices[:, :-1], outer), return_inverse=True)
    values = jnp.asarray(sp_input.plain_values)
    ids = jnp.asarray(numbers)
    powers = jnp.exp(values - jax.ops.segment_max(values, ids, len(rows))[ids])
    return sp_input.with_values(powers / jax.ops.segment_sum(powers, ids, len(rows))[ids])
