"""The bytes of a tensor as an array."""

import math
import struct
from collections.abc import Sequence
from typing import Any

import google_crc32c
import numpy as np

from muster._arrays import dtype_named
from muster._records import masked
from muster.checkpoint.tensorflow._bundle import STRING, Entry
from muster.checkpoint.tensorflow._varints import FormatError, read_varint

_CHECKSUM = struct.Struct("<I")


def check_size(entry: Entry) -> None:
    """Check that a tensor has as many bytes as its shape needs, before any memory is taken for it.

    Raises:
        FormatError: It has not.
    """
    count = math.prod(entry.shape)
    if entry.dtype == STRING:
        if entry.size < count:
            raise FormatError(f"{entry.size} bytes cannot hold {count} strings")
        return
    width = dtype_named(entry.dtype).itemsize
    if entry.size != count * width:
        raise FormatError(f"it has {entry.size} bytes, but its shape {entry.shape} needs {count * width}")


def decode_strings(data: bytes, entry: Entry) -> np.ndarray[Any, Any]:
    """Return strings: their lengths as varints, a checksum of those, and their bytes.

    Args:
        data: The bytes of the tensor.
        entry: What the index says about it.

    Returns:
        Python's bytes, as an array of objects.

    Raises:
        FormatError: A checksum does not match, or the bytes are not such strings.
    """
    lengths, at = [], 0
    for _ in range(math.prod(entry.shape)):
        length, at = read_varint(data, at)
        lengths.append(length)
    crc = google_crc32c.value(b"".join(_length_bytes(length) for length in lengths))
    if data[at : at + 4] != _CHECKSUM.pack(masked(crc)):
        raise FormatError("the checksum of its strings' lengths is wrong")
    if masked(google_crc32c.extend(crc, data[at:])) != entry.crc32c:
        raise FormatError("its checksum is wrong")
    at += 4
    if at + sum(lengths) != len(data):
        raise FormatError(f"its strings have {sum(lengths)} bytes, and {len(data) - at} are there")
    array = np.empty(len(lengths), object)
    for index, length in enumerate(lengths):
        array[index] = data[at : at + length]
        at += length
    return array.reshape(entry.shape)


def _length_bytes(length: int) -> bytes:
    return struct.pack("<I" if length < 1 << 32 else "<Q", length)


def join_slices(
    shape: Sequence[int], parts: Sequence[tuple[tuple[slice, ...], np.ndarray[Any, Any]]]
) -> np.ndarray[Any, Any]:
    """Return a divided variable as one array.

    Args:
        shape: The shape of the whole.
        parts: Which part of the whole each array is.

    Raises:
        FormatError: They do not make up the whole, once each.
    """
    held = sum(array.size for _, array in parts)
    if held != math.prod(shape):
        raise FormatError(f"of its {math.prod(shape)} values {held} are there")
    whole = np.empty(shape, parts[0][1].dtype)
    covered = np.zeros(shape, bool)
    for index, array in parts:
        if len(index) != len(shape) or whole[index].shape != array.shape:
            raise FormatError(f"a part of shape {array.shape} does not fit {index} of {tuple(shape)}")
        whole[index] = array
        covered[index] = True
    if not covered.all():
        raise FormatError("its parts do not make up the whole")
    return whole


def rows_of_slices(entry: Entry) -> list[tuple[int, int, Entry]]:
    """Return which rows of a tensor each of its parts has, in order; none if one has no whole rows.

    A tensor that is not divided has one part.
    """
    if not entry.slices:
        return [(0, entry.shape[0], entry)] if entry.shape else []
    found = []
    for part in entry.slices:
        rows, *others = part.indices()
        bounds = [each.indices(size) for each, size in zip(others, entry.shape[1:], strict=False)]
        if bounds != [(0, size, 1) for size in entry.shape[1:]]:
            return []
        start, stop, _ = rows.indices(entry.shape[0])
        found.append((start, stop, part.entry))
    found.sort(key=lambda each: each[0])
    ends = [0, *(stop for _, stop, _ in found)]
    whole = [start for start, _, _ in found] == ends[:-1] and ends[-1] == entry.shape[0]
    fits = all(part.shape == (stop - start, *entry.shape[1:]) for start, stop, part in found)
    return found if whole and fits else []
