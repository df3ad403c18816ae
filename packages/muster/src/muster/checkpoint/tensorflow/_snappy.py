"""Decompressing snappy blocks.

A block is the length of the data as a varint, and elements: bytes to take as they are, or a copy of bytes
that came before. Source: format_description.txt of google/snappy.
"""

from muster.checkpoint.tensorflow._varints import FormatError, read_varint

# A copy of two bytes makes 11 bytes at most, one of three makes 64.
_MOST_FROM_A_BYTE = 22


def decompress(data: bytes) -> bytes:
    """Return the data of a snappy block.

    Raises:
        FormatError: It is damaged.
    """
    size, at = read_varint(data, 0)
    if size > _MOST_FROM_A_BYTE * len(data):
        raise FormatError(f"a compressed block of {len(data)} bytes cannot hold {size}")
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            length = (tag >> 2) + 1
            if length > 60:
                width = length - 60
                length = int.from_bytes(data[at : at + width], "little") + 1
                at += width
            out += data[at : at + length]
            at += length
        else:
            if tag & 3 == 1:
                length, width, high = (tag >> 2 & 7) + 4, 1, tag >> 5
            else:
                length, width, high = (tag >> 2) + 1, (2 if tag & 3 == 2 else 4), 0
            offset = high << 8 | int.from_bytes(data[at : at + width], "little")
            at += width
            _copy(out, offset, length)
        if at > len(data) or len(out) > size:
            raise FormatError("a compressed block does not end where it should")
    if len(out) != size:
        raise FormatError(f"a compressed block holds {len(out)} bytes, but should hold {size}")
    return bytes(out)


def _copy(out: bytearray, offset: int, length: int) -> None:
    """Append bytes that lie ``offset`` bytes before the end; they repeat if there are fewer."""
    if not 0 < offset <= len(out):
        raise FormatError(f"a compressed block copies from {offset} bytes before its byte {len(out)}")
    start = len(out) - offset
    source = bytes(out[start : start + length])
    out += (source * (length // len(source) + 1))[:length]
