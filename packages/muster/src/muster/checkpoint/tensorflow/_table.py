"""Reading a sorted string table: the form of a checkpoint's index.

A table is blocks of sorted keys and their values, a block that says where those lie, and a footer that says
where that one is. A key leaves out what it shares with the key before. Each block is followed by one byte for
its compression and a masked CRC-32C. Source: tensorflow/tsl/lib/io/format.cc, table.cc and block.cc.
"""

import struct
from collections.abc import Iterator

import google_crc32c

from muster._records import masked
from muster.checkpoint.tensorflow._snappy import decompress
from muster.checkpoint.tensorflow._varints import FormatError, read_varint

FOOTER_SIZE = 48
_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
_TRAILER = struct.Struct("<BI")
_COUNT = struct.Struct("<I")
_PLAIN, _SNAPPY = 0, 1


def is_table(data: bytes) -> bool:
    """Return whether a file's last bytes are those of a table."""
    return len(data) >= FOOTER_SIZE and data.endswith(_MAGIC)


def read_table(data: bytes) -> dict[bytes, bytes]:
    """Return the keys and values of a table, in the order of the keys.

    Args:
        data: All bytes of the file.

    Raises:
        FormatError: A checksum does not match, or the bytes are not a table.
    """
    if not is_table(data):
        raise FormatError("it does not end as a table does: it is cut off, or is something else")
    footer = data[-FOOTER_SIZE:]
    _, _, at = _handle(footer, 0)  # of a block that no reader needs
    start, size, _ = _handle(footer, at)
    table: dict[bytes, bytes] = {}
    last = None
    for _, handle in _entries(_block(data, start, size)):
        start, size, _ = _handle(handle, 0)
        for key, value in _entries(_block(data, start, size)):
            # Blocks that come twice would let a small file become a large table.
            if last is not None and key <= last:
                raise FormatError(f"its keys are not in order at {key!r}")
            table[key] = value
            last = key
    return table


def _handle(data: bytes, at: int) -> tuple[int, int, int]:
    """Return where a block begins, its size, and where this handle ends."""
    start, at = read_varint(data, at)
    size, at = read_varint(data, at)
    return start, size, at


def _block(data: bytes, start: int, size: int) -> bytes:
    end = start + size
    if end + _TRAILER.size > len(data) - FOOTER_SIZE:
        raise FormatError(f"its block at byte {start} would end after the file")
    kind, checksum = _TRAILER.unpack_from(data, end)
    if masked(google_crc32c.value(data[start : end + 1])) != checksum:
        raise FormatError(f"the checksum of its block at byte {start} is wrong")
    if kind not in (_PLAIN, _SNAPPY):
        raise FormatError(f"its block at byte {start} has the unknown compression {kind}")
    block = data[start:end]
    return decompress(block) if kind == _SNAPPY else block


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block.

    It ends with where those keys begin that are stored whole, and how many those are: for a search.
    """
    end = len(block) - _COUNT.size
    if end >= 0:
        end -= _COUNT.size * _COUNT.unpack_from(block, end)[0]
    if end < 0:
        raise FormatError("a block is too short for what it holds")
    key, at = b"", 0
    while at < end:
        shared, at = read_varint(block, at)
        own, at = read_varint(block, at)
        length, at = read_varint(block, at)
        if shared > len(key) or at + own + length > end:
            raise FormatError("an entry of a block would end after it")
        key = key[:shared] + block[at : at + own]
        at += own
        yield key, block[at : at + length]
        at += length
