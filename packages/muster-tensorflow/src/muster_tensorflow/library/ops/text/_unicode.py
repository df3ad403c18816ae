"""``tf.strings`` of characters: code points, encodings and scripts, on the host."""

import bisect
import codecs
import functools
from collections.abc import Callable
from importlib import resources
from typing import Any

import numpy as np

from muster.data import RaggedTensor
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.text._strings import Text, _each, parts_of

_OUTPUT = ("UTF-8", "UTF-16-BE", "UTF-32-BE")
_LAST = 0x10FFFF


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
    read = _reader(input_encoding, errors, replacement_char, replace_control_characters)
    write = _writer(output_encoding)
    if isinstance(input, RaggedTensor):
        return _each(lambda text: write(read(text)), input)
    if isinstance(input, str | bytes):
        return write(read(input))
    texts = np.asarray(input, object)
    return _array([write(read(text)) for text in texts.ravel().tolist()]).reshape(texts.shape)


@operation
def unicode_split(
    input: Text,
    input_encoding: str = "UTF-8",
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> Any:
    """Split texts into characters, ragged for several texts; they are bytes in other encodings than UTF-8."""
    read, write = _reader(input_encoding, errors, replacement_char), _writer(input_encoding)
    return parts_of(lambda text: _array([write(each) for each in read(text)]), input)


@operation
def unicode_decode(
    input: Text,
    input_encoding: str = "UTF-8",
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Return the code points of the characters of texts: int32, ragged for several texts."""
    read = _reader(input_encoding, errors, replacement_char, replace_control_characters)
    return parts_of(lambda text: np.array(list(map(ord, read(text))), np.int32), input)


@operation
def unicode_split_with_offsets(
    input: Text,
    input_encoding: str = "UTF-8",
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Split texts into characters, and return these and the byte at which each begins, int64."""
    characters = unicode_split(input, input_encoding, errors, replacement_char)
    return characters, _offsets(input, input_encoding)


@operation
def unicode_decode_with_offsets(
    input: Text,
    input_encoding: str = "UTF-8",
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return the code points of the characters of texts, and the byte at which each begins, int64."""
    codes = unicode_decode(input, input_encoding, errors, replacement_char, replace_control_characters)
    return codes, _offsets(input, input_encoding)


@operation
def unicode_encode(
    input: Any,
    output_encoding: str = "UTF-8",
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> Any:
    """Return the text of code points; for rows of them, an array of texts.

    Args:
        input: Code points, int32.
        output_encoding: UTF-8, or UTF-16-BE or UTF-32-BE, in which texts are bytes.
        errors: What becomes of numbers that are no character: ``"replace"``, ``"ignore"``, or ``"strict"``.
        replacement_char: The code point that replaces them.
        name: Unused.

    Raises:
        ValueError: The encoding is another one, or a number is no character, and ``errors`` is ``"strict"``.

    Source: tensorflow/python/ops/ragged/ragged_string_ops.py, ``unicode_encode``.
    """
    if isinstance(input, RaggedTensor):
        if isinstance(input.values, RaggedTensor):
            encoded = unicode_encode(input.values, output_encoding, errors, replacement_char)
            return input.with_values(encoded)
        rows = input.lists()
    else:
        rows = np.atleast_2d(np.asarray(input)).tolist()
    write, put = _writer(output_encoding), "" if errors == "ignore" else chr(replacement_char)

    def character(code: int) -> str:
        if 0 <= code <= _LAST and not 0xD800 <= code <= 0xDFFF:
            return chr(code)
        if errors == "strict":
            raise ValueError(f"unicode_encode takes code points of characters, got {code}.")
        return put

    texts = [write("".join(map(character, row))) for row in rows]
    one = not isinstance(input, RaggedTensor) and np.ndim(input) < 2
    return texts[0] if one else _array(texts)


@operation
def unicode_script(input: Any, name: str | None = None) -> Any:
    """Return the scripts of code points, int32: ICU's numbers, such as 25 for Latin and 17 for Han.

    0 is what several scripts have in common, 1 is a mark that takes the script of what stands before it, 103
    is a code point without a character, and -1 is none. Scripts are those of Unicode 13, as in TensorFlow.

    Source: tensorflow/core/kernels/unicode_script_op.cc, ``UnicodeScriptOp``.
    """
    if isinstance(input, RaggedTensor):
        return input.with_flat_values(unicode_script(input.plain_values))
    firsts, scripts = _scripts()
    codes = np.asarray(input)
    found = [
        scripts[bisect.bisect_right(firsts, code) - 1] if 0 <= code <= _LAST else -1
        for code in codes.ravel().tolist()
    ]
    return np.array(found, np.int32).reshape(codes.shape)


@functools.cache
def _scripts() -> tuple[list[int], list[int]]:
    """Return where ranges of code points begin, and their scripts, as Unicode's Scripts.txt has them."""
    text = (
        resources.files("muster_tensorflow.library.ops.text").joinpath("script_ranges.txt").read_text("ascii")
    )
    lines = [line.split() for line in text.splitlines()]
    return [int(first, 16) for first, _ in lines], [int(script) for _, script in lines]


def _reader(
    encoding: str, errors: str, replacement_char: int, without_controls: bool = False
) -> Callable[[str | bytes], str]:
    """Return what makes Python's text of bytes in an encoding; other text is UTF-8."""
    codec = _codec(encoding)
    put = "" if errors == "ignore" else chr(replacement_char)

    def read(text: str | bytes) -> str:
        if isinstance(text, str) and codec != "utf-8":
            raise ValueError(f"Text is UTF-8 here, got the encoding {encoding!r}: give it as bytes.")
        found = text.decode(codec, errors) if isinstance(text, bytes) else text
        found = found.replace("\ufffd", put)
        return "".join(put if ord(each) < 32 else each for each in found) if without_controls else found

    return read


def _writer(encoding: str) -> Callable[[str], Any]:
    """Return what makes bytes of Python's text, or text for UTF-8.

    Raises:
        ValueError: TensorFlow writes no text in the encoding.
    """
    if encoding.upper() not in _OUTPUT:
        raise ValueError(f"Text is written in {', '.join(_OUTPUT)}, got the encoding {encoding!r}.")
    codec = _codec(encoding)
    return (lambda text: text) if codec == "utf-8" else lambda text: text.encode(codec)


def _codec(encoding: str) -> str:
    """Return Python's name of an encoding: TensorFlow has ICU's, such as ``UTF-16-BE``.

    Raises:
        ValueError: Python does not know it.
    """
    try:
        return codecs.lookup(encoding.replace("-BE", "BE").replace("-LE", "LE")).name
    except LookupError as exc:
        raise ValueError(f"Python knows no encoding {encoding!r}.") from exc


def _array(texts: list[Any]) -> Any:
    """Return texts in an array; bytes as objects, which keep their zeros."""
    return np.array(texts, object if any(isinstance(each, bytes) for each in texts) else str)


def _offsets(input: Any, encoding: str) -> Any:
    codec = _codec(encoding)

    def begins(text: str | bytes) -> Any:
        # What is no character is replaced, so that it has a place, too.
        read = text.decode(codec, "replace") if isinstance(text, bytes) else text
        sizes = [len(each.encode(codec)) for each in read]
        return np.cumsum([0, *sizes[:-1]], dtype=np.int64)[: len(sizes)]

    return parts_of(begins, input)
