"""``tf.contrib.image``: images that are rotated, moved, or transformed by a projection.

Source: tensorflow/contrib/image/python/ops/image_ops.py of TensorFlow 1.15, and
tensorflow/core/kernels/image/image_ops.h.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from muster_tensorflow.library.ops._arrays import ArrayLike, as_array


def rotate(
    images: ArrayLike, angles: ArrayLike, interpolation: str = "NEAREST", name: str | None = None
) -> jax.Array:
    """Rotate images about their centers, counterclockwise; what comes in at the edges is 0.

    Args:
        images: Of shape (batch, rows, columns, channels), (rows, columns, channels) or (rows, columns).
        angles: In radians: one, or one of each image.
        interpolation: ``NEAREST`` or ``BILINEAR``.
        name: Unused.
    """
    rows, columns = _size(jnp.asarray(as_array(images)))
    return transform(images, angles_to_projective_transforms(angles, rows, columns), interpolation)


def translate(
    images: ArrayLike, translations: ArrayLike, interpolation: str = "NEAREST", name: str | None = None
) -> jax.Array:
    """Move images to the right and down; what comes in at the edges is 0.

    Args:
        images: As for `rotate`.
        translations: Pairs ``(right, down)``, in pixels: one, or one of each image.
        interpolation: As for `rotate`.
        name: Unused.
    """
    return transform(images, translations_to_projective_transforms(translations), interpolation)


def angles_to_projective_transforms(
    angles: ArrayLike, image_height: ArrayLike, image_width: ArrayLike, name: str | None = None
) -> jax.Array:
    """Return what `transform` takes to rotate about the center.

    Args:
        angles: In radians: one, or several.
        image_height: In pixels.
        image_width: In pixels.
        name: Unused.

    Returns:
        Float32, shape (number of angles, 8).
    """
    turned = jnp.atleast_1d(jnp.asarray(as_array(angles), "float32"))
    down, right = (jnp.asarray(as_array(each), "float32") - 1 for each in (image_height, image_width))
    cos, sin, zero = jnp.cos(turned), jnp.sin(turned), jnp.zeros_like(turned)
    x = (right - (cos * right - sin * down)) / 2
    y = (down - (sin * right + cos * down)) / 2
    return jnp.stack([cos, -sin, x, sin, cos, y, zero, zero], axis=1)


def translations_to_projective_transforms(translations: ArrayLike, name: str | None = None) -> jax.Array:
    """Return what `transform` takes to move images.

    Args:
        translations: As for `translate`.
        name: Unused.

    Returns:
        Float32, shape (number of translations, 8).
    """
    moved = jnp.atleast_2d(jnp.asarray(as_array(translations), "float32"))
    one, zero = jnp.ones(len(moved)), jnp.zeros(len(moved))
    return jnp.stack([one, zero, -moved[:, 0], zero, one, -moved[:, 1], zero, zero], axis=1)


def transform(
    images: ArrayLike,
    transforms: ArrayLike,
    interpolation: str = "NEAREST",
    output_shape: Sequence[int] | None = None,
    name: str | None = None,
) -> jax.Array:
    """Return images each of whose pixels is that of the given ones to which a projection takes its place.

    The pixel in column ``x`` and row ``y`` is that in column ``(a0 x + a1 y + a2) / k`` and row
    ``(b0 x + b1 y + b2) / k`` of the given image, where ``k = c0 x + c1 y + 1``, and 0 if there is none.

    Args:
        images: As for `rotate`.
        transforms: ``[a0, a1, a2, b0, b1, b2, c0, c1]``: one, or one of each image.
        interpolation: ``NEAREST`` or ``BILINEAR``.
        output_shape: The numbers of rows and columns; None for those of the images.
        name: Unused.

    Raises:
        ValueError: Images have another number of axes, or there is no such interpolation.
    """
    if interpolation not in ("NEAREST", "BILINEAR"):
        raise ValueError(f"interpolation must be NEAREST or BILINEAR, got {interpolation!r}.")
    values = jnp.asarray(as_array(images))
    rows, columns = _size(values)
    height, width = (rows, columns) if output_shape is None else map(int, output_shape)
    batch = values.reshape(len(values) if values.ndim == 4 else 1, rows, columns, -1)
    places = jnp.asarray(as_array(transforms), "float32").reshape(-1, 8)
    places = jnp.broadcast_to(places, (len(batch), 8))
    y, x = jnp.meshgrid(
        jnp.arange(height, dtype="float32"), jnp.arange(width, dtype="float32"), indexing="ij"
    )

    def transformed(image: jax.Array, place: jax.Array) -> jax.Array:
        a0, a1, a2, b0, b1, b2, c0, c1 = place
        k = c0 * x + c1 * y + 1
        column, row = (a0 * x + a1 * y + a2) / k, (b0 * x + b1 * y + b2) / k
        if interpolation == "NEAREST":
            return _at(image, _rounded(row), _rounded(column))
        top, left = jnp.floor(row), jnp.floor(column)
        down, right = (row - top)[..., None], (column - left)[..., None]
        above = _at(image, top, left) * (1 - right) + _at(image, top, left + 1) * right
        below = _at(image, top + 1, left) * (1 - right) + _at(image, top + 1, left + 1) * right
        between: jax.Array = above * (1 - down) + below * down
        return between.astype(image.dtype)

    result: jax.Array = jax.vmap(transformed)(batch, places)
    axes = _axes(values)
    return result.reshape(*values.shape[: values.ndim - len(axes)], height, width, *axes[2:])


def _axes(values: jax.Array) -> tuple[int, ...]:
    """Return the sizes of an image: rows, columns, and channels if there are some."""
    if values.ndim not in (2, 3, 4):
        raise ValueError(f"Images should have between 2 and 4 dimensions, got the shape {values.shape}.")
    return values.shape[-3:] if values.ndim > 2 else values.shape


def _size(values: jax.Array) -> tuple[int, int]:
    rows, columns = _axes(values)[:2]
    return rows, columns


def _rounded(number: jax.Array) -> jax.Array:
    """Round to the nearest integer, halves away from zero."""
    return jnp.sign(number) * jnp.floor(jnp.abs(number) + 0.5)


def _at(image: jax.Array, row: jax.Array, column: jax.Array) -> jax.Array:
    """Return the pixels at places, which are integers, and 0 for those outside of the image."""
    rows, columns = image.shape[:2]
    inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
    found = image[
        jnp.clip(row, 0, rows - 1).astype("int32"), jnp.clip(column, 0, columns - 1).astype("int32")
    ]
    return jnp.where(inside[..., None], found, jnp.zeros([], image.dtype))
