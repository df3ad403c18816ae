"""TensorFlow's operations that move blocks of arrays: into channels or the batch, and by partition."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.program import is_tracing_batch
from muster_tensorflow.library.ops._arrays import (
    Array,
    ArrayLike,
    DTypeLike,
    apply,
    array_module,
    as_array,
    as_shape,
)
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.arrays._chosen import choose
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError


@operation
def space_to_depth(
    input: ArrayLike, block_size: int, data_format: str = "NHWC", name: str | None = None
) -> Array:
    """Move blocks of pixels into channels: (N, H, W, C) gives (N, H / b, W / b, b * b * C)."""
    values, b = _channels_last(as_array(input), data_format), block_size
    n, h, w, c = values.shape
    blocks = values.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5)
    return _in_format(blocks.reshape(n, h // b, w // b, b * b * c), data_format)  # type: ignore[no-any-return]


@operation
def depth_to_space(
    input: ArrayLike, block_size: int, data_format: str = "NHWC", name: str | None = None
) -> Array:
    """Move channels into blocks of pixels: undoes `space_to_depth`."""
    values, b = _channels_last(as_array(input), data_format), block_size
    n, h, w, c = values.shape
    blocks = values.reshape(n, h, w, b, b, c // (b * b)).transpose(0, 1, 3, 2, 4, 5)
    return _in_format(blocks.reshape(n, h * b, w * b, c // (b * b)), data_format)  # type: ignore[no-any-return]


def _channels_last(values: Any, data_format: str) -> Any:
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError(f"data_format is 'NHWC' or 'NCHW', got {data_format!r}.")
    return values.transpose(0, 2, 3, 1) if data_format == "NCHW" else values


def _in_format(values: Any, data_format: str) -> Any:
    return values.transpose(0, 3, 1, 2) if data_format == "NCHW" else values


@operation
def space_to_batch(
    input: ArrayLike, block_shape: ArrayLike, paddings: ArrayLike, name: str | None = None
) -> Array:
    """Move blocks of the axes after the first into the first, after padding them with zeros.

    Source: tensorflow/python/ops/array_ops.py, ``space_to_batch_v2``.
    """
    blocks, margins = _numbers(block_shape), np.asarray(paddings).reshape(-1, 2).tolist()
    values = as_array(input)
    blocks = blocks * len(margins) if len(blocks) == 1 else blocks
    rest = values.ndim - 1 - len(blocks)
    padded = apply("pad", values, pad_width=[(0, 0), *margins, *[(0, 0)] * rest])
    batch, *sizes = padded.shape
    inner = [part for size, b in zip(sizes, blocks, strict=False) for part in (size // b, b)]
    m = len(blocks)
    order = [2 * i + 2 for i in range(m)] + [0] + [2 * i + 1 for i in range(m)]
    split = padded.reshape(batch, *inner, *sizes[m:])
    moved = split.transpose(*order, *range(1 + 2 * m, split.ndim))
    outer = [size // b for size, b in zip(sizes, blocks, strict=False)]
    return moved.reshape(batch * int(np.prod(blocks)), *outer, *sizes[m:])


@operation
def batch_to_space(
    input: ArrayLike, block_shape: ArrayLike, crops: ArrayLike, name: str | None = None
) -> Array:
    """Move parts of the first axis into blocks of the next ones, and crop these: undoes `space_to_batch`."""
    blocks, margins = _numbers(block_shape), np.asarray(crops).reshape(-1, 2).tolist()
    values = as_array(input)
    blocks = blocks * len(margins) if len(blocks) == 1 else blocks
    m, (batch, *sizes) = len(blocks), values.shape
    left = batch // int(np.prod(blocks))
    split = values.reshape(*blocks, left, *sizes)
    order = [m, *(axis for i in range(m) for axis in (m + 1 + i, i)), *range(2 * m + 1, split.ndim)]
    outer = [size * b for size, b in zip(sizes, blocks, strict=False)]
    whole: Any = split.transpose(order).reshape(left, *outer, *sizes[m:])
    kept = [slice(start, size - end) for (start, end), size in zip(margins, outer, strict=True)]
    return whole[(slice(None), *kept)]  # type: ignore[no-any-return]


def _numbers(values: Any) -> list[int]:
    return [int(each) for each in np.ravel(np.asarray(values))]


@operation
def reverse_sequence(
    input: ArrayLike,
    seq_lengths: ArrayLike,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
) -> Array:
    """Reverse the first values of each sequence, as many as ``seq_lengths`` says; the others stay."""
    along, batch = 0 if seq_axis is None else seq_axis, batch_axis or 0
    values, lengths = as_array(input), as_array(seq_lengths)
    xp = array_module(values, lengths)
    at = np.arange(values.shape[along])
    places = xp.where(at < lengths[:, None], lengths[:, None] - 1 - at, at)
    places = places if batch < along else places.swapaxes(0, 1)
    shape = [1] * values.ndim
    shape[batch], shape[along] = values.shape[batch], values.shape[along]
    return xp.take_along_axis(values, places.reshape(shape), axis=along)


@operation
def strided_slice(
    input_: ArrayLike,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: None = None,
    name: str | None = None,
) -> Array:
    """Return ``input_[begin:end:strides]`` of several axes; the masks' bits say what an axis is instead.

    Source: tensorflow/python/ops/array_ops.py, ``strided_slice``.
    """
    starts, stops = as_shape(begin), as_shape(end)
    steps = [1] * len(starts) if strides is None else as_shape(strides)
    key: list[Any] = []
    for i, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        if ellipsis_mask >> i & 1:
            key.append(...)
        elif new_axis_mask >> i & 1:
            key.append(None)
        elif shrink_axis_mask >> i & 1:
            key.append(start)
        else:
            first = None if begin_mask >> i & 1 else start
            key.append(slice(first, None if end_mask >> i & 1 else stop, step))
    value: Any = as_array(input_)
    return value[tuple(key)]  # type: ignore[no-any-return]


@operation
def dynamic_partition(
    data: ArrayLike, partitions: ArrayLike, num_partitions: int, name: str | None = None
) -> list[Any]:
    """Divide values into lists by the number of each one's part: in the step of a model_fn, as `Chosen` rows.

    Raises:
        TraceError: A compiled function, or the step of a model's own, computes the numbers.
    """
    parts: Any = as_array(partitions)
    if isinstance(parts, jax.core.Tracer) and is_tracing_batch():
        return [choose(jnp.asarray(as_array(data)), parts, part) for part in range(num_partitions)]
    if isinstance(parts, jax.core.Tracer):
        raise NeedsValuesError(
            "tf.dynamic_partition gives arrays whose shapes depend on values, but the shapes of a compiled "
            "step are fixed. Keep all values, and weigh them by tf.cast(partitions == i, tf.float32)."
        )
    values: Any = as_array(data)
    return [values[np.asarray(parts) == part] for part in range(num_partitions)]


@operation
def dynamic_stitch(indices: Sequence[ArrayLike], data: Sequence[ArrayLike], name: str | None = None) -> Array:
    """Put values of several arrays at the places that ``indices`` says; the last of those at one place stays.

    Raises:
        TraceError: A compiled function or a step computes the indices.
    """
    places = [as_array(each) for each in indices]
    if any(isinstance(each, jax.core.Tracer) for each in places):
        raise NeedsValuesError("tf.dynamic_stitch needs indices that are known. Use tf.scatter_nd in a step.")
    flat = np.concatenate([np.ravel(np.asarray(each)) for each in places])
    parts = [as_array(each) for each in data]
    xp = array_module(*parts)
    rest = parts[0].shape[places[0].ndim :]
    rows = xp.concatenate([part.reshape(-1, *rest) for part in parts])
    # Of equal indices the last counts, which is the first of the reversed ones.
    unique, first = np.unique(flat[::-1], return_index=True)
    made = xp.zeros((int(flat.max(initial=-1)) + 1, *rest), rows.dtype)
    taken = rows[len(flat) - 1 - first]
    if xp is jnp:
        return jnp.asarray(made).at[unique].set(taken)
    made[unique] = taken
    return made


@operation
def ensure_shape(x: ArrayLike, shape: Sequence[int | None], name: str | None = None) -> Array:
    """Return the value if it has the shape; None stands for any size.

    Raises:
        ValueError: It has another one.
    """
    value = as_array(x)
    if len(shape) != value.ndim or any(
        isinstance(size, int) and isinstance(own, int) and own != size
        for own, size in zip(value.shape, shape, strict=True)
    ):
        raise ValueError(
            f"Shape of tensor {tuple(value.shape)} is not compatible with expected shape {tuple(shape)}."
        )
    return value


@operation
def unravel_index(indices: ArrayLike, dims: Sequence[int], name: str | None = None) -> Array:
    """Return the indices along each axis of flat ones: of shape (axes, \\*shape of ``indices``)."""
    value = as_array(indices)
    found = array_module(value).stack(array_module(value).unravel_index(value, as_shape(dims)))
    return as_array(found, value.dtype)


@operation
def histogram_fixed_width(
    values: ArrayLike,
    value_range: Sequence[ArrayLike],
    nbins: int = 100,
    dtype: DTypeLike = np.int32,
    name: str | None = None,
) -> Array:
    """Count values in equal parts of a range; those outside count in the first and the last one."""
    bins = histogram_fixed_width_bins(values, value_range, nbins)
    ids = jnp.asarray(bins).reshape(-1)
    return jnp.zeros(nbins, jax.dtypes.canonicalize_dtype(dtype)).at[ids].add(1)


@operation
def histogram_fixed_width_bins(
    values: ArrayLike,
    value_range: Sequence[ArrayLike],
    nbins: int = 100,
    dtype: DTypeLike = np.int32,
    name: str | None = None,
) -> Array:
    """Return the number of the part of a range, divided into ``nbins``, in which each value lies."""
    value: Any = as_array(values)
    low, high = (as_array(each) for each in value_range)
    xp = array_module(value, low, high)
    part = xp.floor((value - low) / (high - low) * nbins)
    return as_array(xp.clip(part, 0, nbins - 1), dtype)
