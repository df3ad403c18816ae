"""``tf.image``: sizes and places of images, of shape (height, width, channels) or with a batch before."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster_tensorflow.library.ops._arrays import (
    Array,
    ArrayLike,
    apply,
    array_module,
    as_array,
    as_shape,
    is_size,
)
from muster_tensorflow.library.ops._operation import operation

_METHODS = {
    "bilinear": "linear",
    "nearest": "nearest",
    "bicubic": "cubic",
    "lanczos3": "lanczos3",
    "lanczos5": "lanczos5",
}


class ResizeMethod:
    """The names of ways to resize images."""

    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    AREA = "area"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    GAUSSIAN = "gaussian"
    MITCHELLCUBIC = "mitchellcubic"


@operation
def resize(
    images: ArrayLike,
    size: ArrayLike,
    method: str = ResizeMethod.BILINEAR,
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> Array:
    """Resize images to ``size``, a height and a width; in float32, but for ``"nearest"``.

    Args:
        images: The images.
        size: Two integers.
        method: ``"bilinear"``, ``"nearest"``, ``"bicubic"``, ``"lanczos3"``, ``"lanczos5"``, or ``"area"``,
            the mean of the pixels, of which those at borders count by their share.
        preserve_aspect_ratio: Whether to keep the ratio, and stay within the size.
        antialias: Whether to smooth images that become smaller.
        name: Unused.

    Source: tensorflow/python/ops/image_ops_impl.py, ``resize_images_v2``.
    """
    values = jnp.asarray(as_array(images))
    height, width = as_shape(size)
    if preserve_aspect_ratio:
        own = values.shape[-3:-1]
        scale = min(height / own[0], width / own[1])
        height, width = (round(each * scale) for each in own)
    if (height, width) == values.shape[-3:-1]:
        return values if method == "nearest" else values.astype(jnp.float32)
    shape = (*values.shape[:-3], height, width, values.shape[-1])
    if method == "nearest":
        rows, columns = (
            _nearest(new, own) for new, own in zip(shape[-3:-1], values.shape[-3:-1], strict=True)
        )
        return values[..., rows[:, None], columns, :]
    if method == "area":
        return _means(values, shape)
    if method not in _METHODS:
        raise ValueError(f"method is one of {sorted([*_METHODS, 'area'])}, got {method!r}.")
    return jax.image.resize(values.astype(jnp.float32), shape, _METHODS[method], antialias=antialias)  # type: ignore[no-any-return]


def _nearest(new: int, own: Any) -> Any:
    size, module = _known_or_traced(own)
    places = module.floor((np.arange(new) + 0.5) * (size / new)).astype(np.int32)
    return module.minimum(places, size - 1).astype(np.int32)


def _known_or_traced(own: Any) -> tuple[Any, Any]:
    """Return a size to compute with, and NumPy or JAX for it: JAX if it is unknown, as in exported models."""
    return (jnp.asarray(own, np.float32), jnp) if is_size(own) else (own, np)


def _means(values: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    rows, columns = (_shares(*each) for each in zip(shape[-3:-1], values.shape[-3:-1], strict=True))
    return jnp.einsum("...hwc,ih,jw->...ijc", values.astype(jnp.float32), rows, columns, precision="highest")


def _shares(new: int, own: Any) -> Any:
    """Return what each place of an axis has of each new one, which are (new, own) shares."""
    size, module = _known_or_traced(own)
    ends = np.arange(new + 1) * (size / new)
    places = module.arange(own)
    overlaps = module.minimum(ends[1:, None], places + 1) - module.maximum(ends[:-1, None], places)
    return (module.maximum(overlaps, 0) * (new / size)).astype(np.float32)


@operation
def crop_to_bounding_box(
    image: ArrayLike, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Array:
    """Return the part of images of a size that begins at an offset."""
    value: Any = as_array(image)
    starts, sizes = (offset_height, offset_width), as_shape((target_height, target_width))
    if not any(isinstance(start, jax.core.Tracer) for start in starts):
        (top, left), own = as_shape(starts), value.shape[-3:-1]
        for start, size, full in zip((top, left), sizes, own, strict=True):
            if start < 0 or size <= 0 or start + size > full:
                raise ValueError(
                    f"The box at {(top, left)} of size {sizes} is not within images of size {own}."
                )
        return value[..., top : top + sizes[0], left : left + sizes[1], :]  # type: ignore[no-any-return]
    before = (0,) * (value.ndim - 3)
    shape = (*value.shape[:-3], *sizes, value.shape[-1])
    return jax.lax.dynamic_slice(jnp.asarray(value), (*before, *starts, 0), shape)


@operation
def pad_to_bounding_box(
    image: ArrayLike, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Array:
    """Return images of a size with zeros around the given ones, which begin at an offset."""
    value = as_array(image)
    margins = [
        (start, target - start - size)
        for start, target, size in zip(
            as_shape((offset_height, offset_width)),
            as_shape((target_height, target_width)),
            value.shape[-3:-1],
            strict=True,
        )
    ]
    if min(map(min, margins)) < 0:
        raise ValueError(
            f"Images of size {value.shape[-3:-1]} do not fit into {(target_height, target_width)}."
        )
    return apply("pad", value, pad_width=[*[(0, 0)] * (value.ndim - 3), *margins, (0, 0)])


@operation
def central_crop(image: ArrayLike, central_fraction: float) -> Array:
    """Return the middle of images, of a fraction of their height and width."""
    value = as_array(image)
    if not 0 < central_fraction <= 1:
        raise ValueError(f"central_fraction is in (0, 1], got {central_fraction!r}.")
    starts = [int((size - size * central_fraction) / 2) for size in value.shape[-3:-1]]
    sizes = [size - 2 * start for size, start in zip(value.shape[-3:-1], starts, strict=True)]
    return crop_to_bounding_box(value, *starts, *sizes)


@operation
def resize_with_crop_or_pad(image: ArrayLike, target_height: int, target_width: int) -> Array:
    """Crop the middle of images, or pad them with zeros, to a size."""
    value = as_array(image)
    wanted = as_shape((target_height, target_width))
    own = value.shape[-3:-1]
    cut = [max(size - target, 0) // 2 for size, target in zip(own, wanted, strict=True)]
    kept = [min(size, target) for size, target in zip(own, wanted, strict=True)]
    margin = [max(target - size, 0) // 2 for size, target in zip(own, wanted, strict=True)]
    return pad_to_bounding_box(crop_to_bounding_box(value, *cut, *kept), *margin, *wanted)


@operation
def resize_with_pad(
    image: ArrayLike,
    target_height: int,
    target_width: int,
    method: str = ResizeMethod.BILINEAR,
    antialias: bool = False,
) -> Array:
    """Resize images within a size, with their ratio, and pad them with zeros to it."""
    return resized_with_pad(
        image,
        target_height,
        target_width,
        lambda value, size: resize(value, size, method, antialias=antialias),
    )


def resized_with_pad(
    image: ArrayLike, target_height: int, target_width: int, resize: Callable[[Any, list[int]], Any]
) -> Array:
    """Do as `resize_with_pad`, by a function that resizes images to a height and a width."""
    value = as_array(image)
    height, width = value.shape[-3:-1]
    targets = np.array([target_height, target_width], np.float32)
    exact = np.array([height, width], np.float32)
    exact /= np.max(exact / targets)
    resized = resize(value, exact.astype(int).tolist())
    top, left = np.maximum((targets - exact) // 2, 0).astype(int).tolist()
    return pad_to_bounding_box(resized, top, left, target_height, target_width)


@operation
def crop_and_resize(
    image: ArrayLike,
    boxes: ArrayLike,
    box_indices: ArrayLike,
    crop_size: ArrayLike,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
) -> Array:
    """Cut boxes, (top, left, bottom, right) in fractions, out of a batch's images, and resize each to a size.

    Source: tensorflow/python/ops/image_ops_impl.py, ``crop_and_resize_v2``.
    """
    values = jnp.asarray(as_array(image)).astype(jnp.float32)
    edges, which = jnp.asarray(as_array(boxes)), jnp.asarray(as_array(box_indices))
    sizes = as_shape(crop_size)

    def places(low: Any, high: Any, own: int, size: int) -> Any:
        if size == 1:
            return (0.5 * (low + high) * (own - 1))[None]
        return low * (own - 1) + jnp.arange(size) * (high - low) * (own - 1) / (size - 1)

    def cut(box: Any, index: Any) -> Any:
        rows = places(box[0], box[2], values.shape[1], sizes[0])
        columns = places(box[1], box[3], values.shape[2], sizes[1])
        return _sampled(values[index], rows[:, None], columns, method, extrapolation_value)

    return jax.vmap(cut)(edges, which)  # type: ignore[no-any-return]


def _sampled(picture: Any, rows: Any, columns: Any, method: str, outside: float) -> Any:
    height, width = picture.shape[:2]
    rows, columns = jnp.broadcast_arrays(rows, columns)
    inside = (rows >= 0) & (rows <= height - 1) & (columns >= 0) & (columns <= width - 1)
    if method == "nearest":
        found = picture[jnp.floor(rows + 0.5).astype(int), jnp.floor(columns + 0.5).astype(int)]
    else:
        top, left = jnp.floor(rows).astype(int), jnp.floor(columns).astype(int)
        down, right = (rows - top)[..., None], (columns - left)[..., None]
        bottom, end = jnp.minimum(top + 1, height - 1), jnp.minimum(left + 1, width - 1)
        upper = picture[top, left] * (1 - right) + picture[top, end] * right
        lower = picture[bottom, left] * (1 - right) + picture[bottom, end] * right
        found = upper * (1 - down) + lower * down
    return jnp.where(inside[..., None], found, outside)


def _flip(name: str, axis: int) -> Callable[..., Array]:
    def flip(image: ArrayLike) -> Array:
        return apply("flip", as_array(image), axis=axis)

    flip.__name__ = flip.__qualname__ = name
    flip.__doc__ = f"Reverse images along the {'columns' if axis == -2 else 'rows'}."
    return operation(flip)


flip_left_right = _flip("flip_left_right", -2)
flip_up_down = _flip("flip_up_down", -3)


@operation
def transpose(image: ArrayLike, name: str | None = None) -> Array:
    """Swap the rows and columns of images."""
    return as_array(image).swapaxes(-3, -2)


@operation
def rot90(image: ArrayLike, k: int = 1, name: str | None = None) -> Array:
    """Turn images by 90 degrees, ``k`` times, against the clock."""
    value = as_array(image)
    if isinstance(k, jax.core.Tracer):
        turns = [lambda value=value, i=i: jnp.rot90(value, i, axes=(-3, -2)) for i in range(4)]
        return jax.lax.switch(k % 4, turns)
    return array_module(value).rot90(value, int(k), axes=(-3, -2))


@operation
def extract_patches(
    images: ArrayLike,
    sizes: Sequence[int],
    strides: Sequence[int],
    rates: Sequence[int],
    padding: str,
    name: str | None = None,
) -> Array:
    """Return patches of a batch's images: (batch, rows, columns, height * width * channels of a patch).

    Args:
        images: Of shape (batch, height, width, channels).
        sizes: ``[1, height, width, 1]`` of patches.
        strides: ``[1, rows, columns, 1]`` from one patch to the next.
        rates: ``[1, rows, columns, 1]`` from one pixel of a patch to the next.
        padding: ``"VALID"`` or ``"SAME"``.
        name: Unused.

    Source: tensorflow/python/ops/array_ops.py, ``extract_image_patches_v2``.
    """
    values = jnp.asarray(as_array(images))
    channels = values.shape[-1]
    patches = jax.lax.conv_general_dilated_patches(
        jnp.moveaxis(values, -1, 1),
        tuple(sizes[1:3]),
        tuple(strides[1:3]),
        padding,
        rhs_dilation=tuple(rates[1:3]),
        precision=jax.lax.Precision.HIGHEST,
    )
    batch, _, rows, columns = patches.shape
    split = patches.reshape(batch, channels, sizes[1] * sizes[2], rows, columns)
    return split.transpose(0, 3, 4, 2, 1).reshape(batch, rows, columns, -1).astype(values.dtype)
