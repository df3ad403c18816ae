"""Convolutions, pooling and normalization of ``tf.nn``, on arrays and the variables of a step."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster import keras
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.random import _random
from muster_tensorflow.library.ops.random._generators import in_model_fn

Sizes = int | Sequence[int]


@operation
def conv2d(
    input: ArrayLike,
    filters: ArrayLike,
    strides: Sizes,
    padding: str,
    data_format: str = "NHWC",
    dilations: Sizes | None = None,
    name: str | None = None,
) -> jax.Array:
    """Apply a 2D convolution.

    Args:
        input: Of shape (batch, height, width, channels), or (batch, channels, height, width) for ``"NCHW"``.
        filters: Of shape (height, width, channels, channels of the result).
        strides: One number, one for each of height and width, or one for each axis of the input.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        dilations: Like ``strides``; None is 1.
        name: Unused.

    Source: tensorflow/python/ops/nn_ops.py, ``conv2d_v2``.
    """
    return convolved(input, filters, strides, padding, data_format, dilations, 2)


@operation
def conv1d(
    input: ArrayLike,
    filters: ArrayLike,
    stride: Sizes,
    padding: str,
    data_format: str = "NWC",
    dilations: Sizes | None = None,
    name: str | None = None,
) -> jax.Array:
    """Apply a 1D convolution to (batch, width, channels), with filters (width, channels, channels after)."""
    return convolved(input, filters, stride, padding, data_format, dilations, 1)


def convolved(
    input: ArrayLike,
    filters: ArrayLike,
    strides: Sizes,
    padding: str,
    data_format: str,
    dilations: Sizes | None,
    rank: int,
) -> jax.Array:
    """Apply a convolution in as many dimensions as ``rank`` says."""
    value, padding = padded(jnp.asarray(as_array(input)), padding)
    made: jax.Array = keras.ops.conv(
        value,
        jnp.asarray(as_array(filters), value.dtype),
        along(strides, rank, data_format),
        keras_padding(padding),
        keras_format(data_format),
        along(1 if dilations is None else dilations, rank, data_format),
    )
    return made


@operation
def max_pool2d(
    input: ArrayLike,
    ksize: Sizes,
    strides: Sizes,
    padding: str,
    data_format: str | None = "NHWC",
    name: str | None = None,
) -> jax.Array:
    """Take the maximum of each window of (batch, height, width, channels).

    Args:
        input: The values; (batch, channels, height, width) for ``"NCHW"``.
        ksize: The size of windows: one number, one for each of height and width, or one for each axis.
        strides: Like ``ksize``.
        padding: ``"SAME"``, ``"VALID"``, or how much before and after on each axis.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        name: Unused.

    Source: tensorflow/python/ops/nn_ops.py, ``max_pool2d``.
    """
    return pooled(keras.ops.max_pool, input, ksize, strides, padding, data_format or "NHWC")


@operation
def avg_pool2d(
    input: ArrayLike,
    ksize: Sizes,
    strides: Sizes,
    padding: str,
    data_format: str | None = "NHWC",
    name: str | None = None,
) -> jax.Array:
    """Take the mean of each window; arguments as for `max_pool2d`."""
    return pooled(keras.ops.average_pool, input, ksize, strides, padding, data_format or "NHWC")


def pooled(
    pool: Any, input: ArrayLike, ksize: Sizes, strides: Sizes, padding: str, data_format: str, rank: int = 2
) -> jax.Array:
    """Apply a function of Keras' to windows of as many dimensions as ``rank`` says."""
    sizes, steps = along(ksize, rank, data_format), along(strides, rank, data_format)
    value, padding = padded(jnp.asarray(as_array(input)), padding, -jnp.inf)
    made: jax.Array = pool(value, sizes, steps, keras_padding(padding), keras_format(data_format))
    return made


@operation
def bias_add(
    value: ArrayLike, bias: ArrayLike, data_format: str | None = None, name: str | None = None
) -> jax.Array:
    """Add a number to each channel: the last axis, or the second one for ``"NC…"``."""
    values, biases = jnp.asarray(as_array(value)), jnp.asarray(as_array(bias))
    if data_format is not None and data_format.startswith("NC"):
        biases = biases.reshape(-1, *(1,) * (values.ndim - 2))
    return values + biases


@operation
def batch_normalization(
    x: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    offset: ArrayLike | None,
    scale: ArrayLike | None,
    variance_epsilon: float,
    name: str | None = None,
) -> jax.Array:
    """Return ``(x - mean) / sqrt(variance + variance_epsilon) * scale + offset``.

    Source: tensorflow/python/ops/nn_impl.py, ``batch_normalization``.
    """
    factor = jax.lax.rsqrt(jnp.asarray(as_array(variance)) + variance_epsilon)
    if scale is not None:
        factor = factor * jnp.asarray(as_array(scale))
    normalized = (jnp.asarray(as_array(x)) - as_array(mean)) * factor
    return normalized if offset is None else normalized + jnp.asarray(as_array(offset))


@operation
def dropout(
    x: ArrayLike,
    rate: float,
    noise_shape: Sequence[int | None] | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> jax.Array:
    """Set a fraction ``rate`` of the values to 0, and divide the others by ``1 - rate``.

    In a model_fn, the state of its random numbers is in checkpoints, as that of a Keras layer.

    Args:
        x: Values of any shape.
        rate: The fraction, in [0, 1).
        noise_shape: The shape of the random decisions, which broadcasts to that of the values.
        seed: Seeds the decisions; None takes that of ``tf.random.set_seed``.
        name: The prefix of the variable that holds the state.

    Source: tensorflow/python/ops/nn_ops.py, ``dropout_v2``.
    """
    values = jnp.asarray(as_array(x))
    if in_model_fn():
        layer = keras.layers.Dropout(rate, noise_shape, seed=seed, name=name)
        dropped: jax.Array = layer(values, training=True)
        return dropped
    asked = values.shape if noise_shape is None else noise_shape
    sizes = [full if size is None else size for size, full in zip(asked, values.shape, strict=True)]
    kept = _random.uniform(sizes, seed=seed) >= rate
    return jnp.where(kept, values / (1 - rate), 0).astype(values.dtype)


def along(sizes: Sizes, rank: int, data_format: str) -> tuple[int, ...]:
    """Return the numbers of the axes between batch and channels."""
    given = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if len(given) == 1:
        return given * rank
    if len(given) == rank:
        return given
    if len(given) == rank + 2:
        return given[2:] if data_format.startswith("NC") else given[1:-1]
    raise ValueError(f"Sizes and strides have 1, {rank} or {rank + 2} numbers, got {sizes!r}.")


def padded(value: jax.Array, padding: Any, fill: float = 0.0) -> tuple[jax.Array, str]:
    """Return a value and the padding that is left to do: none, if it says how much there is on each axis."""
    if isinstance(padding, str):
        return value, padding
    return jnp.pad(value, padding, constant_values=fill), "VALID"


def keras_padding(padding: str) -> str:
    """Return Keras' name of a padding."""
    if padding not in ("SAME", "VALID"):
        raise ValueError(f"padding is 'SAME', 'VALID', or a pair of numbers for each axis; got {padding!r}.")
    return padding.lower()


def keras_format(data_format: str) -> str:
    """Return Keras' name of an order of axes."""
    return "channels_first" if data_format.startswith("NC") else "channels_last"
