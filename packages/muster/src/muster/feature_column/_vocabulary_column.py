"""``categorical_column_with_vocabulary_list`` and ``_file``: text or integers by their place in a list."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from muster._paths import local_path
from muster.feature_column._categorical_column import CategoricalColumn
from muster.feature_column._feature_column import ValuesByKey
from muster.feature_column._host_values import (
    Features,
    IdsAndWeights,
    dtype_name,
    is_integer,
    sparse_feature,
)
from muster.feature_column._id_columns import buckets, checked_dtype, checked_key, string_or_integer


@dataclass(frozen=True, kw_only=True)
class _VocabularyColumn(ValuesByKey, CategoricalColumn):
    """The base class of columns with a vocabulary.

    Args:
        key: The key of the feature.
        dtype: That of text, or of integers.
        default_value: The id of values that the vocabulary lacks; -1 leaves them out.
        num_oov_buckets: The number of buckets for such values, beyond the vocabulary.
    """

    key: str
    dtype: np.dtype[Any]
    default_value: int
    num_oov_buckets: int

    @property
    def vocabulary(self) -> Sequence[Any]:
        """The values by their ids."""
        raise NotImplementedError

    @property
    def num_buckets(self) -> int:
        """The size of the vocabulary, and the buckets beyond it."""
        return len(self.vocabulary) + self.num_oov_buckets

    @cached_property
    def _table(self) -> dict[Any, int]:
        """Value -> id. Text is in it as bytes too."""
        table = {value: i for i, value in enumerate(self.vocabulary)}
        if is_integer(self.dtype):
            return table
        encoded = {value.encode(): i for value, i in table.items()}
        return table | encoded

    def sparse_ids(self, features: Features) -> IdsAndWeights:
        """Return the ids of the feature's values.

        Raises:
            ValueError: The feature is absent, or has another kind of values than the column.
        """
        given = string_or_integer(sparse_feature(features, self.key), self.key, self.dtype)
        table, values = self._table, given.plain_values.tolist()
        ids = np.fromiter(map(table.get, values, repeat(-1)), np.int64, len(values))
        (unknown,) = (ids < 0).nonzero()
        if len(unknown) and self.num_oov_buckets:
            ids[unknown] = len(self.vocabulary) + buckets(given.plain_values[unknown], self.num_oov_buckets)
        elif len(unknown):
            ids[unknown] = self.default_value
        return IdsAndWeights(given.with_values(ids), None)


@dataclass(frozen=True, kw_only=True)
class VocabularyListCategoricalColumn(_VocabularyColumn):
    """A column with a vocabulary in memory, made and checked by `categorical_column_with_vocabulary_list`.

    Args:
        vocabulary_list: The values by their ids.

    Source: ``VocabularyListCategoricalColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    vocabulary_list: tuple[Any, ...]

    @property
    def vocabulary(self) -> Sequence[Any]:
        """The values by their ids."""
        return self.vocabulary_list


@dataclass(frozen=True, kw_only=True)
class VocabularyFileCategoricalColumn(_VocabularyColumn):
    """A column with a vocabulary in a file, made and checked by `categorical_column_with_vocabulary_file`.

    Args:
        vocabulary_file: The file, with a value a line.
        vocabulary_size: How many of its lines count.

    Source: ``VocabularyFileCategoricalColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    vocabulary_file: str
    vocabulary_size: int

    @property
    def num_buckets(self) -> int:
        """The size of the vocabulary, and the buckets beyond it."""
        return self.vocabulary_size + self.num_oov_buckets

    @cached_property
    def vocabulary(self) -> Sequence[Any]:
        """The values by their ids, read when they are first asked for.

        Raises:
            ValueError: The file is missing, not UTF-8, shorter than the size, or names a value twice.
        """
        lines = vocabulary_lines(self.vocabulary_file, self.key)[: self.vocabulary_size]
        where = f"vocabulary_file {self.vocabulary_file} in {self.key}"
        if len(lines) < self.vocabulary_size:
            raise ValueError(
                f"Invalid vocab_size in {self.vocabulary_file}: expected {self.vocabulary_size} but got "
                f"{len(lines)}. Give the column {self.key} a smaller vocabulary_size, or leave it out."
            )
        values: list[Any] = lines
        if is_integer(self.dtype):
            try:
                values = list(map(int, lines))
            except ValueError as exc:
                raise ValueError(f"The {where} must have an integer in each line: {exc}.") from exc
        if len(set(values)) < len(values):
            twice = next(value for i, value in enumerate(values) if value in values[:i])
            raise ValueError(f"The {where} has {twice!r} twice: each line must be another value.")
        return values


def categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Iterable[Any],
    dtype: DTypeLike | None = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> VocabularyListCategoricalColumn:
    """Return a column of text or integers whose ids are their places in a list.

    Args:
        key: The key of the feature, and the name of the column. In arrays, empty text and -1 stand for no
            value.
        vocabulary_list: The values by their ids.
        dtype: The dtype of the feature; by default that of the vocabulary.
        default_value: The id of values that the vocabulary lacks; -1 leaves them out.
        num_oov_buckets: A number of buckets for such values, by their fingerprints; excludes
            ``default_value``.

    Raises:
        ValueError: The list is empty, or has a value twice or of another kind than the dtype; or both a
            default and buckets are given.

    Source: ``categorical_column_with_vocabulary_list``
    (tensorflow/python/feature_column/feature_column_v2.py).

    Example:
        ```python
        column = muster.feature_column.categorical_column_with_vocabulary_list("colour", ["red", "blue"])
        ```
    """
    values = tuple(each.decode() if isinstance(each, bytes) else each for each in vocabulary_list)
    if not values:
        raise ValueError(f"vocabulary_list {vocabulary_list!r} must be non-empty, column_name: {key}")
    if len(set(values)) != len(values):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list!r}, column_name: {key}")
    own = checked_dtype(np.array(values).dtype, f"column_name: {key} vocabulary")
    _check_oov(num_oov_buckets, default_value, key)
    checked_key(key)
    wanted = own if dtype is None else checked_dtype(dtype, f"column_name: {key}")
    if is_integer(wanted) != is_integer(own):
        raise ValueError(
            f"dtype {dtype_name(wanted)} and vocabulary dtype {dtype_name(own)} do not match, "
            f"column_name: {key}"
        )
    return VocabularyListCategoricalColumn(
        key=key,
        vocabulary_list=tuple(map(int, values)) if is_integer(own) else tuple(map(str, values)),
        dtype=wanted,
        default_value=default_value,
        num_oov_buckets=num_oov_buckets,
    )


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str | os.PathLike[str],
    vocabulary_size: int | None = None,
    dtype: DTypeLike = str,
    default_value: int | None = None,
    num_oov_buckets: int = 0,
) -> VocabularyFileCategoricalColumn:
    """Return a column of text or integers whose ids are the lines of a file that hold them.

    Args:
        key: The key of the feature, and the name of the column. In arrays, empty text and -1 stand for no
            value.
        vocabulary_file: A file in UTF-8 with a value a line; spaces count.
        vocabulary_size: How many of its lines count; None for all.
        dtype: That of text (``tf.string``), or one of integers.
        default_value: The id of values that the vocabulary lacks; None or -1 leaves them out.
        num_oov_buckets: A number of buckets for such values, by their fingerprints; excludes
            ``default_value``.

    Raises:
        ValueError: The file is missing or not UTF-8, the size is not positive, or both a default and buckets
            are given. Lines are checked when they are needed.

    Source: ``categorical_column_with_vocabulary_file_v2`` (tensorflow/python/feature_column/
    feature_column_v2.py).
    """
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    path = local_path(vocabulary_file)
    if vocabulary_size is None:
        vocabulary_size = len(vocabulary_lines(path, key))
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    _check_oov(num_oov_buckets, -1 if default_value is None else default_value, key)
    checked_key(key)
    return VocabularyFileCategoricalColumn(
        key=key,
        vocabulary_file=path,
        vocabulary_size=vocabulary_size,
        dtype=checked_dtype(dtype, f"column_name: {key}"),
        default_value=-1 if default_value is None else default_value,
        num_oov_buckets=num_oov_buckets,
    )


def _check_oov(num_oov_buckets: int, default_value: int, key: str) -> None:
    if num_oov_buckets < 0:
        raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")
    if num_oov_buckets and default_value != -1:
        raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")


def vocabulary_lines(path: str, key: str) -> list[str]:
    """Return the lines of a vocabulary, which end with ``\\n`` or ``\\r\\n``.

    Args:
        path: The file.
        key: The column or variable that the vocabulary is of, for errors.

    Raises:
        ValueError: The file is missing, or not UTF-8.
    """
    try:
        lines = Path(path).read_bytes().decode().split("\n")
    except FileNotFoundError as exc:
        raise ValueError(f"vocabulary_file in {key} does not exist. Given: {path}") from exc
    except UnicodeDecodeError as exc:
        raise ValueError(f"vocabulary_file {path} in {key} is not UTF-8: {exc}.") from exc
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
