"""``tf.compat.as_str`` and its like."""

import re
from typing import Any

import numpy as np

from muster.data import RaggedTensor, SparseTensor
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.text import _strings


def as_str(bytes_or_text: str | bytes, encoding: str = "utf-8") -> str:
    """Return text as ``str``."""
    return bytes_or_text.decode(encoding) if isinstance(bytes_or_text, bytes) else bytes_or_text


def as_bytes(bytes_or_text: str | bytes, encoding: str = "utf-8") -> bytes:
    """Return text as ``bytes``."""
    return bytes_or_text.encode(encoding) if isinstance(bytes_or_text, str) else bytes_or_text


def as_str_any(value: object, encoding: str = "utf-8") -> str:
    """Return any value as ``str``, bytes as the text that they are."""
    return value.decode(encoding) if isinstance(value, bytes) else str(value)


@operation
def string_split(
    source: Any,
    sep: str | None = None,
    skip_empty: bool = True,
    delimiter: str | None = None,
    result_type: str = "SparseTensor",
    name: str | None = None,
) -> SparseTensor | RaggedTensor:
    """Split texts at each of some characters.

    Args:
        source: The texts.
        sep: The characters, by default a space; empty to split into characters.
        skip_empty: Whether to leave empty parts out.
        delimiter: The old name of ``sep``.
        result_type: ``"SparseTensor"`` or ``"RaggedTensor"``.
        name: Unused.

    Returns:
        The parts of each text in a row.

    Source: tensorflow/python/ops/ragged/ragged_string_ops.py, ``string_split``.
    """
    ends = " " if sep is None and delimiter is None else delimiter if sep is None else sep
    rows = []
    for text in np.asarray(source).ravel().tolist():
        parts = re.split(f"[{re.escape(ends)}]", as_str(text)) if ends else list(as_str(text))
        rows.append([part for part in parts if part or not skip_empty])
    if result_type == "RaggedTensor":
        return RaggedTensor.from_rows(rows, str)
    places = [(row, place) for row, parts in enumerate(rows) for place in range(len(parts))]
    return SparseTensor(
        np.array(places, np.int64).reshape(-1, 2),
        np.array([part for parts in rows for part in parts], str),
        (len(rows), max(map(len, rows), default=0)),
    )


@operation
def split(
    input: Any = None,
    sep: str | None = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: str | None = None,
) -> SparseTensor | RaggedTensor:
    """Split texts as Python does; ``source`` is another name of ``input``.

    Returns:
        The parts of each text in a row, as a sparse or a ``"RaggedTensor"``.

    Source: tensorflow/python/ops/ragged/ragged_string_ops.py, ``strings_split_v1``.
    """
    texts = source if input is None else input
    rows: Any = _strings.split(
        np.asarray(texts, object).reshape(1) if np.ndim(texts) == 0 else texts, sep, maxsplit
    )
    found: SparseTensor | RaggedTensor = rows.to_sparse() if result_type == "SparseTensor" else rows
    return found
