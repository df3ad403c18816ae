"""Sort the columns of a model, and collect their parsing specs."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from muster.feature_column._feature_column import DenseColumn, FeatureColumn, ParseSpec

Column = TypeVar("Column", bound=FeatureColumn)


def sorted_columns(
    feature_columns: Iterable[FeatureColumn] | FeatureColumn,
    *,
    wanted: tuple[type[FeatureColumn], ...] = (DenseColumn,),
) -> tuple[Any, ...]:
    """Return the columns of a model, sorted by name.

    Args:
        feature_columns: One column, or columns in any order.
        wanted: The kinds of columns that the model takes.

    Raises:
        ValueError: `feature_columns` is empty, is a dict, or has two columns of one name or an item that is
            not a wanted column.

    Source: ``_normalize_feature_columns`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    columns = columns_of(feature_columns)
    for column in columns:
        if isinstance(column, wanted):
            continue
        names = " or ".join(kind.__name__ for kind in wanted)
        raise ValueError(
            f"Items of feature_columns must be a {names}. You can wrap a categorical column with an "
            f"embedding_column or indicator_column. Given: {column!r}"
        )
    return _by_name(columns)


def columns_of(feature_columns: Iterable[Any] | FeatureColumn) -> tuple[Any, ...]:
    """Return one column or several as a tuple.

    Raises:
        ValueError: There is none, or they come as a dict.
    """
    if isinstance(feature_columns, FeatureColumn):
        return (feature_columns,)
    if isinstance(feature_columns, Mapping):
        raise ValueError("Expected feature_columns to be iterable, found dict. Give a list of the columns.")
    columns = tuple(feature_columns)
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    return columns


def _by_name(columns: Iterable[Column]) -> tuple[Column, ...]:
    by_name: dict[str, Column] = {}
    for column in columns:
        if column.name in by_name:
            raise ValueError(
                f"Duplicate feature column name found for columns: {by_name[column.name]} and {column}. "
                "Leave one of them out, or give the feature a second key in the input pipeline."
            )
        by_name[column.name] = column
    return tuple(by_name[name] for name in sorted(by_name))


def make_parse_example_spec(feature_columns: Iterable[FeatureColumn]) -> ParseSpec:
    """Return the features that `muster.data.parse_example` must read for columns.

    Args:
        feature_columns: The columns of a model, in any order.

    Returns:
        A `FixedLenFeature` or `VarLenFeature` for each key of a feature.

    Raises:
        ValueError: Two columns read one key differently, or something among them is not a column.

    Source: ``make_parse_example_spec_v2`` (tensorflow/python/feature_column/feature_column_v2.py).

    Example:
        ```python
        columns = [muster.feature_column.numeric_column("x", 3)]
        spec = muster.feature_column.make_parse_example_spec(columns)
        assert spec["x"].shape == (3,)
        receiver_fn = muster.estimator.build_parsing_serving_input_receiver_fn(spec)
        ```
    """
    spec: ParseSpec = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(
                f"All feature_columns must be {FeatureColumn.__name__} instances. Given: {column!r}"
            )
        for key, feature in column.parse_example_spec.items():
            if spec.setdefault(key, feature) != feature:
                raise ValueError(
                    f"feature_columns contain different parse_spec for key {key}. Given {spec[key]} and "
                    f"{feature}"
                )
    return spec
