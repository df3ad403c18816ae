"""Dense columns: their base class, and the columns of a model as one array."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from muster.data import FixedLenFeature

Features: TypeAlias = Mapping[str, Any]
"""A batch of features by key: arrays of shape (batch, ...), or (batch,) for one number an example."""


class DenseColumn(ABC):
    """A feature column with a fixed number of values for each example.

    A column is an immutable value. It has no weights: those are the model's.

    Source: ``DenseColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the column, unique in a model, and of its weights."""

    @property
    @abstractmethod
    def num_elements(self) -> int:
        """The number of values for each example."""

    @property
    @abstractmethod
    def parse_example_spec(self) -> dict[str, FixedLenFeature]:
        """The features that `muster.data.parse_example` must read, by key."""

    @abstractmethod
    def dense_values(self, features: Features) -> jax.Array:
        """Return the values of the column for a batch.

        Args:
            features: The features that the column reads, and others.

        Returns:
            float32 of shape (batch, num_elements).

        Raises:
            ValueError: A feature is absent, has another shape, or holds no numbers.
        """


def sorted_columns(feature_columns: Iterable[DenseColumn] | DenseColumn) -> tuple[DenseColumn, ...]:
    """Return the columns of a model, sorted by name.

    Args:
        feature_columns: One column, or columns in any order.

    Raises:
        ValueError: `feature_columns` is empty, is a dict, or has two columns of one name or an item that is
            not a column.

    Source: ``_normalize_feature_columns`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    if isinstance(feature_columns, DenseColumn):
        return (feature_columns,)
    if isinstance(feature_columns, Mapping):
        raise ValueError("Expected feature_columns to be iterable, found dict. Give a list of the columns.")
    columns = tuple(feature_columns)
    for column in columns:
        if not isinstance(column, DenseColumn):
            raise ValueError(
                f"Items of feature_columns must be a {DenseColumn.__name__}. Given: {column!r}. There is "
                "numeric_column; turn other features into numbers in the input pipeline."
            )
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    by_name: dict[str, DenseColumn] = {}
    for column in columns:
        if column.name in by_name:
            raise ValueError(
                f"Duplicate feature column name found for columns: {by_name[column.name]} and {column}. "
                "Leave one of them out, or give the feature a second key in the input pipeline."
            )
        by_name[column.name] = column
    return tuple(by_name[name] for name in sorted(by_name))


def dense_features(features: Features, feature_columns: Iterable[DenseColumn] | DenseColumn) -> jax.Array:
    """Concatenate the values of columns for a batch, in the order of the columns' names.

    Args:
        features: Features of shape (batch, ...) by key.
        feature_columns: One column, or columns in any order.

    Returns:
        float32 of shape (batch, the sum of the columns' ``num_elements``).

    Raises:
        ValueError: `sorted_columns` refuses the columns, a column refuses its feature, or features differ
            in length.

    Source: ``DenseFeatures`` (tensorflow/python/keras/feature_column/dense_features_v2.py).
    """
    columns = sorted_columns(feature_columns)
    values = [column.dense_values(features) for column in columns]
    for column, rows in zip(columns, values, strict=True):
        if rows.shape[0] != values[0].shape[0]:
            raise ValueError(
                "Batch size (first dimension) of each feature must be same. Batch size of columns "
                f"({columns[0].name}, {column.name}): ({values[0].shape[0]}, {rows.shape[0]})"
            )
    return jnp.concatenate(values, axis=1)


def make_parse_example_spec(feature_columns: Iterable[DenseColumn]) -> dict[str, FixedLenFeature]:
    """Return the features that `muster.data.parse_example` must read for columns.

    Args:
        feature_columns: The columns of a model, in any order.

    Returns:
        A `FixedLenFeature` for each key of a feature.

    Raises:
        ValueError: Two columns read one key differently, or something among them is not a column.

    Source: ``make_parse_example_spec_v2`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    spec: dict[str, FixedLenFeature] = {}
    for column in feature_columns:
        if not isinstance(column, DenseColumn):
            raise ValueError(
                f"All feature_columns must be {DenseColumn.__name__} instances. Given: {column!r}"
            )
        for key, feature in column.parse_example_spec.items():
            if spec.setdefault(key, feature) != feature:
                raise ValueError(
                    f"feature_columns contain different parse_spec for key {key}. Given {spec[key]} and "
                    f"{feature}"
                )
    return spec
