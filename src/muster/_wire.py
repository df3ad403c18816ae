"""The encoding of Protocol Buffers: the fields of a message, to bytes and back.

The key of a field is its number and the wire type of its value: 0 varint, 1 eight bytes, 2 bytes with
their length before them, 5 four bytes.
"""

from collections.abc import Iterator


class WireError(Exception):
    """Bytes are no message."""


def number(value: int) -> bytes:
    """A varint of a number that is not negative."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(field: int, value: int) -> bytes:
    """A field that holds a varint."""
    return number(field << 3) + number(value)


def sized(field: int, value: bytes) -> bytes:
    """A field that holds bytes, a text or a message."""
    return number(field << 3 | 2) + number(len(value)) + value


def fields(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yields each field of a message, as `read_field` says it.

    Raises:
        WireError: The data is no message.
    """
    at = 0
    while at < len(data):
        field = read_field(data, at, len(data))
        yield field
        at = field[3]


def read_field(data: bytes, at: int, end: int) -> tuple[int, int, int, int]:
    """The number and the wire type of the field at a place, and where its value begins and ends.

    Args:
        data: holds the message.
        at: where the field begins.
        end: where the message ends.

    Raises:
        WireError: There is no field.
    """
    if at + 2 <= end and (key := data[at]) < 0x80 and key & 7 == 2 and (size := data[at + 1]) < 0x80:
        at += 2  # the usual case: bytes, and their number and length are small
    else:
        key, at = read_number(data, at)
        match key & 7:
            case 0:
                size = read_number(data, at)[1] - at
            case 1:
                size = 8
            case 2:
                size, at = read_number(data, at)
            case 5:
                size = 4
            case wire_type:
                raise WireError(f"a field has wire type {wire_type}, which is not in use.")
    if at + size > end:
        raise WireError(f"it ends after {max(0, end - at)} of a field's {size} bytes.")
    return key >> 3, key & 7, at, at + size


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """The varint at a place, and where it ends.

    Raises:
        WireError: The data ends within it, or it has more than ten bytes.
    """
    value = shift = 0
    try:
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift > 63:
                raise WireError("a number has more than ten bytes.")
    except IndexError as exc:
        raise WireError("it ends within a number.") from exc
