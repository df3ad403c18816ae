"""``tf.strings``, on the host: text is Python's ``str``, in arrays or alone, and steps compute no text."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from muster.data import RaggedTensor
from muster.feature_column import buckets
from muster_tensorflow.library.ops._arrays import DTypeLike
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.control._needs_values import known
from muster_tensorflow.library.ops.text._keyed_hash import keyed_hash
from muster_tensorflow.library.ops.text._murmur_hash import murmur_hash
from muster_tensorflow.library.ops.text._unicode_classes import with_unicode_classes

Text = str | bytes | np.ndarray[Any, Any] | Sequence[Any]
"""One text or any structure of lists of them; bytes are UTF-8."""


def _each(function: Callable[[str], Any], texts: Any) -> Any:
    """Call a function for each text, and return one result, or an array or ragged tensor of them."""
    if isinstance(texts, str | bytes):
        return function(_decoded(texts))
    if isinstance(texts, RaggedTensor):
        return texts.with_flat_values(np.asarray(_each(function, texts.plain_values)))
    array = np.asarray(texts)
    plain = array.ravel().tolist()
    results = list(map(function, plain if _are_all(str, plain) else map(_decoded, plain)))
    has_bytes = not _are_all((str, int, float, np.generic), results) and any(
        isinstance(each, bytes) for each in results
    )
    return np.array(results, object if has_bytes else None).reshape(array.shape)


def _are_all(kind: type | tuple[type, ...], values: list[Any]) -> bool:
    """Return whether values are of a type, other than bytes: there are few types of many values."""
    kinds = set(map(type, values))
    return all(issubclass(each, kind) and not issubclass(each, bytes) for each in kinds)


def _decoded(text: str | bytes) -> str:
    return text.decode() if isinstance(text, bytes) else text


def _single(text: Text) -> str:
    """Return one text, such as a separator: text itself, bytes, or an array of it."""
    return str(_decoded(text.item() if isinstance(text, np.ndarray) else text))  # type: ignore[arg-type]


@operation
def lower(input: Text, encoding: str = "", name: str | None = None) -> Any:
    """Return text in lower case: letters of ASCII alone, or all of them for ``encoding="utf-8"``."""
    return _each(str.lower if _is_unicode(encoding) else ascii_lower, input)


@operation
def upper(input: Text, encoding: str = "", name: str | None = None) -> Any:
    """Return text in upper case: letters of ASCII alone, or all of them for ``encoding="utf-8"``."""
    return _each(str.upper if _is_unicode(encoding) else lambda text: _text(_bytes(text).upper()), input)


def ascii_lower(text: str) -> str:
    """Return text with letters of ASCII in lower case."""
    return _text(_bytes(text).lower())


def ascii_split(text: str, maxsplit: int = -1) -> list[str]:
    """Split text at white space of ASCII."""
    return [_text(part) for part in _bytes(text).split(None, maxsplit)]


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _is_unicode(encoding: str) -> bool:
    if encoding not in ("", "utf-8"):
        raise ValueError(f"encoding is '' or 'utf-8', got {encoding!r}.")
    return encoding == "utf-8"


@operation
def strip(input: Text, name: str | None = None) -> Any:
    """Return text without white space of ASCII at its ends."""
    return _each(lambda text: _text(_bytes(text).strip()), input)


@operation
def to_number(input: Text, out_type: DTypeLike = np.float32, name: str | None = None) -> Any:
    """Convert text to numbers.

    Raises:
        ValueError: A text is not a number, or is out of the range of a type of integers.

    Source: tensorflow/core/kernels/string_to_number_op.cc.
    """
    kind = np.dtype(out_type)
    read: Callable[[str], Any] = int if kind.kind in "iu" else float
    wide = {"i": np.int64, "u": np.uint64}.get(kind.kind, np.float64)
    if isinstance(input, np.ndarray) and input.ndim:
        plain = input.ravel().tolist()
        texts = plain if _are_all(str, plain) else map(_decoded, plain)
        try:
            numbers = np.fromiter(map(read, texts), wide, len(plain))
        except OverflowError as exc:
            raise ValueError(f"{exc}: a number is out of the range of {kind}.") from exc
        return _narrowed(numbers, kind).reshape(input.shape)
    found = _each(read, input)
    if isinstance(found, RaggedTensor):
        return found.with_flat_values(_narrowed(found.plain_values, kind))
    return _narrowed(np.asarray(found), kind)[()]


def _narrowed(numbers: np.ndarray[Any, Any], kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Convert numbers to a type.

    Raises:
        ValueError: An integer is out of its range.
    """
    if kind.kind in "iu" and (numbers.dtype.itemsize > kind.itemsize or numbers.dtype.kind != kind.kind):
        limits = np.iinfo(kind)
        wrong = (numbers < limits.min) | (numbers > limits.max)
        if wrong.any():
            raise ValueError(f"{numbers[wrong][0]} is out of the range of {kind}: give another out_type.")
    return numbers.astype(kind)


@operation
def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Any:
    """Convert numbers to text: integers in decimal, others with six digits after the point; and truth values.

    Args:
        input: The numbers.
        precision: How many digits after the point; -1 is 6.
        scientific: Whether to write an exponent.
        shortest: Whether to write the shorter one of both forms.
        width: The least length of a text; -1 for any.
        fill: What to fill shorter texts with: ``"0"``, ``"-"`` for spaces at the end; empty for spaces.
        name: Unused.

    Source: tensorflow/core/kernels/as_string_op.cc.
    """
    array = known(input, "tf.strings.as_string")
    if array.dtype.kind == "b":
        truths = np.where(array, "true", "false")
        return str(truths) if array.ndim == 0 else truths
    kind = "d" if array.dtype.kind in "iu" else "e" if scientific else "g" if shortest else "f"
    digits = f".{precision}" if precision >= 0 and kind != "d" else ""
    form = f"%{fill}{width if width >= 0 else ''}{digits}{kind}"
    texts = np.array([form % number for number in array.ravel().tolist()]).reshape(array.shape)
    return str(texts) if array.ndim == 0 else texts


@operation
def length(input: Text, unit: str = "BYTE", name: str | None = None) -> Any:
    """Return the lengths of texts in bytes of UTF-8, or in characters for ``unit="UTF8_CHAR"``, int32."""
    count: Callable[[str], np.int32] = (
        (lambda text: np.int32(len(text)))
        if _is_characters(unit)
        else (lambda text: np.int32(len(text.encode())))
    )
    return _each(count, input)


@operation
def substr(input: Text, pos: int, len: int, unit: str = "BYTE", name: str | None = None) -> Any:
    """Return ``len`` bytes or characters of texts from ``pos`` on; a negative one counts from the end.

    What begins or ends within a character stays bytes.
    """

    def part(text: str) -> str | bytes:
        whole = text if _is_characters(unit) else text.encode()
        start = pos if pos >= 0 else pos + whole.__len__()
        found = whole[start : start + len]
        try:
            return _decoded(found)
        except UnicodeDecodeError:
            return found

    return _each(part, input)


def _is_characters(unit: str) -> bool:
    if unit not in ("BYTE", "UTF8_CHAR"):
        raise ValueError(f"unit is 'BYTE' or 'UTF8_CHAR', got {unit!r}.")
    return unit == "UTF8_CHAR"


@operation
def join(inputs: Sequence[Text], separator: Text = "", name: str | None = None) -> Any:
    """Join the texts of several arrays, which broadcast to one shape; zeros at ends stay, in bytes."""
    separator = _single(separator)
    arrays = np.broadcast_arrays(*map(_text_objects, inputs))
    flat: list[Any] = [
        separator.join(texts) for texts in zip(*(each.ravel() for each in arrays), strict=True)
    ]
    if any(text.endswith("\0") for text in flat):  # NumPy's texts would lose them
        flat = list(map(_bytes, flat))
    if arrays[0].ndim == 0:
        return flat[0]
    kind = object if flat and isinstance(flat[0], bytes) else str
    return np.array(flat, kind).reshape(arrays[0].shape)


def _text_objects(texts: Text) -> np.ndarray[Any, Any]:
    """Return texts as Python's, with the zeros at their ends."""
    if isinstance(texts, RaggedTensor):
        texts = np.asarray(texts)
    decoded = np.frompyfunc(lambda text: str(_decoded(text)), 1, 1)
    return np.asarray(decoded(np.asarray(texts, object)), object)


# Classes of characters of RE2's that Python's expressions do not have, for use in brackets.
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_CLASS = re.compile(rf"\[:({'|'.join(_CLASSES)}):\]")
_REFERENCE = re.compile(r"\\(.?)", re.DOTALL)


def _expression(pattern: Text) -> re.Pattern[str]:
    """Compile a regular expression, which may have RE2's classes: ``[[:punct:]]`` or ``\\p{L}``.

    As in RE2, ``\\w`` and its kin are of ASCII.
    """
    text = with_unicode_classes(_single(pattern))
    return re.compile(_CLASS.sub(lambda found: _CLASSES[found[1]], text), re.ASCII)


def _replacement(rewrite: str) -> str:
    """Return what Python takes for RE2's replacement, in which ``\\0`` is the whole match."""

    def python(found: re.Match[str]) -> str:
        if found[1].isdigit():
            return rf"\g<{found[1]}>"
        if found[1] != "\\":
            raise ValueError(f"Invalid rewrite {rewrite!r}: after a backslash comes a digit or a backslash.")
        return r"\\"

    return _REFERENCE.sub(python, rewrite)


@operation
def regex_replace(
    input: Text, pattern: Text, rewrite: Text, replace_global: bool = True, name: str | None = None
) -> Any:
    """Replace what matches a regular expression of Python's.

    In ``rewrite``, ``\\\\0`` is what matches, and ``\\\\1`` its first group, as RE2 has it.

    Raises:
        ValueError: In ``rewrite`` something else comes after a backslash.
    """
    expression, replacement = _expression(pattern), _replacement(_single(rewrite))
    return _each(lambda text: expression.sub(replacement, text, count=0 if replace_global else 1), input)


@operation
def regex_full_match(input: Text, pattern: Text, name: str | None = None) -> Any:
    """Return whether whole texts match a regular expression of Python's."""
    expression = _expression(pattern)
    return _each(lambda text: expression.fullmatch(text) is not None, input)


@operation
def split(input: Text, sep: Text | None = None, maxsplit: int = -1, name: str | None = None) -> Any:
    """Split texts at a separator, by default at white space of ASCII.

    Returns:
        The parts of one text as an array; those of several texts as a `RaggedTensor`.
    """
    separator = "" if sep is None else _single(sep)

    def parts(text: str | bytes) -> np.ndarray[Any, Any]:
        whole = _decoded(text)
        return np.array(whole.split(separator, maxsplit) if separator else ascii_split(whole, maxsplit), str)

    return parts_of(parts, input)


def parts_of(function: Callable[[Any], np.ndarray[Any, Any]], texts: Any) -> Any:
    """Call a function that returns the parts of a text as a vector.

    Args:
        function: Takes one text, as it is given: ``str`` or ``bytes``.
        texts: One text, or an array or ragged tensor of them.

    Returns:
        The parts of one text, as they are; those of several as a ragged tensor, which has an axis more.
    """
    if isinstance(texts, RaggedTensor):
        return texts.with_flat_values(parts_of(function, texts.plain_values))
    array = np.asarray(texts, object)
    if not array.ndim:
        return function(array.item())
    rows = [function(text) for text in array.ravel().tolist()]
    kind = (rows[0] if rows else function("")).dtype
    ragged = RaggedTensor.from_rows([each.tolist() for each in rows], str if kind.kind == "U" else kind)
    for size in reversed(array.shape[1:]):
        ragged = RaggedTensor.from_uniform_row_length(ragged, size)
    return ragged


@operation
def bytes_split(input: Text, name: str | None = None) -> Any:
    """Split texts into characters: what are bytes in TensorFlow are characters here."""
    return parts_of(lambda text: np.array(list(_decoded(text)), str), input)


@operation
def reduce_join(
    inputs: Any,
    axis: int | None = None,
    keepdims: bool = False,
    separator: Text = "",
    name: str | None = None,
) -> Any:
    """Join the texts of an array along an axis, or all of them; those of each row of a ragged tensor."""
    separator = _single(separator)
    if isinstance(inputs, RaggedTensor):
        joined = np.array([separator.join(map(_decoded, row)) for row in inputs.lists()])
        return joined if axis is not None else separator.join(joined.tolist())
    texts = np.asarray(_each(str, inputs), object)
    if axis is None:
        whole = separator.join(texts.ravel().tolist())
        return np.array(whole).reshape([1] * texts.ndim) if keepdims else whole
    joined = np.apply_along_axis(lambda row: np.array(separator.join(row), object), axis, texts).astype(str)
    return np.expand_dims(joined, axis) if keepdims else (str(joined) if joined.ndim == 0 else joined)


@operation
def to_hash_bucket_fast(input: Text, num_buckets: int, name: str | None = None) -> Any:
    """Return the buckets of texts by their fingerprints, int64."""
    return _of_texts(lambda texts: buckets(np.array(texts, object), num_buckets), input)


@operation
def to_hash_bucket(input: Text, num_buckets: int, name: str | None = None) -> Any:
    """Return the buckets of texts by TensorFlow's older hash, int64."""
    return _of_texts(lambda texts: (murmur_hash(texts) % np.uint64(num_buckets)).astype(np.int64), input)


@operation
def to_hash_bucket_strong(input: Text, num_buckets: int, key: Sequence[int], name: str | None = None) -> Any:
    """Return the buckets of texts by a hash with a key of two integers, int64."""
    pair = (int(key[0]), int(key[1]))
    return _of_texts(lambda texts: (keyed_hash(texts, pair) % np.uint64(num_buckets)).astype(np.int64), input)


def _of_texts(function: Callable[[list[str]], Any], input: Any) -> Any:
    """Return numbers of all texts at once, in their shape."""
    if isinstance(input, RaggedTensor):
        return input.with_flat_values(_of_texts(function, input.plain_values))
    array = np.asarray(input, object)
    return function([_decoded(text) for text in array.ravel().tolist()]).reshape(array.shape)[()]


@operation
def format(
    template: Text, inputs: Any, placeholder: Text = "{}", summarize: int = 3, name: str | None = None
) -> str:
    """Replace the placeholders of a text by values, in their order.

    Raises:
        ValueError: There are not as many placeholders as values.
    """
    values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    template, placeholder = _single(template), _single(placeholder)
    first, *rest = template.split(placeholder)
    if len(rest) != len(values):
        raise ValueError(
            f"{template!r} has {len(rest)} placeholders {placeholder!r}, and {len(values)} values."
        )
    texts = [each if isinstance(each, str) else str(np.asarray(each)) for each in values]
    return first + "".join(text + part for text, part in zip(texts, rest, strict=True))


@operation
def ngrams(
    data: Any,
    ngram_width: int | Sequence[int],
    separator: Text = " ",
    pad_values: Any = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Any:
    """Join each `ngram_width` consecutive texts of a row.

    Args:
        data: A ragged tensor, or an array whose last axis is the row.
        ngram_width: A number, or several, whose results follow each other.
        separator: What to join by.
        pad_values: A text to put before and after each row, or one for each; None puts nothing there.
        padding_width: How often at most, and by default, as often as an n-gram may begin or end with one
            text of the row: ``ngram_width - 1``.
        preserve_short_sequences: Whether a row that is too short for an n-gram becomes one as a whole.
        name: Ignored.

    Returns:
        A ragged tensor; an array for a single row.
    """
    widths = [ngram_width] if isinstance(ngram_width, int) else list(ngram_width)
    between = _single(separator)

    before, after = (
        (pad_values, pad_values) if isinstance(pad_values, str | bytes) else pad_values or ("", "")
    )

    def joined(row: list[str]) -> list[str]:
        found = []
        for width in widths:
            most = width - 1 if padding_width is None else min(padding_width, width - 1)
            padding = 0 if pad_values is None else most
            padded = [_decoded(before)] * padding + row + [_decoded(after)] * padding
            starts = range(len(padded) - width + 1)
            parts = [padded[start : start + width] for start in starts]
            found += [
                between.join(part) for part in (parts or [padded] * (preserve_short_sequences and bool(row)))
            ]
        return found

    if isinstance(data, RaggedTensor):
        if data.ragged_rank > 1:
            return data.with_values(
                ngrams(data.values, widths, separator, pad_values, padding_width, preserve_short_sequences)
            )
        return RaggedTensor.from_rows([joined(list(map(_decoded, row))) for row in data.lists()], str)
    texts = np.asarray(_each(str, data))
    if texts.ndim == 1:
        return np.array(joined(texts.tolist()), dtype=str)
    return RaggedTensor.from_rows([joined(row) for row in texts.tolist()], str)
