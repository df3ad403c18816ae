"""``tf.strings``, on the host: text is Python's ``str``, in arrays or alone, and steps compute no text."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from muster.compat.ops._arrays import Array, DTypeLike
from muster.data import RaggedTensor

Text = str | bytes | np.ndarray[Any, Any] | Sequence[Any]
"""One text or any structure of lists of them; bytes are UTF-8."""


def _each(function: Callable[[str], Any], texts: Text) -> Any:
    """Call a function for each text, and return one result or an array of them."""
    if isinstance(texts, str | bytes):
        return function(_decoded(texts))
    array = np.asarray(texts)
    results = np.array([function(_decoded(text)) for text in array.ravel().tolist()])
    return results.reshape(array.shape)


def _decoded(text: str | bytes) -> str:
    return text.decode() if isinstance(text, bytes) else text


def lower(input: Text, encoding: str = "", name: str | None = None) -> Any:
    """Return text in lower case."""
    return _each(str.lower, input)


def upper(input: Text, encoding: str = "", name: str | None = None) -> Any:
    """Return text in upper case."""
    return _each(str.upper, input)


def strip(input: Text, name: str | None = None) -> Any:
    """Return text without white space at its ends."""
    return _each(str.strip, input)


def to_number(input: Text, out_type: DTypeLike = np.float32, name: str | None = None) -> Array:
    """Convert text to numbers.

    Raises:
        ValueError: A text is not a number.
    """
    kind = np.dtype(out_type)
    read: Callable[[str], Any] = int if kind.kind in "iu" else float
    return np.asarray(_each(read, input)).astype(kind)[()]


def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Any:
    """Convert numbers to text: integers in decimal, others with six digits after the point.

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
    array = np.asarray(input)
    kind = "d" if array.dtype.kind in "iu" else "e" if scientific else "g" if shortest else "f"
    digits = f".{precision}" if precision >= 0 and kind != "d" else ""
    form = f"%{fill}{width if width >= 0 else ''}{digits}{kind}"
    texts = np.array([form % number for number in array.ravel().tolist()]).reshape(array.shape)
    return str(texts) if array.ndim == 0 else texts


def length(input: Text, unit: str = "BYTE", name: str | None = None) -> Any:
    """Return the lengths of texts in bytes of UTF-8, or in characters for ``unit="UTF8_CHAR"``, int32."""
    count: Callable[[str], int] = len if _is_characters(unit) else lambda text: len(text.encode())
    return np.int32(_each(count, input))


def substr(input: Text, pos: int, len: int, unit: str = "BYTE", name: str | None = None) -> Any:
    """Return ``len`` bytes or characters of texts from ``pos`` on; a negative one counts from the end."""

    def part(text: str) -> str:
        whole = text if _is_characters(unit) else text.encode()
        start = pos if pos >= 0 else pos + whole.__len__()
        return _decoded(whole[start : start + len])

    return _each(part, input)


def _is_characters(unit: str) -> bool:
    if unit not in ("BYTE", "UTF8_CHAR"):
        raise ValueError(f"unit is 'BYTE' or 'UTF8_CHAR', got {unit!r}.")
    return unit == "UTF8_CHAR"


def join(inputs: Sequence[Text], separator: str = "", name: str | None = None) -> Any:
    """Join the texts of several arrays, which broadcast to one shape."""
    arrays = np.broadcast_arrays(*(np.asarray(_each(str, each), object) for each in inputs))
    flat = [separator.join(texts) for texts in zip(*(each.ravel() for each in arrays), strict=True)]
    return flat[0] if arrays[0].ndim == 0 else np.array(flat).reshape(arrays[0].shape)


def regex_replace(
    input: Text, pattern: str, rewrite: str, replace_global: bool = True, name: str | None = None
) -> Any:
    """Replace what matches a regular expression of Python's; ``\\\\1`` in ``rewrite`` is its first group."""
    return _each(lambda text: re.sub(pattern, rewrite, text, count=0 if replace_global else 1), input)


def regex_full_match(input: Text, pattern: str, name: str | None = None) -> Any:
    """Return whether whole texts match a regular expression of Python's."""
    return _each(lambda text: re.fullmatch(pattern, text) is not None, input)


def split(input: Text, sep: str | None = None, maxsplit: int = -1, name: str | None = None) -> Any:
    """Split texts at a separator, by default at white space.

    Returns:
        The parts of one text as an array; those of several texts as a `RaggedTensor`.
    """
    if isinstance(input, str | bytes):
        return np.array(_decoded(input).split(sep or None, maxsplit), dtype=str)
    texts = np.asarray(input).ravel().tolist()
    return RaggedTensor.from_rows([_decoded(text).split(sep or None, maxsplit) for text in texts])
