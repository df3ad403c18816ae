"""Find the rows of ragged tensors among their values, and take parts of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def splits_of_lengths(lengths: Any) -> np.ndarray[Any, Any]:
    """Return the row splits of rows of these lengths: int64 of shape (rows + 1,)."""
    return np.append(0, np.cumsum(np.asarray(lengths, np.int64)))


def rows_of(splits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the number of each value's row."""
    return np.repeat(np.arange(len(splits) - 1), np.diff(splits))


def positions(splits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return where in its row each value lies."""
    places: np.ndarray[Any, Any] = np.arange(splits[-1]) - np.repeat(splits[:-1], np.diff(splits))
    return places


def in_rows(starts: Any, lengths: Any) -> np.ndarray[Any, Any]:
    """Return the places of values in runs that begin at `starts` and have these lengths."""
    splits = splits_of_lengths(lengths)
    places: np.ndarray[Any, Any] = np.repeat(np.asarray(starts), lengths) + positions(splits)
    return places


def is_ragged(value: Any) -> bool:
    """Return whether a value is a ragged tensor."""
    return hasattr(value, "plain_splits")


def taken(values: Any, rows: Any) -> Any:
    """Return rows of an array or of a ragged tensor.

    Args:
        values: The array or ragged tensor.
        rows: A slice, or integers of shape (wanted,).
    """
    if not is_ragged(values):
        return values[rows]
    if isinstance(rows, slice):
        rows = np.arange(len(values))[rows]
    splits = values.plain_splits[0]
    lengths = np.diff(splits)[rows]
    inner = taken(values.inner, in_rows(splits[:-1][rows], lengths))
    return type(values)(inner, splits_of_lengths(lengths), values.uniform_row_length)


def joined(values: Sequence[Any]) -> Any:
    """Join arrays of NumPy, or ragged tensors of the same rank, along their first axis."""
    if not is_ragged(values[0]):
        return np.concatenate(values)
    lengths = [np.diff(each.plain_splits[0]) for each in values]
    return type(values[0]).from_row_lengths(joined([each.inner for each in values]), np.concatenate(lengths))


def sliced_rows(ragged: Any, key: Any) -> Any:
    """Return ``ragged[key]``.

    Source: ``ragged_tensor_getitem`` (tensorflow/python/ops/ragged/ragged_getitem.py).
    """
    keys = _without_ellipsis(key if isinstance(key, tuple) else (key,), ragged.ndim)
    return _part(ragged, keys)


def _without_ellipsis(keys: tuple[Any, ...], axes: int) -> list[Any]:
    at = [number for number, key in enumerate(keys) if key is Ellipsis]
    if not at:
        return list(keys)
    named = sum(key is not None and key is not Ellipsis for key in keys)
    return [*keys[: at[0]], *[slice(None)] * (axes - named), *keys[at[0] + 1 :]]


def _part(values: Any, keys: list[Any]) -> Any:
    if not keys:
        return values
    if not is_ragged(values):
        return values[tuple(keys)]
    first, *rest = keys
    if first is None:
        inner = _part(values, rest)
        return type(values).from_uniform_row_length(inner, len(inner), 1) if is_ragged(inner) else inner[None]
    if isinstance(first, slice):
        return _of_each_row(taken(values, _of_numbers(first)), rest)
    if np.ndim(first):
        return _of_each_row(taken(values, np.asarray(first)), rest)
    number = int(first)
    if not -len(values) <= number < len(values):
        raise IndexError(f"There is no row {number}: the ragged tensor has {len(values)}.")
    start, end = values.plain_splits[0][number % len(values) :][:2]
    return _part(taken(values.inner, slice(int(start), int(end))), rest)


def _of_each_row(values: Any, keys: list[Any]) -> Any:
    """Return a part of each row: what ``values[:, *keys]`` is."""
    if not keys:
        return values
    if not is_ragged(values):
        return values[(slice(None), *keys)]
    first, *rest = keys
    kind = type(values)
    if first is None:
        return kind.from_uniform_row_length(_of_each_row(values, rest), 1, len(values))
    splits = values.plain_splits[0]
    if isinstance(first, slice):
        numbers = [np.arange(*each)[_of_numbers(first)] for each in zip(splits[:-1], splits[1:], strict=True)]
        at = np.concatenate([np.zeros(0, np.int64), *numbers])
        inner = _of_each_row(taken(values.inner, at), rest)
        whole = first == slice(None)
        lengths = [len(each) for each in numbers]
        return kind(inner, splits_of_lengths(lengths), values.uniform_row_length if whole else None)
    if values.uniform_row_length is None:
        raise ValueError("Cannot index into an inner ragged dimension.")
    number = int(first) % values.uniform_row_length
    return _of_each_row(taken(values.inner, splits[:-1] + number), rest)


def _of_numbers(key: slice) -> slice:
    """Return a slice of Python's numbers, for one of arrays."""
    return slice(*(None if each is None else int(each) for each in (key.start, key.stop, key.step)))
