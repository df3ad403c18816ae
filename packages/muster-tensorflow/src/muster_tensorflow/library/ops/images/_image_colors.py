"""``tf.image``: colours, brightness and contrast of images, and how alike images are."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, DTypeLike, as_array
from muster_tensorflow.library.ops._operation import operation


@operation
def convert_image_dtype(
    image: ArrayLike, dtype: DTypeLike, saturate: bool = False, name: str | None = None
) -> Array:
    """Convert images to another dtype and its range: floats from 0 to 1, integers up to their largest.

    Source: tensorflow/python/ops/image_ops_impl.py, ``convert_image_dtype``.
    """
    value: Any = as_array(image)
    kind, own = np.dtype(dtype), np.dtype(value.dtype)
    if kind == own:
        return value  # type: ignore[no-any-return]
    if own.kind == "f":
        if kind.kind == "f":
            return as_array(value, kind) if isinstance(value, jax.Array) else value.astype(kind)
        most = np.iinfo(kind).max
        scaled: Any = value * (most + 0.5)
        xp = jnp if isinstance(value, jax.Array) else np
        scaled = xp.clip(scaled, np.iinfo(kind).min, most) if saturate else scaled
        return scaled.astype(jax.dtypes.canonicalize_dtype(kind) if xp is jnp else kind)  # type: ignore[no-any-return]
    if kind.kind == "f":
        return value.astype(kind) * np.asarray(1 / np.iinfo(own).max, kind)  # type: ignore[no-any-return]
    most_own, most = np.iinfo(own).max, np.iinfo(kind).max
    if most_own > most:
        return (value // ((most_own + 1) // (most + 1))).astype(kind)  # type: ignore[no-any-return]
    return value.astype(kind) * np.asarray((most + 1) // (most_own + 1), kind)  # type: ignore[no-any-return]


def _in_floats(image: ArrayLike) -> tuple[jax.Array, Any]:
    """Return images as floats from 0 to 1, and their dtype."""
    value = as_array(image)
    own = np.dtype(value.dtype)
    return jnp.asarray(value if own.kind == "f" else convert_image_dtype(value, np.float32)), own


def _back(value: jax.Array, own: Any) -> Array:
    return convert_image_dtype(value, own, saturate=True)


@operation
def adjust_brightness(image: ArrayLike, delta: ArrayLike) -> Array:
    """Add a number to images whose range is from 0 to 1, or to integers a part of their range."""
    value, own = _in_floats(image)
    return _back(value + as_array(delta), own)


@operation
def adjust_contrast(images: ArrayLike, contrast_factor: ArrayLike) -> Array:
    """Multiply the distances of pixels from their channel's mean."""
    value, own = _in_floats(images)
    mean = jnp.mean(value, (-3, -2), keepdims=True)
    return _back((value - mean) * as_array(contrast_factor) + mean, own)


@operation
def adjust_saturation(image: ArrayLike, saturation_factor: ArrayLike, name: str | None = None) -> Array:
    """Multiply the saturation of colours."""
    value, own = _in_floats(image)
    hue, saturation, brightness = jnp.moveaxis(rgb_to_hsv(value), -1, 0)
    saturation = jnp.clip(saturation * as_array(saturation_factor), 0, 1)
    return _back(jnp.asarray(hsv_to_rgb(jnp.stack([hue, saturation, brightness], -1))), own)


@operation
def adjust_hue(image: ArrayLike, delta: ArrayLike, name: str | None = None) -> Array:
    """Turn the hue of colours; 1 is a whole turn."""
    value, own = _in_floats(image)
    hue, saturation, brightness = jnp.moveaxis(rgb_to_hsv(value), -1, 0)
    turned = jnp.stack([(hue + as_array(delta)) % 1.0, saturation, brightness], -1)
    return _back(jnp.asarray(hsv_to_rgb(turned)), own)


@operation
def adjust_gamma(image: ArrayLike, gamma: ArrayLike = 1, gain: ArrayLike = 1) -> Array:
    """Return ``gain * image ** gamma``."""
    value, own = _in_floats(image)
    return _back(jnp.asarray(as_array(gain) * value ** as_array(gamma)), own)


@operation
def rgb_to_grayscale(images: ArrayLike, name: str | None = None) -> Array:
    """Return the brightness of colours, in one channel."""
    value, own = _in_floats(images)
    weights = jnp.asarray([0.2989, 0.5870, 0.1140], value.dtype)
    return _back(jnp.sum(value * weights, -1, keepdims=True), own)


@operation
def grayscale_to_rgb(images: ArrayLike, name: str | None = None) -> Array:
    """Repeat the one channel of images three times."""
    value = as_array(images)
    if value.shape[-1] != 1:
        raise ValueError(f"Images of one channel are needed, got the shape {value.shape}.")
    return value.repeat(3, axis=-1)


@operation
def rgb_to_hsv(images: ArrayLike, name: str | None = None) -> Array:
    """Convert colours to hue, saturation and brightness, each from 0 to 1."""
    value = jnp.asarray(as_array(images))
    red, green, blue = jnp.moveaxis(value, -1, 0)
    most, least = jnp.max(value, -1), jnp.min(value, -1)
    span = most - least
    safe = jnp.where(span > 0, span, 1)
    hue = jnp.where(
        most == red,
        (green - blue) / safe,
        jnp.where(most == green, (blue - red) / safe + 2, (red - green) / safe + 4),
    )
    hue = jnp.where(span > 0, (hue / 6) % 1.0, 0)
    return jnp.stack([hue, jnp.where(most > 0, span / jnp.where(most > 0, most, 1), 0), most], -1)


@operation
def hsv_to_rgb(images: ArrayLike, name: str | None = None) -> Array:
    """Convert hue, saturation and brightness to colours."""
    hue, saturation, brightness = jnp.moveaxis(jnp.asarray(as_array(images)), -1, 0)
    turn = hue * 6
    red = jnp.clip(jnp.abs(turn - 3) - 1, 0, 1)
    green = jnp.clip(2 - jnp.abs(turn - 2), 0, 1)
    blue = jnp.clip(2 - jnp.abs(turn - 4), 0, 1)
    colours = jnp.stack([red, green, blue], -1)
    return ((colours - 1) * saturation[..., None] + 1) * brightness[..., None]  # type: ignore[no-any-return]


@operation
def rgb_to_yuv(images: ArrayLike) -> Array:
    """Convert colours to brightness and two differences of colours."""
    kernel = [
        [0.299, -0.14714119, 0.61497538],
        [0.587, -0.28886916, -0.51496512],
        [0.114, 0.43601035, -0.10001026],
    ]
    return jnp.asarray(as_array(images)) @ jnp.asarray(kernel)


@operation
def per_image_standardization(image: ArrayLike) -> Array:
    """Scale each image to mean 0 and variance 1.

    Source: tensorflow/python/ops/image_ops_impl.py, ``per_image_standardization``.
    """
    value = jnp.asarray(as_array(image)).astype(jnp.float32)
    axes = (-3, -2, -1)
    count = np.prod([value.shape[axis] for axis in axes])
    deviation = jnp.std(value, axes, keepdims=True)
    least = 1 / np.sqrt(count).astype(np.float32)
    return (value - jnp.mean(value, axes, keepdims=True)) / jnp.maximum(deviation, least)


@operation
def total_variation(images: ArrayLike, name: str | None = None) -> Array:
    """Return the sum of the absolute differences of neighbouring pixels, of each image."""
    value = jnp.asarray(as_array(images))
    down = jnp.abs(value[..., 1:, :, :] - value[..., :-1, :, :])
    right = jnp.abs(value[..., :, 1:, :] - value[..., :, :-1, :])
    return jnp.sum(down, (-3, -2, -1)) + jnp.sum(right, (-3, -2, -1))


@operation
def image_gradients(image: ArrayLike) -> tuple[Array, Array]:
    """Return the differences from each pixel of a batch's images to that below and to that on its right."""
    value = jnp.asarray(as_array(image))
    down = jnp.pad(value[:, 1:] - value[:, :-1], [(0, 0), (0, 1), (0, 0), (0, 0)])
    right = jnp.pad(value[:, :, 1:] - value[:, :, :-1], [(0, 0), (0, 0), (0, 1), (0, 0)])
    return down, right


@operation
def sobel_edges(image: ArrayLike) -> Array:
    """Return the Sobel edges of a batch's images, down and to the right along a new last axis."""
    value = jnp.asarray(as_array(image)).astype(jnp.float32)
    padded = jnp.pad(value, [(0, 0), (1, 1), (1, 1), (0, 0)], mode="reflect")
    height, width = value.shape[1:3]
    weights = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]], np.float32)

    def filtered(kernel: Any) -> Any:
        parts = [kernel[i, j] * padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
        return sum(parts[1:], parts[0])

    return jnp.stack([filtered(weights), filtered(weights.T)], -1)


@operation
def psnr(a: ArrayLike, b: ArrayLike, max_val: float, name: str | None = None) -> Array:
    """Return the ratio of the largest signal to the noise between two images, in decibels."""
    (one, own), (other, _) = _in_floats(a), _in_floats(b)
    most = max_val if own.kind == "f" else max_val / np.iinfo(own).max
    noise = jnp.mean(jnp.square(one - other), (-3, -2, -1))
    return 20 * jnp.log10(jnp.asarray(most, jnp.float32)) - 10 * jnp.log10(noise)


@operation
def ssim(
    img1: ArrayLike,
    img2: ArrayLike,
    max_val: float,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Array:
    """Return the structural similarity of images, 1 for the same.

    Source: tensorflow/python/ops/image_ops_impl.py, ``ssim``.
    """
    (one, own), (other, _) = _in_floats(img1), _in_floats(img2)
    most = max_val if own.kind == "f" else max_val / np.iinfo(own).max
    similar, _ = _similarities(one, other, most, filter_size, filter_sigma, k1, k2)
    return jnp.mean(similar, -1) if return_index_map else jnp.mean(jnp.mean(similar, (-3, -2)), -1)


@operation
def ssim_multiscale(
    img1: ArrayLike,
    img2: ArrayLike,
    max_val: float,
    power_factors: Sequence[float] = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333),
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Array:
    """Return the structural similarity of images at several scales, each half of the one before.

    Args:
        img1: Images, of shape (..., height, width, channels).
        img2: Likewise.
        max_val: The difference of the largest and the smallest value that images may have.
        power_factors: The weight of each scale, the finest first.
        filter_size: As for `ssim`, and so the others.
        filter_sigma: As for `ssim`.
        k1: As for `ssim`.
        k2: As for `ssim`.

    Source: tensorflow/python/ops/image_ops_impl.py, ``ssim_multiscale``.
    """
    (one, own), (other, _) = _in_floats(img1), _in_floats(img2)
    most = max_val if own.kind == "f" else max_val / np.iinfo(own).max
    parts = []
    for scale in range(len(power_factors)):
        if scale:
            one, other = _halved(one), _halved(other)
        maps = _similarities(one, other, most, filter_size, filter_sigma, k1, k2)
        similar, structure = (jnp.maximum(jnp.mean(each, (-3, -2)), 0) for each in maps)
        parts.append(similar if scale == len(power_factors) - 1 else structure)
    powers = [part**power for part, power in zip(parts, power_factors, strict=True)]
    return jnp.mean(jnp.prod(jnp.stack(powers), 0), -1)


def _halved(image: Any) -> Any:
    """Return the means of squares of two by two, with the last row and column again if they are odd."""
    *batch, height, width, channels = image.shape
    even = [(0, 0)] * len(batch) + [(0, height % 2), (0, width % 2), (0, 0)]
    padded = jnp.pad(image, even, mode="symmetric")
    squares = padded.reshape(*batch, (height + 1) // 2, 2, (width + 1) // 2, 2, channels)
    return squares.mean((-4, -2))


def _similarities(
    one: Any, other: Any, most: float, filter_size: int, filter_sigma: float, k1: float, k2: float
) -> tuple[Any, Any]:
    """Return how similar images are at each place, and how similar apart from their luminance."""
    places = np.arange(filter_size) - (filter_size - 1) / 2
    line = np.exp(-np.square(places) / (2 * filter_sigma**2))
    line = (line / line.sum()).astype(np.float32)

    def smooth(value: Any) -> Any:
        rows = value.shape[-3] - filter_size + 1
        down = sum(line[i] * value[..., i : i + rows, :, :] for i in range(filter_size))
        columns = value.shape[-2] - filter_size + 1
        return sum(line[i] * down[..., i : i + columns, :] for i in range(filter_size))

    c1, c2 = (k1 * most) ** 2, (k2 * most) ** 2
    mean1, mean2 = smooth(one), smooth(other)
    product, squares = mean1 * mean2 * 2, mean1**2 + mean2**2
    luminance = (product + c1) / (squares + c1)
    structure = (smooth(one * other) * 2 - product + c2) / (smooth(one**2 + other**2) - squares + c2)
    return luminance * structure, structure
