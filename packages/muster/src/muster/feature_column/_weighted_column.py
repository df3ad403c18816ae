"""``weighted_categorical_column``: ids with weights."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from muster.data import SparseTensor, VarLenFeature
from muster.feature_column._categorical_column import CategoricalColumn
from muster.feature_column._feature_column import ParseSpec
from muster.feature_column._host_values import (
    Features,
    IdsAndWeights,
    dtype_name,
    host_feature,
    is_real,
    is_text,
)


@dataclass(frozen=True, kw_only=True)
class WeightedCategoricalColumn(CategoricalColumn):
    """A column of ids with weights, made and checked by `weighted_categorical_column`.

    Args:
        categorical_column: The ids.
        weight_feature_key: The key of their weights.
        dtype: The dtype of the weights.

    Source: ``WeightedCategoricalColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: np.dtype[Any]

    @property
    def name(self) -> str:
        """The name of the ids, ``_weighted_by_`` and the key of the weights."""
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def num_buckets(self) -> int:
        """That of the ids."""
        return self.categorical_column.num_buckets

    @property
    def parents(self) -> tuple[CategoricalColumn | str, ...]:
        """The ids, and the key of their weights."""
        return (self.categorical_column, self.weight_feature_key)

    @property
    def parse_example_spec(self) -> ParseSpec:
        """The features of the ids, and the weights, as many as there are ids.

        Raises:
            ValueError: The weights are a feature of the ids.
        """
        spec = self.categorical_column.parse_example_spec
        if self.weight_feature_key in spec:
            raise ValueError(
                f"Parse config {spec[self.weight_feature_key]} already exists for {self.weight_feature_key}."
            )
        return spec | {self.weight_feature_key: VarLenFeature(self.dtype)}

    def sparse_ids(self, features: Features) -> IdsAndWeights:
        """Return the ids, and the number at each id's place among the weights.

        Raises:
            ValueError: A feature is absent, weights are no numbers, or not at the places of the ids.
        """
        ids, weights = self.categorical_column.sparse_ids(features)
        if weights is not None:
            raise ValueError(f"The ids of {self.name} have weights already.")
        given = host_feature(features, self.weight_feature_key)
        if is_text(given.dtype):
            raise ValueError(f"dtype of {self.weight_feature_key} is not convertible to float: string.")
        if ids.shape != given.shape:
            raise ValueError(
                f"Dimensions {ids.shape[-1]} and {given.shape[-1]} are not compatible: the ids of "
                f"{self.categorical_column.name} have the shape {ids.shape}, their weights "
                f"{self.weight_feature_key} {given.shape}."
            )
        if isinstance(given, SparseTensor):
            places, weights = given.plain_indices, given.plain_values
            if len(weights) == len(ids.plain_values) and (places == ids.plain_indices).all():
                return IdsAndWeights(ids, weights)
            there = np.zeros(given.shape, bool)
            there[tuple(places.T)] = True
            missing = ~there[tuple(ids.plain_indices.T)]
            if missing.any():
                place = ids.plain_indices[np.argmax(missing)]
                raise ValueError(
                    f"{self.weight_feature_key} has no weight at {place}, where "
                    f"{self.categorical_column.name} has an id."
                )
            given = np.asarray(given.to_dense())
        return IdsAndWeights(ids, given[tuple(ids.plain_indices.T)])


def weighted_categorical_column(
    categorical_column: CategoricalColumn, weight_feature_key: str, dtype: DTypeLike = "float32"
) -> WeightedCategoricalColumn:
    """Return a column of ids that have weights.

    Args:
        categorical_column: The ids.
        weight_feature_key: The key of the weights, which are at the places of the ids.
        dtype: The dtype of the weights.

    Raises:
        ValueError: The dtype is not one of real numbers.

    Source: ``weighted_categorical_column`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    resolved = np.dtype(dtype)
    if not is_real(resolved):
        raise ValueError(f"dtype {dtype_name(resolved)} is not convertible to float.")
    return WeightedCategoricalColumn(
        categorical_column=categorical_column, weight_feature_key=weight_feature_key, dtype=resolved
    )
