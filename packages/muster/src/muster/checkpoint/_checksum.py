"""JSON objects whose first line is their checksum: manifests of checkpoints and of saved models."""

import zlib

_FIRST_LINE = b'{"crc32": "%08x",'


def with_checksum(rest: bytes) -> bytes:
    """Return a JSON object whose first line holds the CRC-32 of every byte after it.

    Args:
        rest: What follows: a JSON object without its opening brace.
    """
    return _FIRST_LINE % zlib.crc32(rest) + b"\n" + rest


def without_checksum(data: bytes) -> bytes | None:
    """Return the JSON object that `with_checksum` was given; None if the bytes have changed since."""
    first, _, rest = data.partition(b"\n")
    return b"{" + rest if first == _FIRST_LINE % zlib.crc32(rest) else None
