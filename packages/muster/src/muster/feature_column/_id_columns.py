"""Columns of ids: ``categorical_column_with_identity``, and ``…_with_hash_bucket``, by fingerprints."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from muster.data import SparseTensor, VarLenFeature
from muster.feature_column._categorical_column import CategoricalColumn, PaddedIds
from muster.feature_column._feature_column import KeyedColumn, ParseSpec, ValuesByKey
from muster.feature_column._fingerprint import fingerprint64, fingerprint64_of_integers
from muster.feature_column._host_values import (
    Features,
    IdsAndWeights,
    dtype_name,
    is_integer,
    is_text,
    is_traced,
    require_feature,
    sparse_feature,
)


@dataclass(frozen=True, kw_only=True)
class HashedCategoricalColumn(ValuesByKey, CategoricalColumn):
    """A column of hashed values, made and checked by `categorical_column_with_hash_bucket`.

    Args:
        key: The key of the feature.
        hash_bucket_size: The number of buckets.
        dtype: That of text, or of integers.

    Source: ``HashedCategoricalColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    key: str
    hash_bucket_size: int
    dtype: np.dtype[Any]

    @property
    def num_buckets(self) -> int:
        """The number of buckets."""
        return self.hash_bucket_size

    def sparse_ids(self, features: Features) -> IdsAndWeights:
        """Return the buckets of the feature's values.

        Raises:
            ValueError: The feature is absent, or has another kind of values than the column.
        """
        values = string_or_integer(sparse_feature(features, self.key), self.key, self.dtype)
        return IdsAndWeights(values.with_values(buckets(values.plain_values, self.hash_bucket_size)), None)


def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: DTypeLike = str
) -> HashedCategoricalColumn:
    """Return a column of text or integers that are put into buckets by their fingerprints.

    Ids are those of TensorFlow: ``Fingerprint64`` of the text, or of the integer in decimal, modulo the
    number of buckets. In arrays, empty text and -1 stand for no value.

    Args:
        key: The key of the feature, and the name of the column.
        hash_bucket_size: The number of buckets.
        dtype: That of text (``tf.string``), or one of integers.

    Raises:
        ValueError: The key is not text, there is no bucket, or the dtype is another.

    Source: ``categorical_column_with_hash_bucket`` (tensorflow/python/feature_column/feature_column_v2.py).

    Example:
        ```python
        words = muster.feature_column.categorical_column_with_hash_bucket("word", 100)
        model_input = muster.feature_column.embedding_column(words, 8)
        ```
    """
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError(
            f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}"
        )
    checked_key(key)
    return HashedCategoricalColumn(
        key=key, hash_bucket_size=hash_bucket_size, dtype=checked_dtype(dtype, f"column_name: {key}")
    )


def buckets(values: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """Return the buckets, int64, of text or integers by their fingerprints."""
    of_text = is_text(values.dtype)
    hashes = fingerprint64(values.tolist()) if of_text else fingerprint64_of_integers(values)
    ids: np.ndarray[Any, Any] = (hashes % np.uint64(count)).astype(np.int64)
    return ids


def checked_key(key: Any) -> None:
    """Check that a key is text.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")


def checked_dtype(dtype: DTypeLike, where: str) -> np.dtype[Any]:
    """Return the dtype of a column of text or integers.

    Raises:
        ValueError: It is another.
    """
    resolved = np.dtype(dtype)
    if not (is_text(resolved) or is_integer(resolved)):
        raise ValueError(f"{where} dtype must be string or integer. dtype: {dtype_name(resolved)}.")
    return np.dtype(str) if is_text(resolved) else resolved


def string_or_integer(values: SparseTensor, key: str, dtype: np.dtype[Any]) -> SparseTensor:
    """Return values if they are of the kind that a column wants.

    Raises:
        ValueError: They are of another kind.
    """
    given = values.plain_values.dtype
    checked_dtype(given, f"column_name: {key}")
    if is_integer(given) != is_integer(dtype):
        raise ValueError(
            f"Column dtype and SparseTensors dtype must be compatible. key: {key}, column dtype: "
            f"{dtype_name(dtype)}, tensor dtype: {dtype_name(given)}"
        )
    return values


@dataclass(frozen=True, kw_only=True)
class IdentityCategoricalColumn(KeyedColumn, CategoricalColumn):
    """A column of ids, made and checked by `categorical_column_with_identity`.

    Args:
        key: The key of the feature.
        number_buckets: Ids are from 0 up to this number.
        default_value: The id that stands for all others; None refuses them.

    Source: ``IdentityCategoricalColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    key: str
    number_buckets: int
    default_value: int | None

    @property
    def num_buckets(self) -> int:
        """The number of ids."""
        return self.number_buckets

    @property
    def parse_example_spec(self) -> ParseSpec:
        """The feature, with any number of int64 values."""
        return {self.key: VarLenFeature(np.dtype("int64"))}

    def sparse_ids(self, features: Features) -> IdsAndWeights:
        """Return the feature's values, or the default for those that are no ids.

        Raises:
            ValueError: The feature is absent, or holds no integers.
        """
        given = sparse_feature(features, self.key)
        self._require_integers(given.plain_values.dtype)
        ids = given.plain_values.astype(np.int64)
        if self.default_value is not None:
            ids = np.where((ids < 0) | (ids >= self.number_buckets), self.default_value, ids)
        return IdsAndWeights(given.with_values(ids), None)

    def traced_ids(self, features: Features) -> PaddedIds:
        """Compute the ids in a step, from an array of integers: what is no id makes NaNs, or the default.

        Raises:
            ValueError: The feature is absent, or holds no integers.
        """
        value = require_feature(features, self.key)
        if not is_traced(value):
            return super().traced_ids(features)
        self._require_integers(value.dtype)
        ids = value[:, None] if value.ndim == 1 else value
        if self.default_value is not None:
            known = (ids >= 0) & (ids < self.number_buckets)
            ids = jnp.where(known | (ids == -1), ids, self.default_value)
        else:
            ids = jnp.where(ids < -1, self.number_buckets, ids)
        return PaddedIds(ids.astype(jnp.int32), None)

    def _require_integers(self, dtype: np.dtype[np.generic]) -> None:
        if not is_integer(dtype):
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {dtype_name(dtype)}")


def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> IdentityCategoricalColumn:
    """Return a column of integers that are ids, from 0 up to ``num_buckets``.

    Args:
        key: The key of the feature, and the name of the column. In arrays, -1 stands for no value.
        num_buckets: The number of ids.
        default_value: The id that stands for all others. None refuses them.

    Raises:
        ValueError: There are no buckets, or the default is none of them.

    Source: ``categorical_column_with_identity`` (tensorflow/python/feature_column/feature_column_v2.py).
    There, ids that are too large count as nothing in an ``indicator_column``; here they are refused.
    """
    checked_key(key)
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}")
    return IdentityCategoricalColumn(key=key, number_buckets=num_buckets, default_value=default_value)
