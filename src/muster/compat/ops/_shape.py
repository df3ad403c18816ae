"""TensorFlow's operations that make arrays, or change their shape. ``name`` means nothing."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from muster._errors import TraceError
from muster.compat.ops._arrays import Array, ArrayLike, DTypeLike, array_module, as_array, as_arrays, as_axis
from muster.program import name_output


def constant(value: ArrayLike, dtype: DTypeLike = None, shape: Any = None, name: str = "Const") -> Array:
    """An array of a value; Python numbers become int32 and float32."""
    array = as_array(value, dtype)
    return array if shape is None else array_module(array).broadcast_to(array, tuple(shape)).copy()


def convert_to_tensor(value: ArrayLike, dtype: DTypeLike = None, name: str | None = None) -> Array:
    """A value as an array; Python numbers become int32 and float32."""
    return as_array(value, dtype)


def zeros(shape: Any, dtype: DTypeLike = np.float32, name: str | None = None) -> Array:
    """Zeros, as a NumPy array."""
    return np.zeros(shape, dtype)


def ones(shape: Any, dtype: DTypeLike = np.float32, name: str | None = None) -> Array:
    """Ones, as a NumPy array."""
    return np.ones(shape, dtype)


def fill(dims: Any, value: ArrayLike, name: str | None = None) -> Array:
    """An array of one value."""
    return array_module(value).full(tuple(dims), as_array(value))


def range(
    start: ArrayLike,
    limit: ArrayLike = None,
    delta: ArrayLike = 1,
    dtype: DTypeLike = None,
    name: str = "range",
) -> Array:
    """The numbers from ``start`` up to ``limit``; up to ``start`` if that is all that is given.

    Raises:
        TraceError: One of them is a value of a compiled function or of a step.
    """
    first, last = (0, start) if limit is None else (start, limit)
    if any(isinstance(value, jax.core.Tracer) for value in (first, last, delta)):
        raise TraceError(
            "tf.range was given a value that a compiled function computes with, but how many numbers there "
            "are is fixed when it is traced. Give the function a Python int, for each of which it is traced."
        )
    return as_array(np.arange(first, last, delta).tolist(), dtype)


def eye(num_rows: int, num_columns: int | None = None, dtype: DTypeLike = np.float32) -> Array:
    """Ones on the diagonal, zeros elsewhere, as a NumPy array."""
    return np.eye(num_rows, num_columns, dtype=dtype)


def identity(input: ArrayLike, name: str | None = None) -> Array:
    """The value itself; in a step, hooks can ask for it by the name.

    Args:
        input: values of any shape.
        name: the name for hooks, such as ``LoggingTensorHook(["loss"])``. Outside of a step it means nothing.

    Source: tensorflow/python/ops/array_ops.py, ``identity``.
    """
    value = as_array(input)
    if name is not None and isinstance(value, jax.Array):
        try:
            name_output(name, value)
        except TraceError:
            return value  # in an input function, which has no hooks
    return value


def stop_gradient(input: ArrayLike, name: str | None = None) -> Array:
    """The value, constant for gradients."""
    return jax.lax.stop_gradient(as_array(input))


def shape(input: ArrayLike, out_type: DTypeLike = np.int32, name: str | None = None) -> Array:
    """The sizes of all axes, as a NumPy array: shapes are known while a step is traced."""
    return np.array(as_array(input).shape, out_type)


def size(input: ArrayLike, out_type: DTypeLike = np.int32, name: str | None = None) -> Array:
    """How many values there are, as a NumPy number."""
    return np.dtype(out_type).type(as_array(input).size)


def rank(input: ArrayLike, name: str | None = None) -> Array:
    """How many axes there are, as a NumPy number."""
    return np.int32(as_array(input).ndim)


def reshape(tensor: ArrayLike, shape: Any, name: str | None = None) -> Array:
    """The values in another shape; -1 stands for the size that fits."""
    return as_array(tensor).reshape(as_axis(shape))


def squeeze(input: ArrayLike, axis: Any = None, name: str | None = None) -> Array:
    """The array without axes of size 1: without all, or without those given."""
    return as_array(input).squeeze(as_axis(axis))


def expand_dims(input: ArrayLike, axis: Any, name: str | None = None) -> Array:
    """The array with a new axis of size 1."""
    return array_module(input).expand_dims(as_array(input), as_axis(axis))


def transpose(a: ArrayLike, perm: Any = None, name: str = "transpose") -> Array:
    """The array with its axes in another order: reversed, or as given."""
    return as_array(a).transpose(as_axis(perm))


def concat(values: Sequence[ArrayLike], axis: int, name: str = "concat") -> Array:
    """Arrays one after the other along an axis."""
    return array_module(*values).concatenate(as_arrays(*values), axis=axis)


def stack(values: Sequence[ArrayLike], axis: int = 0, name: str = "stack") -> Array:
    """Arrays of one shape side by side along a new axis."""
    return array_module(*values).stack([as_array(value) for value in values], axis=axis)


def unstack(value: ArrayLike, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Array]:
    """The parts of an array along an axis, without that axis."""
    array = array_module(value).moveaxis(as_array(value), axis, 0)
    if num is not None and num != len(array):
        raise ValueError(
            f"num is {num}, but axis {axis} of an array of shape {array.shape} has {len(array)}."
        )
    return list(array)


def split(value: ArrayLike, num_or_size_splits: Any, axis: int = 0, name: str = "split") -> list[Array]:
    """The array in parts along an axis: so many of one size, or of the sizes given."""
    parts = num_or_size_splits
    if not isinstance(parts, int):
        parts = np.cumsum(parts)[:-1].tolist()
    return list(array_module(value).split(as_array(value), parts, axis=axis))


def tile(input: ArrayLike, multiples: Any, name: str | None = None) -> Array:
    """The array repeated along each axis."""
    return array_module(input).tile(as_array(input), tuple(multiples))


def pad(tensor: ArrayLike, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0) -> Array:
    """The array with more values before and after on each axis; ``mode`` as TensorFlow names it."""
    value, how = as_array(tensor), mode.lower()
    given = {"constant_values": constant_values} if how == "constant" else {}
    return array_module(value).pad(value, np.asarray(paddings).tolist(), mode=how, **given)


def broadcast_to(input: ArrayLike, shape: Any, name: str | None = None) -> Array:
    """The array in a larger shape that its own fits into."""
    return array_module(input).broadcast_to(as_array(input), tuple(shape))


def gather(params: ArrayLike, indices: ArrayLike, axis: int = 0, name: str | None = None) -> Array:
    """The parts of an array at given places along an axis."""
    return array_module(params, indices).take(as_array(params), as_array(indices), axis=axis)


def matmul(
    a: ArrayLike, b: ArrayLike, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None
) -> Array:
    """The matrix product over the last two axes."""
    left, right = as_array(a), as_array(b)
    left = left.swapaxes(-1, -2) if transpose_a else left
    right = right.swapaxes(-1, -2) if transpose_b else right
    return array_module(left, right).matmul(left, right)


def one_hot(
    indices: ArrayLike,
    depth: int,
    on_value: Any = None,
    off_value: Any = None,
    axis: int = -1,
    dtype: DTypeLike = None,
    name: str | None = None,
) -> Array:
    """A new axis with ``on_value`` (1) at the index and ``off_value`` (0) elsewhere.

    An index outside of 0 … depth - 1 gives ``off_value`` everywhere.
    """
    index = as_array(indices)
    hot = array_module(index).expand_dims(index, -1) == np.arange(depth)
    on = as_array(1, dtype or np.float32) if on_value is None else as_array(on_value, dtype)
    off = as_array(0 if off_value is None else off_value, on.dtype)
    values = array_module(hot, on, off).where(hot, on, off)
    return values if axis == -1 else array_module(values).moveaxis(values, -1, axis)
