"""Decode variable-length integers, and the error for malformed files."""

_LONGEST = 10


class FormatError(Exception):
    """Bytes are not what the format says. The reader raises it again as an error that names the file."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned integer of 7 bits a byte, the lowest first, and where it ends.

    Args:
        data: The bytes that it is in.
        at: Where it begins.

    Raises:
        FormatError: It is longer than 64 bits, or the bytes end within it.
    """
    value = 0
    for index, byte in enumerate(data[at : at + _LONGEST]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, at + index + 1
    raise FormatError(f"there is no number at byte {at}")
