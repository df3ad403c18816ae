"""More layer-like functions of Keras 2's ``backend``: 3D, batched and locally connected.

Source: keras/src/backend.py of Keras 2.15.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from muster import keras
from muster_tensorflow.library.ops.images._image import resize
from muster_tensorflow.library.ops.nn import _more_layers_of_nn as layers_of_nn
from muster_tensorflow.programs.v2.backend._backend_layers import Sizes, data_format_or_default, pooled


def conv3d(
    x: Any,
    kernel: Any,
    strides: Sizes = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = (1, 1, 1),
) -> Any:
    """Convolve with a kernel of shape (depth, height, width, channels, filters)."""
    return keras.ops.conv(x, kernel, strides, padding, data_format_or_default(data_format), dilation_rate)


def conv2d_transpose(
    x: Any,
    kernel: Any,
    output_shape: Sequence[int],
    strides: Sizes = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = (1, 1),
) -> Any:
    """Apply the transpose of a convolution with a kernel of shape (height, width, filters, channels)."""
    form = "NHWC" if data_format_or_default(data_format) == "channels_last" else "NCHW"
    transposed = layers_of_nn.conv2d_transpose
    return transposed(x, kernel, output_shape, strides, padding.upper(), form, dilation_rate)


def depthwise_conv2d(
    x: Any,
    depthwise_kernel: Any,
    strides: Sizes = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = (1, 1),
) -> Any:
    """Convolve each channel with kernels of its own: shape (height, width, channels, kernels of each)."""
    form = data_format_or_default(data_format)
    return keras.ops.depthwise_conv(x, depthwise_kernel, strides, padding, form, dilation_rate)


def separable_conv2d(
    x: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Sizes = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = (1, 1),
) -> Any:
    """Convolve each channel alone, and mix the results by a kernel of shape (1, 1, results, filters)."""
    form = data_format_or_default(data_format)
    return keras.ops.separable_conv(
        x, depthwise_kernel, pointwise_kernel, strides, padding, form, dilation_rate
    )


def pool3d(
    x: Any,
    pool_size: Sizes,
    strides: Sizes = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Any:
    """Return the greatest values, or with ``avg`` the means, of windows.

    Raises:
        ValueError: There is no such mode.
    """
    return pooled(x, pool_size, strides, padding, data_format, pool_mode)


def spatial_3d_padding(
    x: Any,
    padding: Sequence[tuple[int, int]] = ((1, 1), (1, 1), (1, 1)),
    data_format: str | None = None,
) -> Any:
    """Add zeros around volumes."""
    sides = tuple(map(tuple, padding))
    ends: tuple[Any, ...] = ((0, 0), *sides, (0, 0))
    last = data_format_or_default(data_format) == "channels_last"
    return keras.ops.pad(x, ends if last else ((0, 0), *ends[:-1]))


def resize_images(
    x: Any, height_factor: int, width_factor: int, data_format: str, interpolation: str = "nearest"
) -> Any:
    """Make images larger, by a whole factor along each axis."""
    if data_format == "channels_first":
        x = keras.ops.transpose(x, (0, 2, 3, 1))
    height, width = keras.ops.shape(x)[1:3]
    found = resize(x, (height * height_factor, width * width_factor), interpolation)
    return keras.ops.transpose(found, (0, 3, 1, 2)) if data_format == "channels_first" else found


def resize_volumes(x: Any, depth_factor: int, height_factor: int, width_factor: int, data_format: str) -> Any:
    """Repeat the values of volumes along each axis."""
    first = 1 if data_format == "channels_last" else 2
    for axis, times in enumerate((depth_factor, height_factor, width_factor), first):
        x = keras.ops.repeat(x, times, axis)
    return x


def batch_normalization(
    x: Any, mean: Any, var: Any, beta: Any, gamma: Any, axis: int = -1, epsilon: float = 1e-3
) -> Any:
    """Normalize by means and variances, and scale and shift.

    Args:
        x: The values.
        mean: Of the shape of one axis, or of one that broadcasts.
        var: Likewise.
        beta: Added; None for 0.
        gamma: Multiplied by; None for 1.
        axis: The axis that arrays of one axis have values for.
        epsilon: Added to the variances.
    """
    shape = [1] * len(x.shape)
    shape[axis] = -1

    def along(value: Any) -> Any:
        return keras.ops.reshape(value, shape) if len(value.shape) == 1 else value

    scale = keras.ops.rsqrt(along(keras.ops.convert_to_tensor(var)) + epsilon)
    if gamma is not None:
        scale = scale * along(keras.ops.convert_to_tensor(gamma))
    found = (x - along(keras.ops.convert_to_tensor(mean))) * scale
    return found if beta is None else found + along(keras.ops.convert_to_tensor(beta))


def normalize_batch_in_training(
    x: Any, gamma: Any, beta: Any, reduction_axes: Sequence[int], epsilon: float = 1e-3
) -> tuple[Any, Any, Any]:
    """Normalize by means and variances over axes, and scale and shift; return these, too.

    Args:
        x: The values.
        gamma: Multiplied by, of the shape of the other axes; None for 1.
        beta: Added; None for 0.
        reduction_axes: The axes.
        epsilon: Added to the variances.
    """
    axes = sorted(axis % len(x.shape) for axis in reduction_axes)
    mean, var = keras.ops.moments(x, axes)
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]

    def whole(value: Any) -> Any:
        return None if value is None else keras.ops.reshape(value, shape)

    found = batch_normalization(x, whole(mean), whole(var), whole(beta), whole(gamma), epsilon=epsilon)
    return found, mean, var


def local_conv(
    inputs: Any,
    kernel: Any,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    output_shape: Sequence[int],
    data_format: str | None = None,
) -> Any:
    """Convolve with another kernel at each place.

    Args:
        inputs: Shape (batch, …, channels), or with channels first.
        kernel: Shape (places, size of a window times channels, filters).
        kernel_size: The size of windows.
        strides: How far apart they are.
        output_shape: The places along each axis.
        data_format: ``channels_last`` or ``channels_first``.
    """
    first = data_format_or_default(data_format) == "channels_first"
    x = keras.ops.moveaxis(inputs, 1, -1) if first else keras.ops.convert_to_tensor(inputs)
    parts = []
    for start in itertools.product(*map(range, kernel_size)):
        ends = (at + (n - 1) * step + 1 for at, n, step in zip(start, output_shape, strides, strict=True))
        within = map(slice, start, ends, strides)
        parts.append(x[(slice(None), *within)])
    windows = keras.ops.stack(parts, -1 if first else -2)
    places, size, filters = kernel.shape
    windows = keras.ops.reshape(windows, (-1, places, size))
    found = keras.ops.einsum("bpi,pio->bpo", windows, kernel)
    found = keras.ops.reshape(found, (-1, *output_shape, filters))
    return keras.ops.moveaxis(found, -1, 1) if first else found


def local_conv1d(
    inputs: Any,
    kernel: Any,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    data_format: str | None = None,
) -> Any:
    """Convolve sequences with another kernel at each place: shape (places, size times channels, filters)."""
    return local_conv(inputs, kernel, kernel_size, strides, (kernel.shape[0],), data_format)


def local_conv2d(
    inputs: Any,
    kernel: Any,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    output_shape: Sequence[int],
    data_format: str | None = None,
) -> Any:
    """Convolve images with another kernel at each place: shape (places, size times channels, filters)."""
    return local_conv(inputs, kernel, kernel_size, strides, output_shape, data_format)
