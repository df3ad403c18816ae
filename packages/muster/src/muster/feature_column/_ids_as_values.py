"""Dense columns of the ids of a categorical column, of an example or of each step of a sequence."""

from abc import abstractmethod

import jax

from muster.feature_column._categorical_column import CategoricalColumn, ColumnOfIds, PaddedIds
from muster.feature_column._feature_column import DenseColumn, FeatureColumn
from muster.feature_column._host_values import Features
from muster.feature_column._sequence_column import (
    SequenceDenseColumn,
    require_no_sequence,
    require_sequence,
)


class IdsAsValues(ColumnOfIds, DenseColumn, SequenceDenseColumn):
    """A column that makes as many numbers of the ids of each example, or of each step of a sequence."""

    @property
    def host_column(self) -> FeatureColumn | None:
        """That of the ids."""
        return self.categorical_column.host_column

    @abstractmethod
    def values_of(self, ids: PaddedIds, table: jax.Array | None) -> jax.Array:
        """Return the values of ids.

        Args:
            ids: Those of a batch.
            table: The value of the column's table, if it has one.

        Returns:
            float32 of the shape of the ids, with num_elements in place of the width.
        """

    def dense_values(self, features: Features, table: jax.Array | None = None) -> jax.Array:
        """Return the values of each example's ids: float32 of shape (batch, num_elements).

        Raises:
            ValueError: The ids are those of sequences, or a feature does not fit.
        """
        require_no_sequence(self, self.categorical_column)
        return self.values_of(self.categorical_column.step_ids(features), table)

    def sequence_values(
        self, features: Features, table: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Return the values of each step's ids, and the sequences' lengths.

        Raises:
            ValueError: The ids are not those of sequences.
        """
        column = require_sequence(self, self.categorical_column)
        return self.values_of(column.step_ids(features), table), column.lengths(features)

    def sequence_mask(self, features: Features) -> jax.Array:
        """Return which steps sequences have.

        Raises:
            ValueError: The ids are not those of sequences.
        """
        return require_sequence(self, self.categorical_column).mask(features)


def require_categorical(column: CategoricalColumn) -> CategoricalColumn:
    """Return a column that is categorical.

    Raises:
        ValueError: It is another.
    """
    if not isinstance(column, CategoricalColumn):
        raise ValueError(f"A categorical column is wanted, such as bucketized_column, got {column!r}.")
    return column
