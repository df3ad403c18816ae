"""``tf.nn``: operations on windows of images: maxima with their places, dilation, transposed convolutions."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array, as_shape
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.nn._layers_of_nn import Sizes, along, conv2d, keras_padding
from muster_tensorflow.library.ops.nn._more_layers_of_nn import (
    conv1d_transpose,
    conv2d_transpose,
    conv3d_transpose,
    depthwise_conv2d,
)


class MaxPoolWithArgmax(NamedTuple):
    """The maxima of windows, and where they are; `max_pool_with_argmax` returns it."""

    output: Any
    argmax: Any


def _places(size: int, width: int, step: int, rate: int, padding: str) -> np.ndarray[Any, Any]:
    """Return the place of each value of each window along an axis; some are outside of it."""
    wide = (width - 1) * rate + 1
    if keras_padding(padding) == "same":
        count = -(-size // step)
        first = -(max((count - 1) * step + wide - size, 0) // 2)
    else:
        count, first = (size - wide) // step + 1, 0
    return first + np.arange(count)[:, None] * step + np.arange(width) * rate


def _windows(
    value: jax.Array, widths: Sequence[int], steps: Sequence[int], rates: Sequence[int], padding: str
) -> tuple[jax.Array, np.ndarray[Any, Any]]:
    """Return the windows of images, of shape (batch, rows, columns, values, channels), and their places.

    What is outside of an image is the least number; places count the pixels of an image, row by row.
    """
    height, width = value.shape[1:3]
    rows = _places(height, widths[0], steps[0], rates[0], padding)[:, None, :, None]
    columns = _places(width, widths[1], steps[1], rates[1], padding)[None, :, None, :]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    at = np.clip(rows, 0, height - 1) * width + np.clip(columns, 0, width - 1)
    at, inside = (each.reshape(*each.shape[:2], -1) for each in (at, inside))
    flat = value.reshape(value.shape[0], height * width, value.shape[-1])
    limits: Any = jnp.finfo if jnp.issubdtype(value.dtype, jnp.floating) else jnp.iinfo
    return jnp.where(inside[..., None], flat[:, at], limits(value.dtype).min), at


@operation
def max_pool_with_argmax(
    input: ArrayLike,
    ksize: Sizes,
    strides: Sizes,
    padding: str,
    data_format: str = "NHWC",
    output_dtype: DTypeLike = np.int64,
    include_batch_in_index: bool = False,
    name: str | None = None,
) -> MaxPoolWithArgmax:
    """Take the maximum of each window of (batch, height, width, channels), and its place.

    Args:
        input: The values.
        ksize: The size of windows: one number, one for each of height and width, or one for each axis.
        strides: Like ``ksize``.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: ``"NHWC"``.
        output_dtype: The dtype of the places, of which JAX has 32 bits.
        include_batch_in_index: Whether a place counts the values of the images before its own.
        name: Unused.

    Returns:
        The maxima, and their places among the values of an image.
    """
    value = jnp.asarray(as_array(input))
    widths, steps = along(ksize, 2, data_format), along(strides, 2, data_format)
    windows, at = _windows(value, widths, steps, (1, 1), padding)
    best = jnp.argmax(windows, axis=3)
    output = jnp.take_along_axis(windows, best[:, :, :, None], axis=3)[:, :, :, 0]
    pixels = jnp.take_along_axis(jnp.broadcast_to(at[None, ..., None], windows.shape), best[:, :, :, None], 3)
    channels = value.shape[-1]
    places = pixels[:, :, :, 0] * channels + np.arange(channels)
    if include_batch_in_index:
        places = places + np.arange(value.shape[0])[:, None, None, None] * int(np.prod(value.shape[1:]))
    return MaxPoolWithArgmax(output, as_array(places, output_dtype))


@operation
def dilation2d(
    input: ArrayLike,
    filters: ArrayLike,
    strides: Sizes,
    padding: str,
    data_format: str,
    dilations: Sizes,
    name: str | None = None,
) -> jax.Array:
    """Take the maximum of each window and filters added, in (batch, height, width, channels).

    Args:
        input: The values.
        filters: Of shape (height, width, channels).
        strides: One number for each axis of the input.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: ``"NHWC"``.
        dilations: Like ``strides``.
        name: Unused.
    """
    value, kernel = jnp.asarray(as_array(input)), jnp.asarray(as_array(filters))
    steps, rates = along(strides, 2, data_format), along(dilations, 2, data_format)
    windows, _ = _windows(value, kernel.shape[:2], steps, rates, padding)
    return jnp.max(windows + kernel.reshape(-1, kernel.shape[-1]), axis=3)


@operation
def erosion2d(
    value: ArrayLike,
    filters: ArrayLike,
    strides: Sizes,
    padding: str,
    data_format: str,
    dilations: Sizes,
    name: str | None = None,
) -> jax.Array:
    """Take the minimum of each window less the filters turned around; arguments as for `dilation2d`."""
    kernel = jnp.flip(jnp.asarray(as_array(filters)), (0, 1))
    return -dilation2d(-jnp.asarray(as_array(value)), kernel, strides, padding, data_format, dilations)


@operation
def conv_transpose(
    input: ArrayLike,
    filters: ArrayLike,
    output_shape: ArrayLike,
    strides: Sizes,
    padding: str = "SAME",
    data_format: str | None = None,
    dilations: Sizes | None = None,
    name: str | None = None,
) -> Array:
    """Apply a convolution backwards, in as many dimensions as the filters have before channels."""
    rank = as_array(filters).ndim - 2
    function = (conv1d_transpose, conv2d_transpose, conv3d_transpose)[rank - 1]
    form = data_format or ("NWC", "NHWC", "NDHWC")[rank - 1]
    return function(input, filters, output_shape, strides, padding, form, dilations)


@operation
def atrous_conv2d_transpose(
    value: ArrayLike,
    filters: ArrayLike,
    output_shape: ArrayLike,
    rate: int,
    padding: str,
    name: str | None = None,
) -> Array:
    """Apply a 2D convolution with dilated filters backwards."""
    return conv2d_transpose(value, filters, output_shape, 1, padding, "NHWC", rate)


def _pulled_back(function: Callable[[Any], Any], sizes: ArrayLike, change: ArrayLike) -> jax.Array:
    """Return the gradient of a linear function for its argument of these sizes, of that for its result."""
    cotangent = jnp.asarray(as_array(change))
    pull = jax.vjp(function, jnp.zeros(as_shape(sizes), cotangent.dtype))[1]
    return pull(cotangent)[0]  # type: ignore[no-any-return]


@operation
def depthwise_conv2d_backprop_input(
    input_sizes: ArrayLike,
    filter: ArrayLike,
    out_backprop: ArrayLike,
    strides: Sizes,
    padding: str,
    data_format: str = "NHWC",
    dilations: Sizes | None = None,
    name: str | None = None,
) -> jax.Array:
    """Return the gradient of ``depthwise_conv2d`` for its input, of that for its result."""
    kernel = jnp.asarray(as_array(filter))
    return _pulled_back(
        lambda each: depthwise_conv2d(each, kernel, strides, padding, data_format, dilations),
        input_sizes,
        out_backprop,
    )


@operation
def depthwise_conv2d_backprop_filter(
    input: ArrayLike,
    filter_sizes: ArrayLike,
    out_backprop: ArrayLike,
    strides: Sizes,
    padding: str,
    data_format: str = "NHWC",
    dilations: Sizes | None = None,
    name: str | None = None,
) -> jax.Array:
    """Return the gradient of ``depthwise_conv2d`` for its filter, of that for its result."""
    value = jnp.asarray(as_array(input))
    return _pulled_back(
        lambda each: depthwise_conv2d(value, each, strides, padding, data_format, dilations),
        filter_sizes,
        out_backprop,
    )


@operation
def conv2d_backprop_filter(
    input: ArrayLike,
    filter_sizes: ArrayLike,
    out_backprop: ArrayLike,
    strides: Sizes,
    padding: str,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Sizes | None = None,
    name: str | None = None,
) -> jax.Array:
    """Return the gradient of ``conv2d`` for its filters, of that for its result."""
    value = jnp.asarray(as_array(input))
    return _pulled_back(
        lambda each: conv2d(value, each, strides, padding, data_format, dilations), filter_sizes, out_backprop
    )


@operation
def conv2d_backprop_input(
    input_sizes: ArrayLike,
    filter: ArrayLike,
    out_backprop: ArrayLike,
    strides: Sizes,
    padding: str,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Sizes | None = None,
    name: str | None = None,
) -> Array:
    """Return the gradient of ``conv2d`` for its input, of that for its result."""
    return conv2d_transpose(out_backprop, filter, input_sizes, strides, padding, data_format, dilations)
