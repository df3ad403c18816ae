"""Images in files: ``tf.io.decode_png`` and its like, by Pillow, in input functions."""

import io
import os
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from muster.extend import extra_module, local_path

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def pillow() -> Any:
    """Import Pillow's ``Image``.

    Raises:
        ImportError: Pillow is not installed; says how to install it.
    """
    return extra_module("PIL.Image", "images", "An image file", "muster-tensorflow")


def decode_png(
    contents: bytes, channels: int = 0, dtype: DTypeLike = np.uint8, name: str | None = None
) -> np.ndarray[Any, Any]:
    """Decode an image file of any format that Pillow knows.

    Args:
        contents: The bytes of the file.
        channels: 1 for grey, 3 for RGB, 4 for RGBA; 0 for as many as the file has.
        dtype: uint8, or uint16 for grey PNG of 16 bits.
        name: Ignored.

    Returns:
        Shape (height, width, channels).

    Raises:
        TypeError: `contents` is not bytes.
        ValueError: The bytes are no image, or `channels` is another number.

    Source: tensorflow/core/kernels/image/decode_image_op.cc.
    """
    if channels not in (0, *_MODES):
        raise ValueError(f"channels is 0, 1, 2, 3 or 4, got {channels!r}.")
    image_module = pillow()
    image = _opened(contents)
    try:
        image.load()
    except OSError as exc:
        raise ValueError(f"These {len(contents)} bytes are no image that Pillow can read: {exc}.") from exc
    wide = image.mode.startswith("I")  # 16 bits of grey
    if wide and np.dtype(dtype) == np.uint16:
        return np.asarray(image).astype(np.uint16)[..., None]
    if wide:
        image = image_module.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if channels == 0:
        kept = {"1": "L", "L": "L", "LA": "LA", "RGBA": "RGBA"}
        mode = "RGBA" if "transparency" in image.info else kept.get(image.mode, "RGB")
    else:
        mode = _MODES[channels]
    pixels = np.asarray(image.convert(mode))
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    return pixels.astype(np.uint16) * 257 if np.dtype(dtype) == np.uint16 else pixels


def decode_jpeg(
    contents: bytes,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> np.ndarray[Any, Any]:
    """Decode an image file, as `decode_png` does; ``ratio`` leaves out rows and columns."""
    return decode_png(contents, channels)[::ratio, ::ratio]


def extract_jpeg_shape(
    contents: bytes, output_type: DTypeLike = np.int32, name: str | None = None
) -> np.ndarray[Any, Any]:
    """Return the height, the width and the channels of a JPEG file, without decoding it.

    Raises:
        TypeError: `contents` is not bytes.
        ValueError: The bytes are no JPEG file.

    Source: tensorflow/core/kernels/extract_jpeg_shape_op.cc.
    """
    image = _opened(contents)
    if image.format != "JPEG":
        raise ValueError(f"Invalid JPEG data, size {len(contents)}")
    return np.asarray([image.height, image.width, len(image.getbands())], output_type)


def _opened(contents: bytes) -> Any:
    """Open an image file, whose pixels are not read yet."""
    if not isinstance(contents, bytes):
        raise TypeError(
            f"An image is decoded from the bytes of its file, as tf.io.read_file returns, got {contents!r} "
            f"of type {type(contents).__name__}."
        )
    try:
        return pillow().open(io.BytesIO(contents))
    except OSError as exc:
        raise ValueError(f"These {len(contents)} bytes are no image that Pillow can read: {exc}.") from exc


def decode_image(
    contents: bytes,
    channels: int = 0,
    dtype: DTypeLike = np.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> np.ndarray[Any, Any]:
    """Decode an image file, as `decode_png` does; with ``expand_animations`` all images of a GIF file.

    With a type of floats, values are from 0 to 1.

    Returns:
        Shape (height, width, channels), or of a GIF file (images, height, width, 3).
    """
    if expand_animations and isinstance(contents, bytes) and contents.startswith(b"GIF"):
        if channels not in (0, 3):
            raise ValueError(f"channels is 0 or 3 for a GIF file, got {channels!r}.")
        images = decode_gif(contents)
    else:
        images = decode_png(contents, channels)
    if np.issubdtype(np.dtype(dtype), np.floating):
        return (images / 255).astype(dtype)
    return images.astype(np.uint16) * 257 if np.dtype(dtype) == np.uint16 else images


def decode_and_crop_jpeg(
    contents: bytes,
    crop_window: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> np.ndarray[Any, Any]:
    """Decode a part of an image file: ``crop_window`` is its first row and column, its height and width."""
    top, left, height, width = (int(each) for each in np.ravel(np.asarray(crop_window)))
    return decode_jpeg(contents, channels, ratio)[top : top + height, left : left + width]


def decode_gif(contents: bytes, name: str | None = None) -> np.ndarray[Any, Any]:
    """Decode the images of a GIF file.

    Returns:
        uint8 of shape (images, height, width, 3).

    Raises:
        ValueError: The bytes are no GIF file.
    """
    image_module = pillow()
    try:
        image = image_module.open(io.BytesIO(contents), formats=["GIF"])
    except OSError as exc:
        raise ValueError(f"These {len(contents)} bytes are no GIF file: {exc}.") from exc
    frames = []
    for number in range(image.n_frames):
        image.seek(number)
        frames.append(np.asarray(image.convert("RGB")))
    return np.stack(frames)


def is_jpeg(contents: bytes, name: str | None = None) -> bool:
    """Return whether the bytes of a file are those of a JPEG image."""
    return bytes(contents[:3]) == b"\xff\xd8\xff"


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> bytes:
    """Return the bytes of a PNG file of an image: uint8 of shape (height, width, channels)."""
    return _encoded(image, "PNG")


def encode_jpeg(
    image: Any,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> bytes:
    """Return the bytes of a JPEG file of an image.

    Args:
        image: uint8 of shape (height, width, 1 or 3).
        format: Unused: the channels say it.
        quality: From 1 to 100.
        progressive: Whether it can be shown roughly before all of it is there.
        optimize_size: Whether to take longer to make it smaller.
        chroma_downsampling: Whether colors have half the pixels.
        density_unit: ``"in"`` or ``"cm"``, of the densities.
        x_density: Pixels of a row in a unit.
        y_density: Pixels of a column in a unit.
        xmp_metadata: Text to store, as it is.
        name: Unused.
    """
    inch = 2.54 if density_unit == "cm" else 1
    return _encoded(
        image,
        "JPEG",
        quality=quality,
        progressive=progressive,
        optimize=optimize_size,
        subsampling=2 if chroma_downsampling else 0,
        dpi=(round(x_density * inch), round(y_density * inch)),
        **({"xmp": xmp_metadata.encode()} if xmp_metadata else {}),
    )


def _encoded(image: Any, kind: str, **options: Any) -> bytes:
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[-1] not in _MODES:
        raise ValueError(
            "An image is uint8 of shape (height, width, channels), with 1 to 4 channels; got "
            f"{pixels.dtype} of shape {pixels.shape}."
        )
    file = io.BytesIO()
    pillow().fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, kind, **options)
    return file.getvalue()


def read_image(
    path: str | os.PathLike[str], channels: int, size: tuple[int, int], interpolation: str, fit: str | None
) -> np.ndarray[Any, Any]:
    """Read an image file, and resize it.

    Args:
        path: The file.
        channels: 1, 3 or 4.
        size: Height and width.
        interpolation: ``bilinear`` and ``nearest`` are TensorFlow's; others Pillow's.
        fit: ``crop`` or ``pad`` to keep the image's proportions; None stretches it.

    Returns:
        float32 of shape (*size, channels).
    """
    with open(local_path(path), "rb") as file:
        pixels = decode_png(file.read(), channels)
    height, width = pixels.shape[:2]
    if fit == "crop":
        high, wide = min(height, width * size[0] // size[1]), min(width, height * size[1] // size[0])
        top, left = (height - high) // 2, (width - wide) // 2
        pixels = pixels[top : top + high, left : left + wide]
    elif fit == "pad":
        high, wide = max(height, width * size[0] // size[1]), max(width, height * size[1] // size[0])
        top, left = (high - height) // 2, (wide - width) // 2
        pixels = np.pad(pixels, ((top, high - height - top), (left, wide - width - left), (0, 0)))
    return _resized(pixels, size, interpolation)


def _resized(pixels: np.ndarray[Any, Any], size: tuple[int, int], interpolation: str) -> np.ndarray[Any, Any]:
    if pixels.shape[:2] == tuple(size):
        return pixels.astype(np.float32)
    if interpolation not in ("bilinear", "nearest"):
        image_module = pillow()
        kinds = {"bicubic": "BICUBIC", "area": "BOX", "lanczos3": "LANCZOS", "lanczos5": "LANCZOS"}
        if interpolation not in kinds:
            raise ValueError(
                f"interpolation is bilinear, nearest, or one of {sorted(kinds)}; got {interpolation!r}."
            )
        kind = image_module.Resampling[kinds[interpolation]]
        planes = [
            np.asarray(image_module.fromarray(plane).resize(tuple(size)[::-1], kind))
            for plane in pixels.astype(np.float32).transpose(2, 0, 1)
        ]
        return np.stack(planes, axis=-1)
    resized = pixels.astype(np.float32)
    for axis, wanted in enumerate(size):
        length = resized.shape[axis]
        centers = (np.arange(wanted) + 0.5) * length / wanted
        if interpolation == "nearest":
            resized = resized.take(np.floor(centers).astype(int), axis)
            continue
        places = np.clip(centers - 0.5, 0, length - 1)
        low = np.floor(places).astype(int)
        part = (places - low).astype(np.float32).reshape([-1 if each == axis else 1 for each in range(3)])
        high = np.minimum(low + 1, length - 1)
        resized = resized.take(low, axis) * (1 - part) + resized.take(high, axis) * part
    return resized
