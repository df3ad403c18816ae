"""``indicator_column``: how often each id occurs."""

from dataclasses import dataclass

import jax

from muster.feature_column._categorical_column import CategoricalColumn
from muster.feature_column._dense_column import DenseColumn
from muster.feature_column._feature_column import FeatureColumn, ParseSpec
from muster.feature_column._host_values import Features
from muster.feature_column._lookup import counts
from muster.feature_column._sequence_column import (
    SequenceCategoricalColumn,
    SequenceDenseColumn,
    require_no_sequence,
    require_sequence,
)


@dataclass(frozen=True, kw_only=True)
class IndicatorColumn(DenseColumn, SequenceDenseColumn):
    """A column of counts of ids, made by `indicator_column`.

    Args:
        categorical_column: The ids.

    Source: ``IndicatorColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        """The name of the ids, and ``_indicator``."""
        return f"{self.categorical_column.name}_indicator"

    @property
    def parents(self) -> tuple[CategoricalColumn]:
        """The ids."""
        return (self.categorical_column,)

    @property
    def parse_example_spec(self) -> ParseSpec:
        """That of the ids."""
        return self.categorical_column.parse_example_spec

    @property
    def host_column(self) -> FeatureColumn | None:
        """That of the ids."""
        return self.categorical_column.host_column

    @property
    def num_elements(self) -> int:
        """The number of buckets."""
        return self.categorical_column.num_buckets

    def dense_values(self, features: Features, table: jax.Array | None = None) -> jax.Array:
        """Return how often each id occurs, or the sum of its weights: float32 of shape (batch, num_buckets).

        Raises:
            ValueError: The ids are those of sequences, or a feature does not fit.
        """
        require_no_sequence(self, self.categorical_column)
        return counts(self.categorical_column.step_ids(features), self.num_elements)

    def sequence_values(
        self, features: Features, table: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Return the counts of each step, and the sequences' lengths.

        Raises:
            ValueError: The ids are not those of sequences.
        """
        column: SequenceCategoricalColumn = require_sequence(self, self.categorical_column)
        return counts(column.step_ids(features), self.num_elements), column.lengths(features)

    def sequence_mask(self, features: Features) -> jax.Array:
        """Return which steps sequences have.

        Raises:
            ValueError: The ids are not those of sequences.
        """
        return require_sequence(self, self.categorical_column).mask(features)


def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """Return a column of one value for each id: how often it occurs, or the sum of its weights.

    Args:
        categorical_column: The ids.

    Raises:
        ValueError: It is another kind of column.

    Source: ``indicator_column`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    return IndicatorColumn(categorical_column=require_categorical(categorical_column))


def require_categorical(column: CategoricalColumn) -> CategoricalColumn:
    """Return a column that is categorical.

    Raises:
        ValueError: It is another.
    """
    if not isinstance(column, CategoricalColumn):
        raise ValueError(f"A categorical column is wanted, such as bucketized_column, got {column!r}.")
    return column
