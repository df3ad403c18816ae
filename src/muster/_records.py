"""The framing of TFRecord and event files: lengths and data, with masked CRC-32C checksums.

A record is the length of its data (uint64, little-endian), a checksum of those 8 bytes, the data and
a checksum of the data. Source: tensorflow/core/lib/io/record_writer.cc, record_reader.cc.
"""

import functools
import struct
from typing import Any, BinaryIO

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reversed
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_ONES = 0xFFFFFFFF
# Below so many bytes, a loop in Python is faster than NumPy.
_SHORT = 128
# How many bytes are looked up at a time, and how many such blocks.
_BLOCK = 1024
_BLOCKS = 32


class RecordError(Exception):
    """A record cannot be read. Who reads the file says which one it is, as an error of muster's own.

    Args:
        offset: where the record begins, in bytes from the start of the file.
        reason: what is wrong, as a sentence.
        cut_off: whether the file ends within the record.
    """

    def __init__(self, offset: int, reason: str, cut_off: bool = False) -> None:
        super().__init__(f"The record at byte {offset} is damaged: {reason}")
        self.cut_off = cut_off


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(map(_table_entry, range(256)))


def crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) of the data.

    A byte's share in the checksum depends on its value and on how many bytes follow, and the shares are
    added modulo 2: all of a block are looked up at once.
    """
    return (_short(data) if len(data) < _SHORT else _long(data)) ^ _ONES


def _short(data: bytes) -> int:
    crc = _ONES
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


def _long(data: bytes) -> int:
    import numpy as np  # not for the short records of event files

    shares, places, tables = _shares()
    array = np.frombuffer(data, np.uint8)
    head = len(data) % _BLOCK
    if head < _SHORT:
        crc = _short(data[:head])
    else:
        first = array[:head].astype(np.intp)
        first[:4] ^= 0xFF
        # Its end is that of a block, so that its shares are those of the table.
        crc = int(np.bitwise_xor.reduce(shares.take(first + places[_BLOCK - head :])))
    for start in range(head, len(data), _BLOCK * _BLOCKS):
        blocks = array[start : start + _BLOCK * _BLOCKS].reshape(-1, _BLOCK) + places
        for share in np.bitwise_xor.reduce(shares.take(blocks), axis=1).tolist():
            a, b, c, d = tables
            crc = a[crc & 0xFF] ^ b[crc >> 8 & 0xFF] ^ c[crc >> 16 & 0xFF] ^ d[crc >> 24] ^ share
    return crc


@functools.cache
def _shares() -> tuple[Any, Any, list[list[int]]]:
    """The shares of bytes by how many follow, where those of each place in a block begin, and those of the
    four bytes of a checksum that a whole block follows."""
    import numpy as np

    first = np.array(_TABLE, np.uint32)
    followed = np.empty((_BLOCK, 256), np.uint32)
    followed[0] = first
    for count in range(1, _BLOCK):
        followed[count] = followed[count - 1] >> 8 ^ first[followed[count - 1] & 0xFF]
    places = np.arange(_BLOCK - 1, -1, -1, dtype=np.intp) * 256
    return followed.reshape(-1), places, followed[_BLOCK - 1 : _BLOCK - 5 : -1].tolist()


def _masked(data: bytes) -> bytes:
    # The mask keeps a checksum of data that contains checksums from being weak.
    crc = crc32c(data)
    return _CHECKSUM.pack((crc >> 15 | crc << 17) + 0xA282EAD8 & _ONES)


def frame(data: bytes) -> bytes:
    """Returns the record that holds this data."""
    length = _LENGTH.pack(len(data))
    return length + _masked(length) + data + _masked(data)


def read_record(file: BinaryIO) -> bytes | None:
    """Returns the data of the next record; None at the end of the file.

    Raises:
        RecordError: A checksum does not match, or the record was not written whole.
    """
    offset = file.tell()
    length = _read_length(file, offset)
    if length is None:
        return None
    body = file.read(length + 4)
    if len(body) < length + 4:
        raise RecordError(offset, f"the file ends after {len(body)} of {length + 4} bytes.", cut_off=True)
    data = body[:length]
    if body[length:] != _masked(data):
        raise RecordError(offset, "its checksum is wrong.")
    return data


def skip_record(file: BinaryIO, size: int) -> bool:
    """Passes over the next record without looking at its data. Returns whether there was one.

    Args:
        file: can seek.
        size: the size of the file, in bytes.

    Raises:
        RecordError: Its length is damaged, or the record was not written whole.
    """
    offset = file.tell()
    length = _read_length(file, offset)
    if length is None:
        return False
    if offset + 16 + length > size:
        raise RecordError(offset, f"the file ends within its {length} bytes.", cut_off=True)
    file.seek(length + 4, 1)
    return True


def _read_length(file: BinaryIO, offset: int) -> int | None:
    head = file.read(12)
    if not head:
        return None
    if len(head) < 12:
        raise RecordError(offset, f"the file ends after {len(head)} bytes of its length.", cut_off=True)
    if head[8:] != _masked(head[:8]):
        raise RecordError(offset, "its length's checksum is wrong.")
    length: int = _LENGTH.unpack_from(head)[0]
    return length
