"""``tf.image``: random changes of images, new at each call or by a seed."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, apply, array_module, as_array, as_shape
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.images import _image, _image_colors
from muster_tensorflow.library.ops.random import _random, _stateless

Draw = Callable[..., Any]
"""Draws numbers: of a shape, from ``minval`` up to ``maxval``, of a dtype."""


def _new(seed: int | None) -> Draw:
    return lambda shape, low, high, dtype=np.float32: _random.uniform(shape, low, high, dtype, seed)


def _of_seed(seed: ArrayLike) -> Draw:
    def draw(shape: Any, low: Any, high: Any, dtype: Any = np.float32) -> Any:
        return _stateless.stateless_uniform(shape, seed, low, high, dtype)

    return draw


def _flipped(image: ArrayLike, flip: Callable[..., Array], draw: Draw) -> Array:
    value = as_array(image)
    turned = draw((*value.shape[:-3], 1, 1, 1), 0, 1) < 0.5
    return apply("where", as_array(turned), flip(value), value)


@operation
def random_flip_left_right(image: ArrayLike, seed: int | None = None) -> Array:
    """Reverse the columns of each image with a probability of 1/2."""
    return _flipped(image, _image.flip_left_right, _new(seed))


@operation
def random_flip_up_down(image: ArrayLike, seed: int | None = None) -> Array:
    """Reverse the rows of each image with a probability of 1/2."""
    return _flipped(image, _image.flip_up_down, _new(seed))


@operation
def stateless_random_flip_left_right(image: ArrayLike, seed: ArrayLike) -> Array:
    """Reverse the columns of each image with a probability of 1/2, as a seed of two integers says."""
    return _flipped(image, _image.flip_left_right, _of_seed(seed))


@operation
def stateless_random_flip_up_down(image: ArrayLike, seed: ArrayLike) -> Array:
    """Reverse the rows of each image with a probability of 1/2, as a seed of two integers says."""
    return _flipped(image, _image.flip_up_down, _of_seed(seed))


def _cropped(value: ArrayLike, size: Sequence[int], draw: Draw) -> Array:
    values, sizes = as_array(value), as_shape(size)
    sizes = tuple(full if part == -1 else part for part, full in zip(sizes, values.shape, strict=True))
    room = [full - part for part, full in zip(sizes, values.shape, strict=True)]
    if min(room) < 0:
        raise ValueError(f"A part of the size {sizes} does not fit into {values.shape}.")
    drawn = draw((len(sizes),), 0.0, 1.0)
    starts = array_module(drawn).floor(drawn * (np.array(room) + 1)).astype(np.int32)
    if isinstance(values, jax.Array) or isinstance(starts, jax.Array):
        return jax.lax.dynamic_slice(jnp.asarray(values), list(starts), sizes)
    places: Any = tuple(slice(start, start + part) for start, part in zip(starts, sizes, strict=True))
    return values[places]  # type: ignore[no-any-return]


@operation
def random_crop(
    value: ArrayLike, size: Sequence[int], seed: int | None = None, name: str | None = None
) -> Array:
    """Return a part of a size, at a random place."""
    return _cropped(value, size, _new(seed))


@operation
def stateless_random_crop(
    value: ArrayLike, size: Sequence[int], seed: ArrayLike, name: str | None = None
) -> Array:
    """Return a part of a size, at the place that a seed of two integers says."""
    return _cropped(value, size, _of_seed(seed))


def _bounds(lower: float, upper: float) -> tuple[float, float]:
    if upper <= lower:
        raise ValueError(f"The upper bound must be larger than the lower one, got {lower} and {upper}.")
    return lower, upper


def _delta(max_delta: float) -> tuple[float, float]:
    if max_delta < 0:
        raise ValueError(f"max_delta must be at least 0, got {max_delta!r}.")
    return -max_delta, max_delta


@operation
def random_brightness(image: ArrayLike, max_delta: float, seed: int | None = None) -> Array:
    """Change the brightness by a random number, at most ``max_delta``."""
    return _image_colors.adjust_brightness(image, _new(seed)((), *_delta(max_delta)))


@operation
def stateless_random_brightness(image: ArrayLike, max_delta: float, seed: ArrayLike) -> Array:
    """Change the brightness by a number that a seed says, at most ``max_delta``."""
    return _image_colors.adjust_brightness(image, _of_seed(seed)((), *_delta(max_delta)))


@operation
def random_hue(image: ArrayLike, max_delta: float, seed: int | None = None) -> Array:
    """Turn the hue by a random number, at most ``max_delta``."""
    return _image_colors.adjust_hue(image, _new(seed)((), *_delta(max_delta)))


@operation
def stateless_random_hue(image: ArrayLike, max_delta: float, seed: ArrayLike) -> Array:
    """Turn the hue by a number that a seed says, at most ``max_delta``."""
    return _image_colors.adjust_hue(image, _of_seed(seed)((), *_delta(max_delta)))


@operation
def random_contrast(image: ArrayLike, lower: float, upper: float, seed: int | None = None) -> Array:
    """Multiply the contrast by a random factor between two bounds."""
    return _image_colors.adjust_contrast(image, _new(seed)((), *_bounds(lower, upper)))


@operation
def stateless_random_contrast(image: ArrayLike, lower: float, upper: float, seed: ArrayLike) -> Array:
    """Multiply the contrast by a factor between two bounds that a seed says."""
    return _image_colors.adjust_contrast(image, _of_seed(seed)((), *_bounds(lower, upper)))


@operation
def random_saturation(image: ArrayLike, lower: float, upper: float, seed: int | None = None) -> Array:
    """Multiply the saturation by a random factor between two bounds."""
    return _image_colors.adjust_saturation(image, _new(seed)((), *_bounds(lower, upper)))


@operation
def stateless_random_saturation(image: ArrayLike, lower: float, upper: float, seed: ArrayLike) -> Array:
    """Multiply the saturation by a factor between two bounds that a seed says."""
    return _image_colors.adjust_saturation(image, _of_seed(seed)((), *_bounds(lower, upper)))
