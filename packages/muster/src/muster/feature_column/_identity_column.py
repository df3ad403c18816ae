"""``categorical_column_with_identity``: integers that are ids already."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from muster.data import VarLenFeature
from muster.feature_column._categorical_column import CategoricalColumn, PaddedIds
from muster.feature_column._feature_column import KeyedColumn, ParseSpec
from muster.feature_column._hashed_column import checked_key
from muster.feature_column._host_values import (
    Features,
    IdsAndWeights,
    dtype_name,
    is_integer,
    is_traced,
    require_feature,
    sparse_feature,
)


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
        self._require_integers(given.dtype)
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
