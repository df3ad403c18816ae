"""The framing of event files: TFRecord, with masked CRC-32C checksums.

A record is the length of its data (uint64, little-endian), a checksum of those 8 bytes, the data and
a checksum of the data. Source: tensorflow/core/lib/io/record_writer.cc.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

from .._errors import SummaryError

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reversed
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(map(_table_entry, range(256)))


def crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) of the data. In Python: events are short, a microsecond is 20 bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    # The mask keeps a checksum of data that contains checksums from being weak.
    crc = crc32c(data)
    return _CHECKSUM.pack((crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF)


def frame(data: bytes) -> bytes:
    """Returns the record that holds this data."""
    length = _LENGTH.pack(len(data))
    return length + _masked(length) + data + _masked(data)


def read_records(file: BinaryIO) -> Iterator[bytes]:
    """Yields the data of each record, up to the end or to one that was not written whole.

    Raises:
        SummaryError: A checksum does not match.
    """
    while len(head := file.read(12)) == 12:
        if head[8:] != _masked(head[:8]):
            raise SummaryError(
                f"{file.name} is damaged before byte {file.tell()}: a length's checksum is wrong."
            )
        (length,) = _LENGTH.unpack(head[:8])
        body = file.read(length + 4)
        if len(body) < length + 4:
            return
        if body[length:] != _masked(body[:length]):
            raise SummaryError(
                f"{file.name} is damaged before byte {file.tell()}: a record's checksum is wrong."
            )
        yield body[:length]
