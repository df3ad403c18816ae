"""Sample texts on which functions of text are tried at export, before there are requests."""

import base64
import struct
import zlib


def sample_texts() -> list[tuple[bytes, bytes]]:
    """Return texts of two examples, by what they may be.

    They are words, whose numbers differ, also from the sizes of other axes that are tried; numbers; images of
    two sizes; the same in base64; and bytes that may be numbers of any width.
    """
    images = _png(2, 3), _png(4, 5)
    in_base64 = [base64.urlsafe_b64encode(image).rstrip(b"=") for image in images]
    return [
        (b"a b c d", b"a b c d e f"),
        (b"1", b"2"),
        images,
        (in_base64[0], in_base64[1]),
        (bytes(8), bytes(16)),
    ]


def _png(height: int, width: int) -> bytes:
    """Return a black image in color as a file."""
    rows = zlib.compress(bytes(height * (1 + 3 * width)))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
