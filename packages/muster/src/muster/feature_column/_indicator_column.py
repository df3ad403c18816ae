"""``indicator_column``: how often each id occurs."""

from dataclasses import dataclass

import jax

from muster.feature_column._categorical_column import CategoricalColumn, PaddedIds
from muster.feature_column._ids_as_values import IdsAsValues, require_categorical
from muster.feature_column._lookup import counts


@dataclass(frozen=True, kw_only=True)
class IndicatorColumn(IdsAsValues):
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
    def num_elements(self) -> int:
        """The number of buckets."""
        return self.categorical_column.num_buckets

    def values_of(self, ids: PaddedIds, table: jax.Array | None) -> jax.Array:
        """Return how often each id occurs, or the sum of its weights."""
        return counts(ids, self.num_elements)


def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """Return a column of one value for each id: how often it occurs, or the sum of its weights.

    Args:
        categorical_column: The ids.

    Raises:
        ValueError: It is another kind of column.

    Source: ``indicator_column`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    return IndicatorColumn(categorical_column=require_categorical(categorical_column))
