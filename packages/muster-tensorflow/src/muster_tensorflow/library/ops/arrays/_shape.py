"""TensorFlow's operations that make arrays, or change their shape."""

import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster import TraceError, keras
from muster.estimator import Words
from muster.extend import ProgramScope, current_scope
from muster.program import IndexedSlices, dense_gradient, name_output
from muster_tensorflow.library.ops._arrays import (
    Array,
    ArrayLike,
    Axis,
    DTypeLike,
    apply,
    array_module,
    as_array,
    as_arrays,
    as_axis,
    as_dtype,
    as_shape,
    eager_on_cpu,
    is_size,
)
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops._value_names import name_value, path_of
from muster_tensorflow.library.ops.arrays._tensor_shape import TensorShape
from muster_tensorflow.library.ops.control._needs_values import NeedsValuesError, known

Shape = int | Sequence[int]
# The dtypes of bounds, of which a range has the last one: of Python's numbers they are int32 and float32.
_RANGES = ("int32", "int64", "float32", "float64")


@operation
def constant(
    value: ArrayLike, dtype: DTypeLike = None, shape: Iterable[int] | None = None, name: str = "Const"
) -> Array:
    """Convert a value to an array; Python numbers become int32 and float32.

    Args:
        value: The value.
        dtype: The array's dtype; None keeps the value's.
        shape: The array's shape, of as many elements as the value; one element is taken for all.
        name: Unused.

    Raises:
        TypeError: The shape has another number of elements.
    """
    array = as_array(value, dtype)
    if shape is None:
        return array
    sizes = as_shape(shape)
    if array.size == math.prod(sizes):
        return array.reshape(sizes)
    if array.size != 1:
        raise TypeError(f"A constant of shape {sizes} cannot be made of {array.size} elements.")
    return broadcast_to(array.reshape(()), sizes).copy()


@operation
def convert_to_tensor(
    value: ArrayLike, dtype: DTypeLike = None, dtype_hint: DTypeLike = None, name: str | None = None
) -> Array:
    """Convert a value to an array; Python numbers become int32 and float32.

    Args:
        value: The value.
        dtype: The array's dtype; None keeps the value's.
        dtype_hint: The dtype of Python's values, if they can have it and ``dtype`` is None.
        name: Unused.
    """
    if isinstance(value, IndexedSlices):
        if value.dense_shape is None:
            raise ValueError("These IndexedSlices have no dense_shape, which an array of them needs.")
        value = dense_gradient(value, tuple(map(int, value.dense_shape)))
    if dtype is None and dtype_hint is not None and not hasattr(value, "dtype"):
        with contextlib.suppress(TypeError, ValueError):
            return as_array(value, dtype_hint)
    return as_array(value, dtype)


@operation
def zeros(shape: Shape, dtype: DTypeLike = np.float32, name: str | None = None) -> Array:
    """Return zeros, as a NumPy array; TensorFlow's numbers of dtypes are dtypes, too."""
    return fill(shape, np.zeros((), as_dtype(dtype)))


@operation
def ones(shape: Shape, dtype: DTypeLike = np.float32, name: str | None = None) -> Array:
    """Return ones, as a NumPy array; TensorFlow's numbers of dtypes are dtypes, too."""
    return fill(shape, np.ones((), as_dtype(dtype)))


@operation
def fill(dims: Shape, value: ArrayLike, name: str | None = None) -> Array:
    """Return an array of shape ``dims`` that is filled with one value."""
    sizes = as_shape(dims)
    return (jnp if any(map(is_size, sizes)) else array_module(value)).full(sizes, as_array(value))


def _of_ranges(dtype: str) -> int:
    return _RANGES.index(dtype) if dtype in _RANGES else len(_RANGES)


@operation
def range(
    start: ArrayLike,
    limit: ArrayLike | None = None,
    delta: ArrayLike = 1,
    dtype: DTypeLike = None,
    name: str = "range",
) -> Array:
    """Return the numbers from ``start`` up to ``limit``; without a limit, those from 0 up to ``start``.

    Raises:
        TraceError: A bound is a value of a step. A ``tf.function`` runs uncompiled then.
    """
    bounds: tuple[Any, ...] = (0, start, delta) if limit is None else (start, limit, delta)
    if any(isinstance(value, jax.core.Tracer) for value in bounds):
        raise NeedsValuesError(
            "tf.range was given a value that a compiled function computes, but how many numbers it returns "
            "is fixed when the function is traced. Give the function a Python int; it is traced for each one."
        )
    given, bounds = bounds, tuple(np.asarray(value)[()] for value in bounds)
    if any(map(is_size, bounds)):
        return as_array(jnp.arange(*bounds), dtype)
    own = max((str(as_array(value).dtype) for value in given), key=_of_ranges)
    return as_array(np.arange(*bounds), own if dtype is None else dtype)


@operation
def eye(
    num_rows: int,
    num_columns: int | None = None,
    batch_shape: Iterable[int] | None = None,
    dtype: DTypeLike = np.float32,
    name: str | None = None,
) -> Array:
    """Return ones on the diagonal and zeros elsewhere, as a NumPy array; ``batch_shape`` of such matrices."""
    one = np.eye(num_rows, num_columns, dtype=dtype)
    return one if batch_shape is None else np.broadcast_to(one, (*batch_shape, *one.shape)).copy()


@operation
def identity(input: ArrayLike, name: str | None = None) -> Array:
    """Return the value; in a step, let hooks ask for it by the name.

    Args:
        input: Values of any shape.
        name: The name for hooks, such as ``LoggingTensorHook(["loss"])``. Unused outside of a step. Of a
            number, hooks get the mean over the replicas; of an array, the rows of this process.

    Source: tensorflow/python/ops/array_ops.py, ``identity``.
    """
    value = as_array(input)
    path = None if name is None or value.ndim else path_of(name)
    if path is not None:  # a number costs nothing, and hooks get its mean over the replicas
        try:
            name_output(path, value)
        except TraceError:
            return value  # in an input function, which has no hooks
    elif name is not None:
        name_value(name, value)
    return value


@operation
def stop_gradient(input: ArrayLike, name: str | None = None) -> Array:
    """Return the value, which gradients treat as a constant."""
    return jax.lax.stop_gradient(as_array(input))


@operation
def shape(input: ArrayLike, out_type: DTypeLike = None, name: str | None = None) -> Array:
    """Return the shape as a NumPy array of shape (rank,), since shapes are known while a step is traced.

    While Keras asks a layer for the shapes of its results, for batches of any size, it has objects for these.

    Args:
        input: Values of any shape.
        out_type: The dtype of the result; None is int32.
        name: Unused.
    """
    dimensions = as_array(input).shape
    known = all(isinstance(each, int) for each in dimensions)
    return np.array(dimensions, (out_type or np.int32) if known else object)


@operation
def size(input: ArrayLike, out_type: DTypeLike = np.int32, name: str | None = None) -> np.generic:
    """Return the number of elements, as a NumPy number."""
    return np.dtype(out_type).type(as_array(input).size)


@operation
def rank(input: ArrayLike, name: str | None = None) -> np.int32:
    """Return the number of axes, as a NumPy number."""
    return np.int32(as_array(input).ndim)


@operation
def reshape(tensor: ArrayLike, shape: Shape, name: str | None = None) -> Array:
    """Give an array another shape; -1 stands for the size that fits."""
    sizes = [-1 if size is None else size for size in np.ravel(np.asarray(shape, object))]
    return as_array(tensor).reshape(as_shape(sizes))


@operation
def squeeze(input: ArrayLike, axis: Axis = None, name: str | None = None) -> Array:
    """Remove axes of size 1: those in ``axis``, or all.

    In an export, an axis of free size counts as one of size 1.
    """
    values, axes = as_array(input), as_axis(axis)
    for each in () if axes is None else np.ravel(axes).tolist():
        if is_size(values.shape[each]):
            values = jax.lax.slice_in_dim(values, 0, 1, axis=each)
    return values.squeeze(axes)


@operation
def expand_dims(input: ArrayLike, axis: int | Sequence[int], name: str | None = None) -> Array:
    """Insert axes of size 1."""
    return apply("expand_dims", as_array(input), axis=as_axis(axis))


@operation
def transpose(
    a: ArrayLike, perm: Sequence[int] | None = None, conjugate: bool = False, name: str = "transpose"
) -> Array:
    """Permute the axes into the order ``perm``; without one, reverse them. Conjugate if asked."""
    permuted = as_array(a).transpose(as_axis(perm))
    return permuted.conj() if conjugate else permuted


@operation
def concat(values: Sequence[ArrayLike] | ArrayLike, axis: int, name: str = "concat") -> Array:
    """Concatenate arrays along an axis.

    One array, in a list or by itself, is returned as it is, whatever the axis.

    Source: tensorflow/python/ops/array_ops.py, ``concat``.
    """
    if not isinstance(values, list | tuple):
        return as_array(values)
    if len(values) == 1:
        return as_array(values[0])
    if (on_cpu := eager_on_cpu(*values)) is not None:
        return np.concatenate(on_cpu, axis=axis)
    return array_module(*values).concatenate(as_arrays(*values), axis=axis)


@operation
def stack(values: Sequence[ArrayLike], axis: int = 0, name: str = "stack") -> Array:
    """Stack arrays of one shape along a new axis."""
    if (on_cpu := eager_on_cpu(*values)) is not None:
        return np.stack(on_cpu, axis=axis)
    return array_module(*values).stack([as_array(value) for value in values], axis=axis)


@operation
def unstack(value: ArrayLike, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Array]:
    """Split an array into its parts along an axis, and remove that axis."""
    array = apply("moveaxis", as_array(value), source=axis, destination=0)
    if num is not None and num != len(array):
        raise ValueError(
            f"num is {num}, but axis {axis} of an array of shape {array.shape} has {len(array)}."
        )
    return list(array)


@operation
def split(
    value: ArrayLike,
    num_or_size_splits: int | Sequence[int],
    axis: int = 0,
    num: int | None = None,
    name: str = "split",
) -> list[Array]:
    """Split an array along an axis, into a number of equal parts or into parts of given sizes."""
    array = as_array(value)
    sizes: Any = num_or_size_splits
    if np.ndim(sizes):
        sizes = list(as_shape(sizes))
        if -1 in sizes:
            sizes[sizes.index(-1)] = array.shape[axis] - sum(sizes) - 1
    parts = np.cumsum(sizes)[:-1].tolist() if np.ndim(sizes) else as_shape(sizes)[0]
    return list(apply("split", array, indices_or_sections=parts, axis=axis))


@operation
def tile(input: ArrayLike, multiples: Iterable[int], name: str | None = None) -> Array:
    """Repeat an array along each axis."""
    return apply("tile", as_array(input), reps=as_shape(multiples))


@operation
def pad(
    tensor: ArrayLike,
    paddings: ArrayLike,
    mode: str = "CONSTANT",
    constant_values: ArrayLike = 0,
    name: str | None = None,
) -> Array:
    """Pad an array on each axis.

    Args:
        tensor: Values of any shape.
        paddings: How many values to put before and after those of each axis, shape (rank, 2).
        mode: ``"CONSTANT"``, ``"REFLECT"`` or ``"SYMMETRIC"``.
        constant_values: The value to pad with in the mode ``"CONSTANT"``.
        name: Unused.
    """
    value, how = as_array(tensor), mode.lower()
    constants = {"constant_values": constant_values} if how == "constant" else {}
    return apply("pad", value, pad_width=np.asarray(paddings).tolist(), mode=how, **constants)


@operation
def broadcast_to(input: ArrayLike, shape: Iterable[int], name: str | None = None) -> Array:
    """Broadcast an array to a larger shape."""
    return apply("broadcast_to", as_array(input), shape=as_shape(shape))


@operation
def gather(
    params: ArrayLike,
    indices: ArrayLike,
    validate_indices: None = None,
    axis: int | None = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Any:
    """Take the slices of an array at ``indices`` along an axis.

    Args:
        params: Values of any shape.
        indices: Where to take them, integers of any shape.
        validate_indices: Unused.
        axis: The axis; None is the first one after the axes of the batch.
        batch_dims: How many leading axes ``params`` and ``indices`` have in common.
        name: Unused.

    Returns:
        The values; of a list of text, where a model_fn computes the indices, `Words`, for its predictions.

    Raises:
        TraceError: ``params`` is text, and a compiled function or a step computes the indices.

    Source: tensorflow/python/ops/array_ops.py, ``gather_v2``.
    """
    values, places = as_array(params), as_array(indices)
    if values.dtype.kind in "SUO":  # text is on the host
        in_model = isinstance(places, jax.core.Tracer) and isinstance(current_scope(), ProgramScope)
        if in_model and values.ndim == 1:
            return Words(places, tuple(v.decode() if isinstance(v, bytes) else v for v in values.tolist()))
        places = known(places, "tf.gather of text")
    batch_dims = batch_dims + places.ndim if batch_dims < 0 else batch_dims
    along = batch_dims if axis is None else axis % values.ndim
    if batch_dims == 0:
        return apply("take", values, places, axis=along)
    xp = array_module(values, places)
    flat = places.reshape(*places.shape[:batch_dims], *(1,) * (along - batch_dims), -1)
    flat = flat.reshape(*flat.shape, *(1,) * (values.ndim - along - 1))
    taken = xp.take_along_axis(values, flat, axis=along)
    return taken.reshape(*values.shape[:along], *places.shape[batch_dims:], *values.shape[along + 1 :])


@operation
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: DTypeLike = None,
    name: str | None = None,
) -> Array:
    """Return the matrix product over the last two axes.

    Args:
        a: Matrices.
        b: Matrices.
        transpose_a: Whether to transpose ``a``.
        transpose_b: Whether to transpose ``b``.
        adjoint_a: Whether to transpose and conjugate ``a``.
        adjoint_b: Whether to transpose and conjugate ``b``.
        a_is_sparse: Unused.
        b_is_sparse: Unused.
        output_type: The dtype of the product; None is that of the matrices.
        name: Unused.

    Raises:
        ValueError: The sizes do not fit.

    Source: tensorflow/python/ops/math_ops.py, ``matmul``.
    """
    left, right = as_array(a, output_type), as_array(b, output_type)
    left = left.swapaxes(-1, -2) if transpose_a or adjoint_a else left
    right = right.swapaxes(-1, -2) if transpose_b or adjoint_b else right
    left = left.conj() if adjoint_a else left
    right = right.conj() if adjoint_b else right
    inner = left.shape[-1:] + right.shape[-2:-1]
    if len(inner) == 2 and inner[0] != inner[1] and not any(map(is_size, inner)):
        raise ValueError(
            f"Matrix size-incompatible: In[0]: {list(left.shape)}, In[1]: {list(right.shape)}. The last size "
            "of the first must be the last but one of the second."
        )
    return apply("matmul", left, right)


@operation
def one_hot(
    indices: ArrayLike,
    depth: int,
    on_value: ArrayLike | None = None,
    off_value: ArrayLike | None = None,
    axis: int | None = None,
    dtype: DTypeLike = None,
    name: str | None = None,
) -> Array:
    """One-hot encode indices: ``on_value`` (1) at the index along a new axis, ``off_value`` (0) elsewhere.

    An index outside of 0 … depth - 1 gives ``off_value`` everywhere.
    """
    index = as_array(indices)
    hot = apply("expand_dims", index, axis=-1) == np.arange(depth)
    on = as_array(1, dtype or np.float32) if on_value is None else as_array(on_value, dtype)
    off = as_array(0 if off_value is None else off_value, on.dtype)
    values = apply("where", hot, on, off)
    return values if axis in (None, -1) else apply("moveaxis", values, source=-1, destination=axis)


def broadcast_static_shape(shape_x: Sequence[int], shape_y: Sequence[int]) -> TensorShape:
    """Return the shape of the sum of two arrays.

    Raises:
        ValueError: They do not broadcast.
    """
    return TensorShape(np.broadcast_shapes(tuple(shape_x), tuple(shape_y)))


@operation
def broadcast_dynamic_shape(shape_x: ArrayLike, shape_y: ArrayLike) -> Array:
    """Return the shape of the sum of two arrays, as an array."""
    return np.array(np.broadcast_shapes(as_shape(shape_x), as_shape(shape_y)), np.int32)


@operation
def identity_n(input: Sequence[ArrayLike], name: str | None = None) -> list[Array]:
    """Return the values."""
    return [as_array(each) for each in input]


@operation
def shape_n(
    input: Sequence[ArrayLike], out_type: DTypeLike = np.int32, name: str | None = None
) -> list[Array]:
    """Return the shape of each array."""
    return [shape(each, out_type) for each in input]


def get_static_value(tensor: ArrayLike, partial: bool = False) -> Any:
    """Return a value as a NumPy array; None if a step that is being traced computes it."""
    if isinstance(tensor, jax.core.Tracer | keras.KerasTensor | keras.Variable):
        return None
    return np.asarray(as_array(tensor))
