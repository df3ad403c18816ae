"""Several columns together: checked, in order, and as one array."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax.numpy as jnp

from muster.feature_column._dense_column import Array, DenseColumn, Features


def sorted_columns(feature_columns: Iterable[DenseColumn] | DenseColumn) -> tuple[DenseColumn, ...]:
    """The columns of a model, by name.

    Args:
        feature_columns: one or several, in any order.

    Raises:
        ValueError: There is none, two have one name, or something among them is not a column.

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


def dense_features(features: Features, feature_columns: Iterable[DenseColumn] | DenseColumn) -> Array:
    """What columns make of a batch: one row for each example, in the order of the columns' names.

    Args:
        features: by key, each of shape (batch, ...).
        feature_columns: one or several.

    Returns:
        float32 of shape (batch, the sum of the columns' ``num_elements``).

    Raises:
        ValueError: The columns are not those of a model, a feature is not there or not as its column wants
            it, or features differ in length.

    Source: ``DenseFeatures`` (tensorflow/python/keras/feature_column/dense_features_v2.py).
    """
    columns = sorted_columns(feature_columns)
    values = [column.dense_values(features) for column in columns]
    for column, each in zip(columns, values, strict=True):
        if each.shape[0] != values[0].shape[0]:
            raise ValueError(
                "Batch size (first dimension) of each feature must be same. Batch size of columns "
                f"({columns[0].name}, {column.name}): ({values[0].shape[0]}, {each.shape[0]})"
            )
    return jnp.concatenate(values, axis=1)


def make_parse_example_spec(feature_columns: Iterable[DenseColumn]) -> dict[str, Any]:
    """What `muster.data.parse_example` must read for columns.

    Args:
        feature_columns: of a model, in any order.

    Returns:
        key -> feature.

    Raises:
        ValueError: Two columns read one key differently, or something among them is not a column.

    Source: ``make_parse_example_spec_v2`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    spec: dict[str, Any] = {}
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
