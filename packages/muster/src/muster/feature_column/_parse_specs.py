"""Parsing specs of Examples for the columns, label and weights of a classifier or regressor."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from muster.data import FixedLenFeature
from muster.feature_column._column_lists import make_parse_example_spec
from muster.feature_column._feature_column import FeatureColumn, ParseSpec
from muster.feature_column._numeric_column import NumericColumn, numeric_column


def classifier_parse_example_spec(
    feature_columns: Iterable[FeatureColumn],
    label_key: str,
    label_dtype: DTypeLike = "int64",
    label_default: Any = None,
    weight_column: str | NumericColumn | None = None,
) -> ParseSpec:
    """Return what `muster.data.parse_example` must read for a classifier.

    Args:
        feature_columns: The columns of the model.
        label_key: The key of the label, one value an example.
        label_dtype: Its dtype; that of text with a vocabulary.
        label_default: Its value where it is missing.
        weight_column: The key of the weights of examples, or their column; None weighs all alike.

    Raises:
        TypeError: The weight column is neither text nor a numeric column.
        ValueError: The label or the weights are among the columns' features.

    Source: ``classifier_parse_example_spec_v2``
    (tensorflow_estimator/python/estimator/canned/parsing_utils.py).
    """
    label = FixedLenFeature((1,), np.dtype(label_dtype), label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def regressor_parse_example_spec(
    feature_columns: Iterable[FeatureColumn],
    label_key: str,
    label_dtype: DTypeLike = "float32",
    label_default: Any = None,
    label_dimension: int = 1,
    weight_column: str | NumericColumn | None = None,
) -> ParseSpec:
    """Return what `muster.data.parse_example` must read for a regressor.

    Args:
        feature_columns: The columns of the model.
        label_key: The key of the label.
        label_dtype: Its dtype.
        label_default: Its value where it is missing.
        label_dimension: How many numbers it has.
        weight_column: The key of the weights of examples, or their column; None weighs all alike.

    Raises:
        TypeError: The weight column is neither text nor a numeric column.
        ValueError: The label or the weights are among the columns' features.

    Source: ``regressor_parse_example_spec_v2``
    (tensorflow_estimator/python/estimator/canned/parsing_utils.py).
    """
    label = FixedLenFeature((label_dimension,), np.dtype(label_dtype), label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def _with_label(
    feature_columns: Iterable[FeatureColumn],
    label_key: str,
    label: FixedLenFeature,
    weight_column: str | NumericColumn | None,
) -> ParseSpec:
    spec = make_parse_example_spec(feature_columns)
    if label_key in spec:
        raise ValueError(
            f"label should not be used as feature. label_key: {label_key}, features: {list(spec)}"
        )
    spec[label_key] = label
    if weight_column is None:
        return spec
    weights = numeric_column(weight_column) if isinstance(weight_column, str) else weight_column
    if not isinstance(weights, NumericColumn):
        raise TypeError(
            "weight_column should be an instance of numeric_column. Given type: "
            f"{type(weights).__name__} value: {weights}"
        )
    if weights.key in spec:
        raise ValueError(
            f"weight_column should not be used as feature. weight_column: {weights.key}, features: "
            f"{list(spec)}"
        )
    return spec | weights.parse_example_spec
