"""``tf.image.adjust_jpeg_quality`` and others: JPEG artifacts as data augmentation, in input functions."""

from typing import Any

import numpy as np

from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.control._needs_values import known
from muster_tensorflow.library.ops.images._image_colors import convert_image_dtype
from muster_tensorflow.library.ops.random._random import uniform
from muster_tensorflow.library.ops.random._stateless import stateless_uniform
from muster_tensorflow.programs.v2.files._image_files import decode_jpeg, encode_jpeg


@operation
def adjust_jpeg_quality(image: ArrayLike, jpeg_quality: Any, name: str | None = None) -> Any:
    """Encode an image as JPEG of a quality from 0 to 100, and decode it again; in the image's dtype.

    Raises:
        TraceError: A compiled function or a step computes the image.

    Source: tensorflow/python/ops/image_ops_impl.py, ``adjust_jpeg_quality``.
    """
    value = known(as_array(image), "tf.image.adjust_jpeg_quality")
    pixels: Any = convert_image_dtype(value, np.uint8, saturate=True)
    decoded = decode_jpeg(encode_jpeg(pixels, quality=int(jpeg_quality)), channels=value.shape[-1])
    return convert_image_dtype(decoded, value.dtype, saturate=True)


def _checked(least: int, most: int) -> None:
    if not 0 <= least < most <= 100:
        raise ValueError(
            f"Qualities are from 0 to 100, and the greatest above the least one, got {least}, {most}."
        )


@operation
def random_jpeg_quality(
    image: ArrayLike, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Any:
    """Encode an image as JPEG of a random quality, and decode it again."""
    _checked(min_jpeg_quality, max_jpeg_quality)
    return adjust_jpeg_quality(image, uniform((), min_jpeg_quality, max_jpeg_quality, np.int32, seed))


@operation
def stateless_random_jpeg_quality(
    image: ArrayLike, min_jpeg_quality: int, max_jpeg_quality: int, seed: ArrayLike
) -> Any:
    """Encode an image as JPEG of the quality that a seed of two integers says, and decode it again."""
    _checked(min_jpeg_quality, max_jpeg_quality)
    return adjust_jpeg_quality(
        image, stateless_uniform((), seed, min_jpeg_quality, max_jpeg_quality, np.int32)
    )
