"""``tf.strings`` that programs use less: text joined by segments, and base64."""

import base64
import gzip
import zlib
from typing import Any

import numpy as np

from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.text._strings import Text, _decoded, _each, _single


@operation
def unsorted_segment_join(
    inputs: Text, segment_ids: Any, num_segments: int, separator: Text = "", name: str | None = None
) -> Any:
    """Join the texts of an array that have the same number, in their order; empty text for no text."""
    texts, ids = np.asarray(inputs), np.asarray(segment_ids)
    parts = texts.reshape(ids.size, -1)
    rows: list[list[list[str]]] = [[[] for _ in range(parts.shape[1])] for _ in range(int(num_segments))]
    for part, number in zip(parts.tolist(), ids.ravel().tolist(), strict=True):
        for row, text in zip(rows[number], part, strict=True):
            row.append(_decoded(text))
    joined = [[_single(separator).join(row) for row in each] for each in rows]
    return np.array(joined).reshape(int(num_segments), *texts.shape[ids.ndim :])


@operation
def encode_base64(input: Text, pad: bool = False, name: str | None = None) -> Any:
    """Return texts in base64 that may stand in an address of the web, by default without ``=`` at the end."""

    def encoded(text: str) -> str:
        made = base64.urlsafe_b64encode(text.encode()).decode()
        return made if pad else made.rstrip("=")

    return _each(encoded, input)


@operation
def decode_base64(input: Text, name: str | None = None) -> Any:
    """Return the texts of which `encode_base64` makes these; what is no text, such as images, as bytes."""

    def decoded(text: str) -> str | bytes:
        found = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        try:
            return found if b"\0" in found else found.decode()
        except UnicodeDecodeError:
            return found

    return _each(decoded, input)


@operation
def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Any:
    """Return bytes that are not compressed any more.

    Args:
        bytes: Bytes, or an array of them.
        compression_type: ``GZIP``, ``ZLIB``, or empty for none.
        name: Unused.

    Raises:
        ValueError: There is no such type.
    """
    decoders = {"": lambda each: each, "GZIP": gzip.decompress, "ZLIB": zlib.decompress}
    if compression_type not in decoders:
        raise ValueError(f"compression_type is 'GZIP', 'ZLIB' or '', got {compression_type!r}.")
    values = np.asarray(bytes, object)
    decoded = [decoders[compression_type](each) for each in values.ravel()]
    if not values.ndim:
        return decoded[0]
    return np.array([*decoded, None], object)[:-1].reshape(values.shape)
