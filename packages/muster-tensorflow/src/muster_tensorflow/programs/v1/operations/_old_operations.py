"""Operations that TensorFlow 2 has under another name or not at all, such as ``tf.scatter_update``.

Source: the functions of these names in tensorflow/python/ops/.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from muster import keras
from muster.data import SparseTensor
from muster.distribute import IndexedSlices
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array, as_shape
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.arrays import _shape
from muster_tensorflow.library.ops.control._needs_values import known
from muster_tensorflow.library.ops.images import _image, _image_more
from muster_tensorflow.library.ops.math import _math
from muster_tensorflow.library.ops.nn import _windows_of_nn
from muster_tensorflow.library.ops.text import _strings


def _scatter(how: str, name: str, by_position: bool = False) -> Callable[..., Any]:
    """Make a function that changes a variable: ``how`` is JAX's name of it, such as ``"add"``."""

    def change(
        ref: keras.Variable,
        indices: ArrayLike,
        updates: ArrayLike,
        use_locking: bool = False,
        name: str | None = None,
    ) -> Any:
        at: Any = jnp.asarray(as_array(indices))
        at = tuple(jnp.moveaxis(at, -1, 0)) if by_position else at
        changed = getattr(ref.value.at[at], how)(jnp.asarray(as_array(updates), ref.value.dtype))
        return ref.assign(changed)

    change.__name__ = change.__qualname__ = name
    places = "slices, which the last axis of ``indices`` counts" if by_position else "rows"
    change.__doc__ = f"Change {places}, by ``{how}`` of the updates, at this place of the step."
    return change


scatter_update = _scatter("set", "scatter_update")
scatter_add = _scatter("add", "scatter_add")
scatter_sub = _scatter("subtract", "scatter_sub")
scatter_mul = _scatter("multiply", "scatter_mul")
scatter_div = _scatter("divide", "scatter_div")
scatter_min = _scatter("min", "scatter_min")
scatter_max = _scatter("max", "scatter_max")
scatter_nd_update = _scatter("set", "scatter_nd_update", by_position=True)
scatter_nd_add = _scatter("add", "scatter_nd_add", by_position=True)
scatter_nd_sub = _scatter("subtract", "scatter_nd_sub", by_position=True)


def arg_max(
    input: ArrayLike, dimension: int, output_type: DTypeLike = np.int64, name: str | None = None
) -> Array:
    """Return the index of the largest value along an axis."""
    return _math.argmax(input, dimension, output_type)


def arg_min(
    input: ArrayLike, dimension: int, output_type: DTypeLike = np.int64, name: str | None = None
) -> Array:
    """Return the index of the smallest value along an axis."""
    return _math.argmin(input, dimension, output_type)


@operation
def batch_gather(params: ArrayLike, indices: ArrayLike, name: str | None = None) -> Any:
    """Take values of each row, along the last axis of ``indices``."""
    places = as_array(indices)
    return _shape.gather(params, places, axis=places.ndim - 1, batch_dims=places.ndim - 1)


def dilation2d(
    input: ArrayLike,
    filter: ArrayLike | None = None,
    strides: Sequence[int] | None = None,
    rates: Sequence[int] | None = None,
    padding: str | None = None,
    name: str | None = None,
    filters: ArrayLike | None = None,
    dilations: Sequence[int] | None = None,
) -> Array:
    """Return the greatest sums of a window and a filter; ``rates`` is the old name of ``dilations``."""
    kernel, steps = filters if filter is None else filter, dilations or rates
    if kernel is None or strides is None or steps is None or padding is None:
        raise TypeError("tf.nn.dilation2d needs filter, strides, rates and padding.")
    return _windows_of_nn.dilation2d(input, kernel, strides, padding, "NHWC", steps)


def erosion2d(
    value: ArrayLike,
    kernel: ArrayLike,
    strides: Sequence[int],
    rates: Sequence[int],
    padding: str,
    name: str | None = None,
) -> Array:
    """Return the least differences of a window and a filter."""
    return _windows_of_nn.erosion2d(value, kernel, strides, padding, "NHWC", rates)


def sample_distorted_bounding_box(
    image_size: ArrayLike,
    bounding_boxes: ArrayLike,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: float = 0.1,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Choose a random part of an image, as ``tf.image.sample_distorted_bounding_box`` does."""
    return _image_more.sample_distorted_bounding_box(
        image_size, bounding_boxes, seed or seed2, min_object_covered, *args, **kwargs
    )


def extract_image_patches(
    images: ArrayLike,
    ksizes: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    rates: Sequence[int] | None = None,
    padding: str | None = None,
    name: str | None = None,
    sizes: Sequence[int] | None = None,
) -> Array:
    """Return patches of a batch's images; ``ksizes`` is the old name of ``sizes``."""
    kernel = sizes or ksizes
    if kernel is None or strides is None or rates is None or padding is None:
        raise ValueError("extract_image_patches needs ksizes, strides, rates and padding.")
    return _image.extract_patches(images, kernel, strides, rates, padding)


def reduce_join(
    inputs: Any,
    axis: int | None = None,
    keep_dims: bool | None = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: int | None = None,
    keepdims: bool | None = None,
) -> Any:
    """Join the texts of an array along an axis, or all of them."""
    along = reduction_indices if axis is None else axis
    return _strings.reduce_join(inputs, along, bool(keepdims or keep_dims), separator)


@operation
def sparse_to_dense(
    sparse_indices: ArrayLike,
    output_shape: ArrayLike,
    sparse_values: ArrayLike,
    default_value: ArrayLike = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Array:
    """Return an array with values at some indices, and another value elsewhere.

    Args:
        sparse_indices: Indices: one, a list of them, or a row for each value.
        output_shape: The shape of the result.
        sparse_values: A value for each index, or one for all.
        default_value: The value elsewhere.
        validate_indices: Unused.
        name: Unused.
    """
    shape, values = as_shape(output_shape), as_array(sparse_values)
    places = jnp.asarray(as_array(sparse_indices)).reshape(-1, len(shape))
    if values.dtype.kind in "USO":
        rest = default_value or (b"" if values.dtype.kind in "SO" else "")
        filled = np.full(shape, rest, values.dtype)
        filled[tuple(np.asarray(places).T)] = values
        return filled
    empty = jnp.full(shape, jnp.asarray(as_array(default_value), values.dtype))
    return empty.at[tuple(places.T)].set(values)


@operation
class ListDiff(NamedTuple):
    """The result of `setdiff1d`."""

    out: Array
    idx: Array


def setdiff1d(
    x: ArrayLike, y: ArrayLike, index_dtype: DTypeLike = np.int32, name: str | None = None
) -> ListDiff:
    """Return the values of ``x`` that are not in ``y``, in their order, and their indices.

    Raises:
        TraceError: A compiled function or a step computes them: how many are left is not known then.
    """
    own, others = known(as_array(x), "tf.setdiff1d"), known(as_array(y), "tf.setdiff1d")
    places = np.flatnonzero(~np.isin(own, others))
    return ListDiff(own[places], places.astype(index_dtype))


def to_complex64(x: ArrayLike, name: str = "ToComplex64") -> Array:
    """Convert values to complex64."""
    return _math.cast(x, np.complex64)


def to_complex128(x: ArrayLike, name: str = "ToComplex128") -> Array:
    """Convert values to complex128; on JAX arrays, to the closest that there is."""
    return _math.cast(x, np.complex128)


@operation
def clip_by_average_norm(t: ArrayLike, clip_norm: float, name: str | None = None) -> Array:
    """Scale values so that their norm, divided by how many they are, is at most ``clip_norm``."""
    values = jnp.asarray(as_array(t))
    average = jnp.sqrt(jnp.sum(jnp.square(values))) / values.size
    return values * clip_norm / jnp.maximum(average, clip_norm)


def convert_to_tensor_or_sparse_tensor(value: Any, dtype: DTypeLike = None, name: str | None = None) -> Any:
    """Convert a value to an array, unless it is a sparse tensor."""
    return value if isinstance(value, SparseTensor) else _shape.convert_to_tensor(value, dtype)


def convert_to_tensor_or_indexed_slices(value: Any, dtype: DTypeLike = None, name: str | None = None) -> Any:
    """Convert a value to an array, unless it is rows of one."""
    return value if isinstance(value, IndexedSlices) else _shape.convert_to_tensor(value, dtype)
