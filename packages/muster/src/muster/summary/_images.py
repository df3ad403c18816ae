"""PNG files of arrays: all that event files need of an image format, by zlib alone."""

import struct
import zlib
from typing import Any

_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}  # channels -> PNG's type: grey, grey and alpha, RGB, RGB and alpha


def encode_images(images: Any, max_outputs: int) -> tuple[int, int, list[bytes]]:
    """Encode the first images of a batch.

    Args:
        images: Shape (batch, height, width, channels) with 1 to 4 channels; uint8, or floating-point numbers
            from 0 to 1, others of which are clipped, or wider integers of uint8's range.
        max_outputs: How many images at most.

    Returns:
        The width, the height, and the PNG files.

    Raises:
        ValueError: The shape is another, or there are less than 0 images asked for.

    Source: tensorboard/plugins/image/summary_v2.py, ``image``.
    """
    import numpy as np

    array = np.asarray(images)
    if array.ndim != 4 or array.shape[3] not in _COLOURS:
        raise ValueError(
            "Images must have the shape (batch, height, width, channels) with 1 to 4 channels, got "
            f"{array.shape}. Reshape them, as to (-1, height, width, 1)."
        )
    if max_outputs < 0:
        raise ValueError(f"max_outputs must be >= 0, not {max_outputs}.")
    array = array[:max_outputs]
    if array.dtype != np.uint8:
        if np.issubdtype(array.dtype, np.integer) or array.dtype == bool:
            array = np.clip(array, 0, 255).astype(np.uint8)
        else:
            numbers = np.nan_to_num(array.astype(np.float64), nan=0.0)
            # As tf.image.convert_image_dtype: 256 equal ranges, the last of which holds 1.0 as well.
            array = np.clip(np.floor(numbers * 255.5), 0, 255).astype(np.uint8)
    return int(array.shape[2]), int(array.shape[1]), [_png(each) for each in array]


def _png(image: Any) -> bytes:
    """Encode one image: uint8, shape (height, width, channels)."""
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in image)  # 0: the row is stored as it is
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
