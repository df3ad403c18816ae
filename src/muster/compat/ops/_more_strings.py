"""``tf.strings`` that programs use less: offsets, encodings, and text joined by segments."""

import base64
import codecs
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
    """Return texts in another encoding: bytes, or texts for UTF-8; control characters may be replaced.

    Args:
        input: The texts; in another encoding than UTF-8 they are bytes.
        input_encoding: Their encoding, any that Python knows.
        output_encoding: UTF-8, UTF-16-BE or UTF-32-BE.
        errors: What becomes of bytes that are no character: ``"replace"``, ``"ignore"``, or ``"strict"``.
        replacement_char: The code point that replaces them.
        replace_control_characters: Whether it replaces characters below 32, too.
        name: Unused.

    Raises:
        ValueError: An encoding is another one.

    Source: tensorflow/core/kernels/unicode_ops.cc, ``UnicodeTranscodeOp``.
    """
    if output_encoding.upper() not in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
        raise ValueError(f"output_encoding is UTF-8, UTF-16-BE or UTF-32-BE, got {output_encoding!r}.")
    put = "" if errors == "ignore" else chr(replacement_char)
    is_utf8 = _codec(input_encoding) == "utf-8"

    def transcoded(text: str | bytes) -> Any:
        read = text.decode(_codec(input_encoding), errors) if isinstance(text, bytes) else text
        if not is_utf8 and isinstance(text, str):
            raise ValueError(f"Text is UTF-8 here, got the encoding {input_encoding!r}: give it as bytes.")
        read = read.replace("\ufffd", put)
        if replace_control_characters:
            read = "".join(put if ord(each) < 32 else each for each in read)
        return read if output_encoding.upper() == "UTF-8" else read.encode(_codec(output_encoding))

    if isinstance(input, str | bytes):
        return transcoded(input)
    if isinstance(input, RaggedTensor):
        return _each(transcoded, input)
    texts = np.asarray(input)
    found = [transcoded(text) for text in texts.ravel().tolist()]
    return np.array(found, object if output_encoding.upper() != "UTF-8" else None).reshape(texts.shape)


def _codec(encoding: str) -> str:
    """Return Python's name of an encoding: TensorFlow has ICU's, such as ``UTF-16-BE``.

    Raises:
        ValueError: Python does not know it.
    """
    try:
        return codecs.lookup(encoding.replace("-BE", "BE").replace("-LE", "LE")).name
    except LookupError as exc:
        raise ValueError(f"Python knows no encoding {encoding!r}.") from exc


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
