"""More convolutions and pooling of ``tf.nn``, in one and three dimensions, transposed and by channel."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster import keras
from muster_tensorflow.library.ops._arrays import Array, ArrayLike, as_array, as_shape
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.nn._layers_of_nn import (
    Sizes,
    along,
    avg_pool2d,
    conv2d,
    convolved,
    keras_format,
    keras_padding,
    max_pool2d,
    padded,
    pooled,
)


@operation
def conv3d(
    input: ArrayLike,
    filters: ArrayLike,
    strides: Sizes,
    padding: str,
    data_format: str = "NDHWC",
    dilations: Sizes | None = None,
    name: str | None = None,
) -> jax.Array:
    """Apply a 3D convolution to (batch, depth, height, width, channels)."""
    return convolved(input, filters, strides, padding, data_format, dilations, 3)


@operation
def convolution(
    input: ArrayLike,
    filters: ArrayLike,
    strides: Sizes | None = None,
    padding: str = "VALID",
    data_format: str | None = None,
    dilations: Sizes | None = None,
    name: str | None = None,
) -> jax.Array:
    """Apply a convolution in as many dimensions as the filters have before channels.

    Source: tensorflow/python/ops/nn_ops.py, ``convolution_v2``.
    """
    rank = as_array(filters).ndim - 2
    form = data_format or ("NWC", "NHWC", "NDHWC")[rank - 1]
    return convolved(input, filters, strides or 1, padding, form, dilations, rank)


@operation
def atrous_conv2d(
    value: ArrayLike, filters: ArrayLike, rate: int, padding: str, name: str | None = None
) -> jax.Array:
    """Apply a 2D convolution with dilated filters."""
    return conv2d(value, filters, 1, padding, dilations=rate)


def _transposed(name: str, rank: int, default: str) -> Callable[..., Array]:
    def conv_transpose(
        input: ArrayLike,
        filters: ArrayLike,
        output_shape: ArrayLike,
        strides: Sizes,
        padding: str = "SAME",
        data_format: str = default,
        dilations: Sizes | None = None,
        name: str | None = None,
    ) -> Array:
        steps = along(strides, rank, data_format)
        value, kernel = jnp.asarray(as_array(input)), jnp.asarray(as_array(filters))
        first = data_format.startswith("NC")
        value = jnp.moveaxis(value, 1, -1) if first else value
        wanted = as_shape(output_shape)
        sizes = wanted[2:] if first else wanted[1:-1]
        rates = along(1 if dilations is None else dilations, rank, data_format)
        margins = []
        for size, given, step, width, rate in zip(
            sizes, value.shape[1:-1], steps, kernel.shape[:rank], rates, strict=True
        ):
            # What the convolution that this is the gradient of pads its input with.
            wide = (width - 1) * rate + 1
            total = max((given - 1) * step + wide - size, 0) if keras_padding(padding) == "same" else 0
            low = wide - 1 - total // 2
            margins.append((low, size - ((given - 1) * step + 1) - low + wide - 1))
        letters = "DHW"[3 - rank :]
        made = jax.lax.conv_general_dilated(
            value,
            jnp.flip(kernel, tuple(range(rank))).astype(value.dtype),
            (1,) * rank,
            margins,
            lhs_dilation=steps,
            rhs_dilation=rates,
            dimension_numbers=(f"N{letters}C", f"{letters}OI", f"N{letters}C"),
        )
        return jnp.moveaxis(made, -1, 1) if first else made

    conv_transpose.__name__ = conv_transpose.__qualname__ = name
    conv_transpose.__doc__ = f"""Apply a {rank}D convolution backwards, as its gradient is: strides enlarge.

    Args:
        input: Values of shape (batch, …, channels).
        filters: Of shape (…, channels of the result, channels).
        output_shape: The shape of the result.
        strides: As of the convolution.
        padding: Likewise.
        data_format: Likewise.
        dilations: Likewise.
        name: Unused.
    """
    return operation(conv_transpose)


conv1d_transpose = _transposed("conv1d_transpose", 1, "NWC")
conv2d_transpose = _transposed("conv2d_transpose", 2, "NHWC")
conv3d_transpose = _transposed("conv3d_transpose", 3, "NDHWC")


@operation
def depthwise_conv2d(
    input: ArrayLike,
    filter: ArrayLike,
    strides: Sizes,
    padding: str,
    data_format: str | None = None,
    dilations: Sizes | None = None,
    name: str | None = None,
) -> jax.Array:
    """Apply filters to each channel alone: (height, width, channels, filters of each channel)."""
    form = data_format or "NHWC"
    value, padding = padded(jnp.asarray(as_array(input)), padding)
    made: jax.Array = keras.ops.depthwise_conv(
        value,
        jnp.asarray(as_array(filter), value.dtype),
        along(strides, 2, form),
        keras_padding(padding),
        keras_format(form),
        along(1 if dilations is None else dilations, 2, form),
    )
    return made


@operation
def separable_conv2d(
    input: ArrayLike,
    depthwise_filter: ArrayLike,
    pointwise_filter: ArrayLike,
    strides: Sizes,
    padding: str,
    data_format: str | None = None,
    dilations: Sizes | None = None,
    name: str | None = None,
) -> jax.Array:
    """Apply filters to each channel alone, and then a convolution of the channels at each pixel."""
    deep = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return conv2d(deep, pointwise_filter, 1, "VALID", data_format or "NHWC")


def _pool(name: str, pool: str, rank: int, default: str) -> Callable[..., jax.Array]:
    def operation_(
        input: ArrayLike,
        ksize: Sizes,
        strides: Sizes,
        padding: str,
        data_format: str | None = default,
        name: str | None = None,
    ) -> jax.Array:
        return pooled(getattr(keras.ops, pool), input, ksize, strides, padding, data_format or default, rank)

    operation_.__name__ = operation_.__qualname__ = name
    what = "maximum" if pool == "max_pool" else "mean"
    operation_.__doc__ = (
        f"Take the {what} of each window, in {rank} dimensions; arguments as for ``max_pool2d``."
    )
    return operation(operation_)


max_pool1d = _pool("max_pool1d", "max_pool", 1, "NWC")
avg_pool1d = _pool("avg_pool1d", "average_pool", 1, "NWC")
max_pool3d = _pool("max_pool3d", "max_pool", 3, "NDHWC")
avg_pool3d = _pool("avg_pool3d", "average_pool", 3, "NDHWC")


@operation
def max_pool(
    input: ArrayLike,
    ksize: Sizes,
    strides: Sizes,
    padding: str,
    data_format: str | None = None,
    name: str | None = None,
) -> jax.Array:
    """Take the maximum of each window, in as many dimensions as the values have."""
    pool = (max_pool1d, max_pool2d, max_pool3d)[as_array(input).ndim - 3]
    return pool(input, ksize, strides, padding, data_format)


@operation
def avg_pool(
    input: ArrayLike,
    ksize: Sizes,
    strides: Sizes,
    padding: str,
    data_format: str | None = None,
    name: str | None = None,
) -> jax.Array:
    """Take the mean of each window, in as many dimensions as the values have."""
    pool = (avg_pool1d, avg_pool2d, avg_pool3d)[as_array(input).ndim - 3]
    return pool(input, ksize, strides, padding, data_format)


@operation
def pool(
    input: ArrayLike,
    window_shape: Sizes,
    pooling_type: str,
    strides: Sizes | None = None,
    padding: str = "VALID",
    data_format: str | None = None,
    dilations: None = None,
    name: str | None = None,
) -> jax.Array:
    """Take the maximum, for ``"MAX"``, or the mean, for ``"AVG"``, of each window."""
    if pooling_type not in ("MAX", "AVG"):
        raise ValueError(f"pooling_type is 'MAX' or 'AVG', got {pooling_type!r}.")
    function = max_pool if pooling_type == "MAX" else avg_pool
    return function(input, window_shape, strides or 1, padding, data_format)


@operation
def local_response_normalization(
    input: ArrayLike,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> jax.Array:
    """Divide values by a power of the sum of squares of the channels around each.

    Source: tensorflow/python/ops/nn_impl.py, ``local_response_normalization``.
    """
    value = jnp.asarray(as_array(input))
    padded = jnp.pad(jnp.square(value), [*[(0, 0)] * (value.ndim - 1), (depth_radius, depth_radius)])
    width = value.shape[-1]
    total: Any = sum(padded[..., i : i + width] for i in range(2 * depth_radius + 1))
    return value / (bias + alpha * total) ** beta  # type: ignore[no-any-return]


@operation
def crelu(features: ArrayLike, axis: int = -1, name: str | None = None) -> jax.Array:
    """Return ``max(x, 0)`` and ``max(-x, 0)``, one after the other along an axis."""
    value = jnp.asarray(as_array(features))
    return jax.nn.relu(jnp.concatenate([value, -value], axis))


@operation
def log_poisson_loss(
    targets: ArrayLike, log_input: ArrayLike, compute_full_loss: bool = False, name: str | None = None
) -> jax.Array:
    """Return the negative logarithm of the Poisson probability of targets, less its constant part."""
    logs = jnp.asarray(as_array(log_input))
    counts = jnp.asarray(as_array(targets), logs.dtype)
    loss = jnp.exp(logs) - logs * counts
    if not compute_full_loss:
        return loss
    # Stirling's formula, which holds for counts above 1.
    safe = jnp.maximum(counts, 1)
    rest = counts * jnp.log(safe) - counts + 0.5 * jnp.log(2 * np.pi * safe)
    return loss + jnp.where((counts >= 0) & (counts <= 1), 0, rest)


@operation
def normalize_moments(
    counts: ArrayLike,
    mean_ss: ArrayLike,
    variance_ss: ArrayLike,
    shift: ArrayLike | None = None,
    name: str | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Return the mean and the variance of sums of values and of their squares."""
    divisor = 1 / jnp.asarray(as_array(counts))
    shifted = jnp.asarray(as_array(mean_ss)) * divisor
    mean = shifted if shift is None else shifted + as_array(shift)
    return mean, jnp.asarray(as_array(variance_ss)) * divisor - jnp.square(shifted)


@operation
def sufficient_statistics(
    x: ArrayLike,
    axes: Sequence[int],
    shift: ArrayLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array, Any]:
    """Return the count, the sum and the sum of squares of values along axes, and the shift."""
    values, over = jnp.asarray(as_array(x)), tuple(axes)
    count = jnp.asarray(np.prod([values.shape[each] for each in over]), values.dtype)
    moved = values if shift is None else values - as_array(shift)
    return (
        count,
        jnp.sum(moved, over, keepdims=keepdims),
        jnp.sum(jnp.square(moved), over, keepdims=keepdims),
        shift,
    )
