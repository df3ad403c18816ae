"""``tf.compat.v1.image``: TensorFlow 1's resizing, without half-pixel centers.

Source: tensorflow/python/ops/image_ops_impl.py, ``resize_images``.
"""

from enum import IntEnum
from typing import Any

import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, array_module, as_array, as_shape, is_size
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.images import _image


class ResizeMethod(IntEnum):
    """The numbers of ways to resize images."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


@operation
def resize_bilinear(
    images: ArrayLike,
    size: ArrayLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Array:
    """Resize images to a height and a width, in float32: each pixel is a mean of the four around its place.

    Args:
        images: The images.
        size: Two integers.
        align_corners: Whether the pixels in the corners keep their values.
        name: Unused.
        half_pixel_centers: Whether a pixel's place is its middle, as in ``tf.image.resize``.
    """
    if half_pixel_centers:
        return _image.resize(images, size)
    values = jnp.asarray(as_array(images)).astype(jnp.float32)
    for axis, new in zip((-3, -2), as_shape(size), strict=True):
        places, last = _places(new, values.shape[axis], align_corners)
        before = places.astype(np.int32)
        after = array_module(places).minimum(before + 1, last)
        share = (places - before).reshape((-1,) + (1,) * (-axis - 1)).astype(np.float32)
        values = jnp.take(values, before, axis) * (1 - share) + jnp.take(values, after, axis) * share
    return values


@operation
def resize_nearest_neighbor(
    images: ArrayLike,
    size: ArrayLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Array:
    """Resize images to a height and a width: each pixel is the one at its place; in the images' dtype.

    Args:
        images: The images.
        size: Two integers.
        align_corners: Whether the pixels in the corners keep their values.
        name: Unused.
        half_pixel_centers: Whether a pixel's place is its middle, as in ``tf.image.resize``.
    """
    if half_pixel_centers:
        return _image.resize(images, size, "nearest")
    values = jnp.asarray(as_array(images))
    for axis, new in zip((-3, -2), as_shape(size), strict=True):
        places, _ = _places(new, values.shape[axis], align_corners)
        values = jnp.take(values, (places + 0.5 * align_corners).astype(np.int32), axis)
    return values


@operation
def resize_area(
    images: ArrayLike, size: ArrayLike, align_corners: bool = False, name: str | None = None
) -> Array:
    """Resize images to a height and a width by means of pixels.

    Args:
        images: The images.
        size: Two integers.
        align_corners: Must be False.
        name: Unused.
    """
    if align_corners:
        raise ValueError("resize_area takes no align_corners here: leave it out, or use resize_bilinear.")
    return _image.resize(images, size, "area")


@operation
def resize_images(
    images: ArrayLike,
    size: ArrayLike,
    method: int | str = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Array:
    """Resize images to ``size``, a height and a width; in float32, but for the nearest pixel.

    Args:
        images: The images.
        size: Two integers.
        method: ``ResizeMethod.BILINEAR``, ``NEAREST_NEIGHBOR``, or ``AREA``, for sizes that divide the
            images' own; also the names in ``tf.image.ResizeMethod``.
        align_corners: Whether the pixels in the corners keep their values.
        preserve_aspect_ratio: Whether to keep the ratio, and stay within the size.
        name: Unused.

    Raises:
        ValueError: There is no such method, or it is ``BICUBIC``.
    """
    values = jnp.asarray(as_array(images))
    own: tuple[int, ...] = values.shape[-3:-1]
    size = as_shape(size)
    if preserve_aspect_ratio:
        scale = min(new / old for new, old in zip(size, own, strict=True))
        size = tuple(round(each * scale) for each in own)
    if size == own:
        return values
    if method in (ResizeMethod.BILINEAR, "bilinear"):
        return resize_bilinear(values, size, align_corners)
    if method in (ResizeMethod.NEAREST_NEIGHBOR, "nearest"):
        return resize_nearest_neighbor(values, size, align_corners)
    if method in (ResizeMethod.AREA, "area"):
        return resize_area(values, size, align_corners)
    raise ValueError(
        f"method is BILINEAR, NEAREST_NEIGHBOR or AREA here, got {method!r}. tf.compat.v2.image.resize has "
        "others."
    )


def _places(new: int, own: Any, align_corners: bool) -> tuple[Array, Any]:
    """Return the place of each new pixel among an axis' own, and the last of these.

    Of an axis whose size is not known, as that of images which an exported model gets, both are traced.
    """
    if is_size(own):
        size: Any = jnp.asarray(own, np.int32)
        scale = (size - 1) / (new - 1) if align_corners and new > 1 else size / new
        return jnp.minimum(jnp.arange(new, dtype=np.float32) * scale, size - 1), size - 1
    scale = np.float32((own - 1) / (new - 1) if align_corners and new > 1 else own / new)
    return np.minimum(np.arange(new, dtype=np.float32) * scale, own - 1), own - 1


@operation
def resize_image_with_pad(
    image: ArrayLike,
    target_height: int,
    target_width: int,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
) -> Array:
    """Resize images within a size, with their ratio, and pad them with zeros to it.

    Args:
        image: An image, or a batch of images.
        target_height: The height with the padding.
        target_width: The width with the padding.
        method: How to resize.
        align_corners: Whether the pixels in the corners keep their values.
    """

    def resize(value: Any, size: Any) -> Any:
        return resize_images(value, size, method, align_corners)

    return _image.resized_with_pad(image, target_height, target_width, resize)
