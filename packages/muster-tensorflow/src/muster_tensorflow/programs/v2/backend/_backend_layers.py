"""Layer-like functions of Keras 2's ``backend``, with Keras 2's arguments and defaults.

Source: keras/src/backend.py of Keras 2.15.
"""

from collections.abc import Sequence
from typing import Any

from muster import keras
from muster_tensorflow.library.ops.nn._layers_of_nn import dropout as dropout_of_nn
from muster_tensorflow.library.ops.random._random import truncated_normal as draw_truncated_normal
from muster_tensorflow.library.ops.random._random import uniform

Sizes = int | Sequence[int]


def bias_add(x: Any, bias: Any, data_format: str | None = None) -> Any:
    """Add a value for each channel."""
    if data_format_or_default(data_format) == "channels_first":
        bias = keras.ops.reshape(bias, (-1, *[1] * (len(x.shape) - 2)))
    return x + bias


def conv1d(
    x: Any,
    kernel: Any,
    strides: int = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: int = 1,
) -> Any:
    """Convolve with a kernel of shape (size, channels, filters); ``padding`` may be ``causal``, too."""
    if padding == "causal":
        x, padding = temporal_padding(x, (dilation_rate * (kernel.shape[0] - 1), 0)), "valid"
    return keras.ops.conv(x, kernel, strides, padding, data_format_or_default(data_format), dilation_rate)


def conv2d(
    x: Any,
    kernel: Any,
    strides: Sizes = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = (1, 1),
) -> Any:
    """Convolve with a kernel of shape (height, width, channels, filters)."""
    return keras.ops.conv(x, kernel, strides, padding, data_format_or_default(data_format), dilation_rate)


def pool2d(
    x: Any,
    pool_size: Sizes,
    strides: Sizes = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Any:
    """Return the greatest values, or with ``avg`` the means, of windows.

    Raises:
        ValueError: There is no such mode.
    """
    return pooled(x, pool_size, strides, padding, data_format, pool_mode)


def pooled(
    x: Any, pool_size: Sizes, strides: Sizes, padding: str, data_format: str | None, pool_mode: str
) -> Any:
    """Return the greatest values, or with ``avg`` the means, of windows in any number of axes.

    Raises:
        ValueError: There is no such mode.
    """
    if pool_mode not in ("max", "avg"):
        raise ValueError(f"pool_mode is 'max' or 'avg', got {pool_mode!r}.")
    pool = keras.ops.max_pool if pool_mode == "max" else keras.ops.average_pool
    return pool(x, pool_size, strides, padding, data_format_or_default(data_format))


def temporal_padding(x: Any, padding: tuple[int, int] = (1, 1)) -> Any:
    """Add zeros before and after the steps of an array of shape (batch, steps, channels)."""
    return keras.ops.pad(x, ((0, 0), tuple(padding), (0, 0)))


def spatial_2d_padding(
    x: Any, padding: Sequence[tuple[int, int]] = ((1, 1), (1, 1)), data_format: str | None = None
) -> Any:
    """Add zeros around images."""
    sides = tuple(map(tuple, padding))
    ends: tuple[Any, ...] = ((0, 0), *sides, (0, 0))
    return keras.ops.pad(
        x, ends if data_format_or_default(data_format) == "channels_last" else ((0, 0), *ends[:-1])
    )


def dropout(x: Any, level: float, noise_shape: Any = None, seed: Any = None) -> Any:
    """Set a fraction of the elements to zero, and scale the others; in training and else."""
    return dropout_of_nn(x, level, noise_shape, seed)


def random_bernoulli(shape: Any, p: float = 0.0, dtype: str | None = None, seed: Any = None) -> Any:
    """Draw ones with a probability, else zeros."""
    drawn = uniform(shape, 0.0, 1.0, "float32", seed)
    return keras.ops.cast(keras.ops.convert_to_tensor(drawn) < p, dtype or keras.config.floatx())


random_binomial = random_bernoulli


def truncated_normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: str | None = None, seed: Any = None
) -> Any:
    """Draw from a normal distribution without what is further than two deviations from the mean."""
    return draw_truncated_normal(shape, mean, stddev, dtype or keras.config.floatx(), seed)


def data_format_or_default(data_format: str | None) -> str:
    """Return where channels are; None for what Keras is configured for."""
    return data_format or str(keras.config.image_data_format())
