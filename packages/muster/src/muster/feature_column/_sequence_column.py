"""Columns of sequences: ids of each step, or numbers."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from muster.data import SparseTensor
from muster.feature_column._categorical_column import CategoricalColumn, ColumnOfIds
from muster.feature_column._feature_column import FeatureColumn, Table, ValuesByKey
from muster.feature_column._hashed_table_column import categorical_column_with_hashed_table
from muster.feature_column._host_values import (
    Features,
    IdsAndWeights,
    dtype_name,
    is_text,
    require_feature,
    sparse_feature,
)
from muster.feature_column._id_columns import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
)
from muster.feature_column._numeric_column import numeric_column
from muster.feature_column._vocabulary_column import (
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
)


class SequenceDenseColumn(FeatureColumn):
    """A feature column with a fixed number of values for each step of a sequence.

    Source: ``SequenceDenseColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    @property
    @abstractmethod
    def num_elements(self) -> int:
        """The number of values for each step of a sequence."""

    @property
    @abstractmethod
    def table(self) -> Table | None:
        """The variable that the column reads; None if it reads none."""

    @abstractmethod
    def sequence_values(
        self, features: Features, table: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Return the values of the column for a batch of sequences.

        Args:
            features: The features that the column reads, transformed on the host.
            table: The value of the column's table, if it has one.

        Returns:
            float32 of shape (batch, steps, num_elements), and the sequences' lengths, int32 of shape
            (batch,).

        Raises:
            ValueError: A feature is absent, or its column is not one of sequences.
        """

    @abstractmethod
    def sequence_mask(self, features: Features) -> jax.Array:
        """Return which steps sequences have: bool of shape (batch, steps).

        Args:
            features: As for `sequence_values`.

        Raises:
            ValueError: As by `sequence_values`.
        """


@dataclass(frozen=True, kw_only=True)
class SequenceCategoricalColumn(CategoricalColumn, ColumnOfIds):
    """A column of the ids of each step of a sequence.

    Args:
        categorical_column: How values become ids.

    Source: ``SequenceCategoricalColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        """That of the column that makes the ids."""
        return self.categorical_column.name

    @property
    def num_buckets(self) -> int:
        """That of the column that makes the ids."""
        return self.categorical_column.num_buckets

    @property
    def hashed_table(self) -> Any:
        """That of the column that makes the ids."""
        return self.categorical_column.hashed_table

    def sparse_ids(self, features: Features) -> IdsAndWeights:
        """Return the ids of a batch, on the host: of shape (batch, steps, ids).

        Raises:
            ValueError: As by the column that makes the ids.
        """
        ids, weights = self.categorical_column.sparse_ids(features)
        if len(ids.shape) == 2:
            indices = np.pad(ids.plain_indices, ((0, 0), (0, 1)))
            ids = SparseTensor(indices, ids.plain_values, (*ids.shape, 1))
        return IdsAndWeights(ids, weights)

    def transformed(self, features: Features) -> dict[str, np.ndarray[Any, Any]]:
        """Return the ids of each step, and the sequences' lengths.

        Raises:
            ValueError: As by `sparse_ids`; or an id is too large or negative.
        """
        found = self.sparse_ids(features)
        return self.padded_ids(found) | {self._length_key: _lengths(found.ids)}

    def lengths(self, features: Features) -> jax.Array:
        """Return the sequences' lengths, int32 of shape (batch,), from transformed features."""
        return jnp.asarray(features[self._length_key])

    def mask(self, features: Features) -> jax.Array:
        """Return which steps sequences have, bool of shape (batch, steps), from transformed features."""
        return step_mask(self.lengths(features), features[self.host_key].shape[1])

    @property
    def _length_key(self) -> str:
        return f"{self.host_key}.length"


@dataclass(frozen=True, kw_only=True)
class SequenceNumericColumn(ValuesByKey, SequenceDenseColumn):
    """A column of the numbers of each step of a sequence, made and checked by `sequence_numeric_column`.

    Args:
        key: The key of the feature.
        shape: The shape of one step.
        default_value: The number that sequences are filled up with.
        dtype: The dtype when parsing.
        normalizer_fn: Called with the feature's numbers in a vector, or None.

    Source: ``SequenceNumericColumn`` (tensorflow/python/feature_column/sequence_feature_column.py).
    """

    key: str
    shape: tuple[int, ...]
    default_value: float
    dtype: np.dtype[Any]
    normalizer_fn: Callable[[Any], Any] | None

    @property
    def num_elements(self) -> int:
        """The product of the shape."""
        return math.prod(self.shape)

    @property
    def table(self) -> None:
        """None: numbers need no table."""
        return

    @property
    def host_column(self) -> FeatureColumn | None:
        """The column itself."""
        return self

    @property
    def host_key(self) -> str:
        """The key of the numbers among features that have been transformed."""
        return f"{self.key}.{type(self).__name__}"

    def transformed(self, features: Features) -> dict[str, np.ndarray[Any, Any]]:
        """Return the numbers of each step, and the sequences' lengths.

        Raises:
            ValueError: The feature is absent, holds no numbers, or no whole number of steps.
        """
        given = sparse_feature(features, self.key)
        if is_text(given.dtype):
            raise ValueError(f"Feature {self.key} has dtype {dtype_name(given.dtype)}, and needs numbers.")
        values = given.plain_values
        if self.normalizer_fn is not None and len(values):
            values = np.asarray(self.normalizer_fn(values))
        numbers = SparseTensor(given.plain_indices, values.astype(np.float32), given.shape)
        dense = np.asarray(numbers.to_dense(self.default_value))
        if math.prod(dense.shape[1:]) % self.num_elements:
            raise ValueError(
                f"Feature {self.key} has the shape {dense.shape}: no whole number of steps of the shape "
                f"{self.shape}."
            )
        lengths = _lengths(given)
        if len(given.shape) == 2:
            lengths = -(-lengths // self.num_elements)
        return {
            self.host_key: dense.reshape(len(dense), -1, self.num_elements),
            f"{self.host_key}.length": lengths,
        }

    def sequence_values(
        self, features: Features, table: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Return the numbers of each step, and the sequences' lengths.

        Raises:
            ValueError: The feature is absent or has not been transformed.
        """
        if self.host_key not in features:
            require_feature(features, self.key)
            raise ValueError(
                f"Feature {self.key} is a value of a step, and its column works on the host. Call "
                "transform_features(features, feature_columns) in `map` of the dataset, after `batch`."
            )
        return jnp.asarray(features[self.host_key]), jnp.asarray(features[f"{self.host_key}.length"])

    def sequence_mask(self, features: Features) -> jax.Array:
        """Return which steps sequences have.

        Raises:
            ValueError: As by `sequence_values`.
        """
        values, lengths = self.sequence_values(features)
        return step_mask(lengths, values.shape[1])


def sequence_numeric_column(
    key: str,
    shape: Sequence[int] | int = (1,),
    default_value: float = 0.0,
    dtype: DTypeLike = "float32",
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> SequenceNumericColumn:
    """Return a column of the numbers of each step of a sequence.

    Args:
        key: The key of the feature, a sparse tensor of shape (batch, numbers), or (batch, steps, numbers).
        shape: The shape of one step.
        default_value: The number that sequences are filled up with.
        dtype: The dtype for `muster.data.parse_example`. The model computes in float32.
        normalizer_fn: Called on the host with the feature's numbers in a vector.

    Raises:
        TypeError: The shape is not of integers, or ``normalizer_fn`` cannot be called.
        ValueError: The key is not text, the shape is not positive, or the dtype is not one of real numbers.

    Source: ``sequence_numeric_column`` (tensorflow/python/feature_column/sequence_feature_column.py). There,
    the ``normalizer_fn`` gets a sparse tensor, with which nothing can be computed.
    """
    checked = numeric_column(key, shape, None, dtype, normalizer_fn)
    return SequenceNumericColumn(
        key=key,
        shape=checked.shape,
        default_value=default_value,
        dtype=checked.dtype,
        normalizer_fn=normalizer_fn,
    )


def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: DTypeLike = str
) -> SequenceCategoricalColumn:
    """Return `categorical_column_with_hash_bucket` for sequences."""
    return SequenceCategoricalColumn(
        categorical_column=categorical_column_with_hash_bucket(key, hash_bucket_size, dtype)
    )


def sequence_categorical_column_with_hashed_table(
    key: str,
    dtype: DTypeLike = str,
    *,
    admit_after: int = 1,
    max_age: int | None = None,
    max_rows: int | None = None,
    evict: Literal["recently", "frequently"] = "recently",
) -> SequenceCategoricalColumn:
    """Return `categorical_column_with_hashed_table` for sequences."""
    return SequenceCategoricalColumn(
        categorical_column=categorical_column_with_hashed_table(
            key, dtype, admit_after=admit_after, max_age=max_age, max_rows=max_rows, evict=evict
        )
    )


def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """Return `categorical_column_with_identity` for sequences."""
    return SequenceCategoricalColumn(
        categorical_column=categorical_column_with_identity(key, num_buckets, default_value)
    )


def sequence_categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Sequence[Any],
    dtype: DTypeLike | None = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> SequenceCategoricalColumn:
    """Return `categorical_column_with_vocabulary_list` for sequences."""
    return SequenceCategoricalColumn(
        categorical_column=categorical_column_with_vocabulary_list(
            key, vocabulary_list, dtype, default_value, num_oov_buckets
        )
    )


def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: DTypeLike = str,
) -> SequenceCategoricalColumn:
    """Return `categorical_column_with_vocabulary_file` for sequences."""
    return SequenceCategoricalColumn(
        categorical_column=categorical_column_with_vocabulary_file(
            key, vocabulary_file, vocabulary_size, dtype, default_value, num_oov_buckets
        )
    )


def step_mask(lengths: jax.Array, steps: int) -> jax.Array:
    """Return which of some steps sequences have: bool of shape (batch, steps).

    Args:
        lengths: The sequences' lengths, int32 of shape (batch,).
        steps: How many steps the longest has.
    """
    return jnp.arange(steps) < lengths[:, None]


def require_no_sequence(column: FeatureColumn, ids: CategoricalColumn) -> None:
    """Check that the ids of a column are not those of sequences.

    Raises:
        ValueError: They are.
    """
    if isinstance(ids, SequenceCategoricalColumn):
        raise ValueError(
            f"In {_kind(column)}: {column.name}. categorical_column must not be of type "
            "SequenceCategoricalColumn. Suggested fix A: If you wish to use DenseFeatures, use a "
            "non-sequence "
            "categorical_column_with_*. Suggested fix B: If you wish to create sequence input, use "
            f"SequenceFeatures instead of DenseFeatures. Given (type {type(ids)}): {ids}"
        )


def require_sequence(column: FeatureColumn, ids: CategoricalColumn) -> SequenceCategoricalColumn:
    """Return the ids of a column, which are those of sequences.

    Raises:
        ValueError: They are not.
    """
    if not isinstance(ids, SequenceCategoricalColumn):
        raise ValueError(
            f"In {_kind(column)}: {column.name}. categorical_column must be of type "
            "SequenceCategoricalColumn to "
            "use SequenceFeatures. Suggested fix: Use one of sequence_categorical_column_with_*. "
            f"Given (type {type(ids)}): {ids}"
        )
    return ids


def _kind(column: FeatureColumn) -> str:
    return "indicator_column" if column.name.endswith("_indicator") else "embedding_column"


def _lengths(values: SparseTensor) -> np.ndarray[Any, Any]:
    """Return the number of steps up to the last one with a value, int32, for each example."""
    lengths = np.zeros(values.shape[0], np.int32)
    np.maximum.at(lengths, values.plain_indices[:, 0], (values.plain_indices[:, 1] + 1).astype(np.int32))
    return lengths
