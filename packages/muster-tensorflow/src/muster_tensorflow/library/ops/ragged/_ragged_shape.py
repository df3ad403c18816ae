"""Reshape, join and index ragged tensors, as TensorFlow's shape operations do."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from muster.data import RaggedTensor, SparseTensor
from muster_tensorflow.library.ops._arrays import DTypeLike, as_array
from muster_tensorflow.library.ops._operation import on_rows
from muster_tensorflow.library.ops.arrays import _select, _shape
from muster_tensorflow.library.ops.arrays._shape import concat, expand_dims, gather
from muster_tensorflow.library.ops.control import _control
from muster_tensorflow.library.ops.nn import _nn
from muster_tensorflow.library.ops.ragged._dynamic_shape import DynamicRaggedShape
from muster_tensorflow.library.ops.ragged._ragged_values import broadcast, stack_rows


@on_rows(_shape.shape)
def _shape_of(input: Any, out_type: DTypeLike = None, name: str | None = None) -> Any:
    if isinstance(input, SparseTensor):
        return np.array(input.shape, out_type or np.int64)
    lengths = [
        uniform if uniform is not None else tuple(np.diff(splits).tolist())
        for splits, uniform in zip(input.plain_splits, input.shape[1:], strict=False)
    ]
    return DynamicRaggedShape([len(input), *lengths, *input.plain_values.shape[1:]])


@on_rows(_shape.size)
def _size(input: Any, out_type: DTypeLike = np.int32, name: str | None = None) -> Any:
    if isinstance(input, SparseTensor):
        return np.dtype(out_type or np.int32).type(np.prod(input.shape))
    return _shape.size(input.plain_values, out_type or np.int32)


@on_rows(_shape.rank)
def _rank(input: Any, name: str | None = None) -> Any:
    return np.int32(len(input.shape))


@on_rows(_shape.convert_to_tensor, _shape.constant)
def _converted(value: Any, dtype: DTypeLike = None, *_: Any, **__: Any) -> Any:
    if not isinstance(value, RaggedTensor):
        raise TypeError("A sparse tensor is no array. Make it one by tf.sparse.to_dense.")
    return value


def as_ragged(value: Any, ragged_rank: int = 1) -> RaggedTensor:
    """Return an array, or a ragged tensor with fewer ragged axes, as one with as many ragged axes."""
    if not isinstance(value, RaggedTensor):
        return RaggedTensor.from_tensor(as_array(value), ragged_rank=ragged_rank)
    if value.ragged_rank >= ragged_rank:
        return value
    return value.with_values(as_ragged(value.inner, ragged_rank - 1))


@on_rows(_shape.concat)
def _concat(values: Sequence[Any], axis: int, name: str = "concat") -> Any:
    rank = max(each.ndim for each in values if isinstance(each, RaggedTensor))
    depth = max(each.ragged_rank for each in values if isinstance(each, RaggedTensor))
    return _joined([as_ragged(each, depth) for each in values], axis % rank)


def _joined(parts: list[Any], axis: int) -> Any:
    if not isinstance(parts[0], RaggedTensor):
        return concat(parts, axis)
    first = parts[0]
    if axis == 0:
        lengths = [np.diff(each.plain_splits[0]) for each in parts]
        made = RaggedTensor.from_row_lengths(
            _joined([each.inner for each in parts], 0), np.concatenate(lengths)
        )
        uniform = {each.uniform_row_length for each in parts}
        made.uniform_row_length = uniform.pop() if len(uniform) == 1 else None
        return made
    if len({len(each) for each in parts}) > 1:
        raise ValueError(f"Input tensors have incompatible shapes: {[each.shape for each in parts]}.")
    if axis > 1:
        return first.with_values(_joined([each.inner for each in parts], axis - 1))
    order = np.argsort(np.concatenate([each.coordinates_of_rows() for each in parts]), kind="stable")
    joined = RaggedTensor.from_row_lengths(_joined([each.inner for each in parts], 0), [len(order)])
    lengths_of_all = sum(np.diff(each.plain_splits[0]) for each in parts)
    return RaggedTensor.from_row_lengths(joined.taken(order), lengths_of_all)


@on_rows(_shape.stack)
def stack(values: Sequence[Any], axis: int = 0, name: str = "stack") -> Any:
    """Stack ragged tensors, and arrays of their rank, along a new axis."""
    rank = max(each.ndim for each in values if isinstance(each, RaggedTensor))
    at = axis % (rank + 1)
    depth = max(each.ragged_rank for each in values if isinstance(each, RaggedTensor))
    whole = [as_ragged(each, depth) for each in values]
    return stack_rows(whole) if at == 0 else _concat([expand_dims(each, at) for each in whole], at)


@on_rows(_shape.expand_dims)
def _expand_dims(input: Any, axis: Any, name: str | None = None) -> Any:
    if isinstance(input, SparseTensor):
        raise TypeError("tf.expand_dims takes no sparse tensor. Use tf.sparse.expand_dims.")
    at = int(axis) % (input.ndim + 1)
    if at == 0:
        return RaggedTensor.from_uniform_row_length(input, len(input), 1)
    if at == 1:
        return RaggedTensor.from_uniform_row_length(input, 1, len(input))
    return input.with_values(expand_dims(input.inner, at - 1))


@on_rows(_shape.squeeze)
def _squeeze(input: RaggedTensor, axis: Any = None, name: str | None = None) -> Any:
    if axis is None:
        raise ValueError("Ragged.squeeze must have an axis argument.")
    found: Any = input
    for each in sorted({int(each) % input.ndim for each in np.ravel(axis)}, reverse=True):
        found = _without_axis(found, each)
    return found


def _without_axis(value: Any, axis: int) -> Any:
    if not isinstance(value, RaggedTensor):
        return _shape.squeeze(value, axis)
    if axis > 1:
        return value.with_values(_without_axis(value.inner, axis - 1))
    sizes = np.diff(value.plain_splits[0])
    if (axis == 0 and len(value) != 1) or (axis == 1 and (sizes != 1).any()):
        raise ValueError(f"Cannot squeeze the axis {axis} of shape {value.shape}: its size is not 1.")
    return value.inner


@on_rows(_shape.tile)
def _tile(input: RaggedTensor, multiples: Any, name: str | None = None) -> Any:
    found: Any = input
    for axis, count in enumerate(np.asarray(multiples).tolist()):
        if count == 0:
            found = found[(*[slice(None)] * axis, slice(0, 0))]
        elif count > 1:
            found = _joined([found] * count, axis)
    return found


@on_rows(_select.reverse)
def _reverse(tensor: RaggedTensor, axis: Any, name: str | None = None) -> Any:
    found: Any = tensor
    for each in np.ravel(axis):
        at = int(each) % tensor.ndim
        found = found[(*[slice(None)] * at, slice(None, None, -1))]
    return found


@on_rows(_shape.gather)
def _gather(
    params: Any,
    indices: Any,
    validate_indices: None = None,
    axis: int | None = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Any:
    at = batch_dims if axis is None else int(axis) % len(params.shape)
    if batch_dims:
        return _gather_in_rows(as_ragged(params), indices, at, batch_dims)
    if at:
        return params.with_values(gather(params.inner, indices, axis=at - 1))
    if isinstance(indices, RaggedTensor):
        return indices.with_flat_values(_gather(params, indices.plain_values))
    if not isinstance(params, RaggedTensor):
        return gather(params, indices)
    places = np.asarray(indices)
    found: Any = params.rows_at(places.ravel() if places.ndim else places[None])
    for size in reversed(places.shape[1:]):
        found = RaggedTensor.from_uniform_row_length(found, size, len(found) // size if size else 0)
    return found if places.ndim else found.row(0)


def _gather_in_rows(params: RaggedTensor, indices: Any, axis: int, batch_dims: int) -> Any:
    places = as_ragged(indices) if isinstance(indices, RaggedTensor) or np.ndim(indices) > 1 else indices
    if batch_dims > 1 or axis > 1:
        inner = _gather(params.inner, places.inner, None, axis - 1, batch_dims - 1)
        return params.with_values(inner)
    starts = params.plain_splits[0][:-1]
    if not isinstance(places, RaggedTensor):
        return params.taken(starts + np.asarray(indices))
    flat = np.asarray(places.plain_values) + starts[places.coordinates()[0]]
    taken = params.taken(flat)
    if places.ragged_rank > 1:
        raise ValueError("tf.gather with batch_dims takes indices with one ragged axis.")
    made = places.with_values(taken)
    return made if isinstance(indices, RaggedTensor) or isinstance(taken, RaggedTensor) else made.to_tensor()


@on_rows(_select.gather_nd)
def _gather_nd(params: Any, indices: Any, batch_dims: int = 0, name: str | None = None) -> Any:
    if isinstance(indices, RaggedTensor):
        return indices.with_flat_values(_gather_nd(params, indices.plain_values))
    if not isinstance(params, RaggedTensor):
        return _select.gather_nd(params, indices)
    places = np.asarray(indices)
    parts = [params[tuple(place)] for place in places.reshape(-1, places.shape[-1]).tolist()]
    if isinstance(parts[0], RaggedTensor) or parts[0].ndim:
        return stack_rows(parts)
    return _shape.reshape(_shape.stack(parts), places.shape[:-1])


@on_rows(_shape.broadcast_to)
def _broadcast_to(input: Any, shape: Any, name: str | None = None) -> Any:
    if not isinstance(shape, DynamicRaggedShape):
        return broadcast(input, np.empty(tuple(shape)))[0]
    sizes = shape.static_lengths()
    ragged = max((at for at, size in enumerate(sizes) if isinstance(size, tuple)), default=0)
    like: Any = np.empty((0, *sizes[ragged + 1 :]))
    for at in range(ragged, 0, -1):
        rows = sum(sizes[at - 1]) if isinstance(sizes[at - 1], tuple) else math.prod(sizes[:at])
        lengths = sizes[at] if isinstance(sizes[at], tuple) else [sizes[at]] * rows
        if at == ragged:
            like = np.empty((sum(lengths), *sizes[ragged + 1 :]))
        like = RaggedTensor.from_row_lengths(like, lengths)
    return broadcast(input if isinstance(input, RaggedTensor) else as_array(input), like)[0]


@on_rows(_nn.embedding_lookup)
def _embedding_lookup(params: Any, ids: Any, max_norm: float | None = None, name: str | None = None) -> Any:
    return ids.with_flat_values(_nn.embedding_lookup(params, ids.plain_values, max_norm))


@on_rows(_control.map_fn)
def _map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    *_: Any,
    fn_output_signature: Any = None,
    **__: Any,
) -> Any:
    """Call a function for each row; results of different lengths, or ragged ones, become a ragged tensor."""
    tensors = elems if isinstance(elems, tuple | list) else [elems]
    rows = zip(*tensors, strict=True)
    results = [fn(row[0] if tensors is not elems and len(tensors) == 1 else row) for row in rows]
    if isinstance(results[0], tuple | list):
        parts = zip(*results, strict=True)
        return type(results[0])(_stacked(list(part), fn_output_signature) for part in parts)
    return _stacked(results, fn_output_signature or dtype)


def _stacked(results: list[Any], wanted: Any) -> Any:
    """Return results as an array, or as a ragged tensor where they are ragged, or a spec of one is wanted."""
    tensors = [each if isinstance(each, RaggedTensor) else as_array(each) for each in results]
    ragged = [isinstance(each, RaggedTensor) for each in tensors]
    if any(ragged):
        return stack(tensors)
    shapes = {tuple(each.shape) for each in tensors}
    if tensors[0].ndim and (len(shapes) > 1 or wanted is None or hasattr(wanted, "ragged_rank")):
        return stack_rows(tensors)
    return _shape.stack(tensors)
