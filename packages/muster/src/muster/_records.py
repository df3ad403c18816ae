"""The records of TFRecord and event files: a length and data, with masked CRC-32C checksums.

A record is the length of its data (uint64, little-endian), a checksum of those 8 bytes, the data and
a checksum of the data. Source: tensorflow/core/lib/io/record_writer.cc, record_reader.cc.
"""

import struct
from io import BufferedReader
from typing import BinaryIO

import google_crc32c

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEAD = struct.Struct("<QI")  # the length and its checksum
_ONES, _MASK = 0xFFFFFFFF, 0xA282EAD8
_MANY = 16  # records: to look at the buffer takes as long as to read a few of them one by one


class RecordError(Exception):
    """A record is damaged. Readers raise it again as an error that names the file.

    Args:
        offset: Where the record begins, in bytes from the start of the file.
        reason: The damage, as a sentence.
        cut_off: Whether the file ends within the record.
    """

    def __init__(self, offset: int, reason: str, cut_off: bool = False) -> None:
        super().__init__(f"The record at byte {offset} is damaged: {reason}")
        self.cut_off = cut_off


def masked(crc: int) -> int:
    """Return a checksum in the form in which TensorFlow stores it.

    The mask keeps a checksum of data that contains checksums from being weak. Source:
    tensorflow/tsl/lib/hash/crc32c.h, ``Mask``.
    """
    return (crc >> 15 | crc << 17) + _MASK & _ONES


def _masked(data: bytes) -> bytes:
    return _CHECKSUM.pack(masked(google_crc32c.value(data)))


def frame(data: bytes) -> bytes:
    """Return the record that holds `data`."""
    length = _LENGTH.pack(len(data))
    return length + _masked(length) + data + _masked(data)


def read_record(file: BinaryIO) -> bytes | None:
    """Return the data of the next record, or None at the end of the file.

    Raises:
        RecordError: A checksum does not match, or the record is incomplete.
    """
    length = _read_length(file)
    if length is None:
        return None
    body = file.read(length + 4)
    if len(body) < length + 4:
        reason = f"the file ends after {len(body)} of {length + 4} bytes."
        raise RecordError(file.tell() - len(body) - _HEAD.size, reason, cut_off=True)
    data = body[:length]
    if masked(google_crc32c.value(data)) != _CHECKSUM.unpack_from(body, length)[0]:
        raise RecordError(file.tell() - len(body) - _HEAD.size, "its checksum is wrong.")
    return data


def read_records(file: BufferedReader, count: int) -> list[bytes]:
    """Return the data of the next records; there are fewer at the end of the file.

    Raises:
        RecordError: As by `read_record`.
    """
    records: list[bytes] = []
    while len(records) < count:
        if count - len(records) >= _MANY:
            records += _buffered_records(file, count - len(records))
            if len(records) == count:
                break
        if (record := read_record(file)) is None:  # one that the buffer has not all of, too
            break
        records.append(record)
    return records


def _buffered_records(file: BufferedReader, count: int) -> list[bytes]:
    """Return the data of the next records, as far as a file's buffer has them, and has them undamaged."""
    records: list[bytes] = []
    lengths: dict[bytes, int] = {}  # those of records repeat
    ahead, at = file.peek(), 0
    # Local names, since a record takes about a microsecond.
    length_of, value, stored = lengths.get, google_crc32c.value, _CHECKSUM.unpack_from
    head_size, size, mask, ones = _HEAD.size, len(ahead) - _CHECKSUM.size, _MASK, _ONES
    for _ in range(count):
        begin = at + head_size
        head = ahead[at:begin]
        length = length_of(head)
        if length is None:
            if len(head) < head_size:
                break
            length, checksum = _HEAD.unpack(head)
            if masked(value(head[: _LENGTH.size])) != checksum:
                break
            lengths[head] = length
        end = begin + length
        if end > size:
            break
        data = ahead[begin:end]
        crc = value(data)
        if (crc >> 15 | crc << 17) + mask & ones != stored(ahead, end)[0]:
            break
        records.append(data)
        at = end + _CHECKSUM.size
    file.read(at)
    return records


def skip_record(file: BinaryIO, size: int) -> bool:
    """Skip the next record without reading its data; return whether there was one.

    Args:
        file: A seekable file.
        size: The size of the file, in bytes.

    Raises:
        RecordError: The length is damaged, or the record is incomplete.
    """
    offset = file.tell()
    length = _read_length(file)
    if length is None:
        return False
    if offset + 16 + length > size:
        raise RecordError(offset, f"the file ends within its {length} bytes.", cut_off=True)
    file.seek(length + 4, 1)
    return True


def _read_length(file: BinaryIO) -> int | None:
    head = file.read(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size:
        reason = f"the file ends after {len(head)} bytes of its length."
        raise RecordError(file.tell() - len(head), reason, cut_off=True)
    length, checksum = _HEAD.unpack(head)
    if masked(google_crc32c.value(head[: _LENGTH.size])) != checksum:
        raise RecordError(file.tell() - len(head), "its length's checksum is wrong.")
    size: int = length
    return size
