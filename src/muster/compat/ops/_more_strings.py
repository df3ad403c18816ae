"""``tf.strings`` that programs use less: offsets, encodings, and text joined by segments."""

import base64
from typing import Any

import numpy as np

from muster.compat.ops._operation import operation
from muster.compat.ops._strings import Text, _decoded, _each, unicode_decode, unicode_split
from muster.data import RaggedTensor


@operation
def unicode_transcode(
    input: Text,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Return texts as they are, for text has one encoding here; control characters may be replaced.

    Raises:
        ValueError: An encoding is another one than UTF-8.
    """
    for encoding in (input_encoding, output_encoding):
        if encoding.upper().replace("_", "-") not in ("UTF-8", "UTF8", "US-ASCII", "ASCII"):
            raise ValueError(f"Text is UTF-8 here, got the encoding {encoding!r}: use bytes.decode before.")
    put = "" if errors == "ignore" else chr(replacement_char)

    def cleaned(text: str) -> str:
        return "".join(put if ord(each) < 32 else each for each in text)

    return _each(cleaned if replace_control_characters else str, input)


@operation
def unicode_split_with_offsets(
    input: Text, input_encoding: str = "UTF-8", errors: str = "replace", name: str | None = None
) -> tuple[Any, Any]:
    """Split texts into characters, and return these and the byte at which each begins, int64."""
    return unicode_split(input), _offsets(input)


@operation
def unicode_decode_with_offsets(
    input: Text, input_encoding: str = "UTF-8", errors: str = "replace", name: str | None = None
) -> tuple[Any, Any]:
    """Return the code points of the characters of texts, and the byte at which each begins, int64."""
    return unicode_decode(input), _offsets(input)


def _offsets(input: Any) -> Any:
    def begins(text: str) -> Any:
        sizes = [len(each.encode()) for each in text]
        return np.cumsum([0, *sizes[:-1]], dtype=np.int64)[: len(sizes)]

    if isinstance(input, str | bytes):
        return begins(_decoded(input))
    return RaggedTensor.from_rows([begins(_decoded(text)) for text in np.asarray(input).ravel().tolist()])


@operation
def unsorted_segment_join(
    inputs: Text, segment_ids: Any, num_segments: int, separator: str = "", name: str | None = None
) -> Any:
    """Join the texts of an array that have the same number, in their order; empty text for no text."""
    rows: list[list[str]] = [[] for _ in range(int(num_segments))]
    texts = np.asarray(inputs).ravel().tolist()
    for text, number in zip(texts, np.asarray(segment_ids).ravel().tolist(), strict=True):
        rows[number].append(_decoded(text))
    return np.array([separator.join(row) for row in rows])


@operation
def encode_base64(input: Text, pad: bool = False, name: str | None = None) -> Any:
    """Return texts in base64 that may stand in an address of the web, by default without ``=`` at the end."""

    def encoded(text: str) -> str:
        made = base64.urlsafe_b64encode(text.encode()).decode()
        return made if pad else made.rstrip("=")

    return _each(encoded, input)


@operation
def decode_base64(input: Text, name: str | None = None) -> Any:
    """Return the texts of which `encode_base64` makes these."""
    return _each(lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode(), input)
