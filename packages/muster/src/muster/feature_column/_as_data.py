"""Serialize the host part of columns as JSON, to run it without Keras or the user's code."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from muster.feature_column._categorical_column import CategoricalColumn
from muster.feature_column._derived_columns import CrossedColumn, WeightedCategoricalColumn
from muster.feature_column._feature_column import FeatureColumn
from muster.feature_column._hashed_table_column import HashedTableColumn
from muster.feature_column._id_columns import HashedCategoricalColumn, IdentityCategoricalColumn
from muster.feature_column._numeric_column import BucketizedColumn, NumericColumn
from muster.feature_column._sequence_column import SequenceCategoricalColumn, SequenceNumericColumn
from muster.feature_column._vocabulary_column import (
    VocabularyFileCategoricalColumn,
    VocabularyListCategoricalColumn,
)

Json: TypeAlias = Any
Normalizer: TypeAlias = Callable[[Any], Any]


class HostSpec(NamedTuple):
    """An array that the host hands to the step.

    Attributes:
        dtype: The name of its dtype.
        axes: Its sizes, where they are fixed; else ``"batch"``, ``"steps"``, which is the same for all
            sequences of a batch, or ``"width"``, which each column has its own of.
    """

    dtype: str
    axes: tuple[str | int, ...]


_KINDS: Mapping[str, type[FeatureColumn]] = {
    kind.__name__: kind
    for kind in (
        BucketizedColumn,
        CrossedColumn,
        HashedCategoricalColumn,
        HashedTableColumn,
        IdentityCategoricalColumn,
        NumericColumn,
        SequenceCategoricalColumn,
        SequenceNumericColumn,
        VocabularyFileCategoricalColumn,
        VocabularyListCategoricalColumn,
        WeightedCategoricalColumn,
    )
}
_KIND, _DTYPE, _NORMALIZER, _FILE = "kind", "dtype", "normalizer_fn", "vocabulary_file"


def column_as_data(
    column: FeatureColumn,
    store_file: Callable[[str], str],
    store_normalizer: Callable[[FeatureColumn, Normalizer], str],
) -> Json:
    """Return a column that the host computes as JSON.

    Args:
        column: A `FeatureColumn.host_column`.
        store_file: Called with the path of a vocabulary; returns the name by which it will be found.
        store_normalizer: Called with a numeric column and its ``normalizer_fn``; returns the name by which
            that will be found.

    Raises:
        ValueError: The column is of a kind of the program's own.
    """
    if _KINDS.get(type(column).__name__) is not type(column):
        raise ValueError(
            f"The column {column.name} is of a kind that cannot be stored: {type(column).__name__}. There "
            f"are: {', '.join(sorted(_KINDS))}."
        )

    def encoded(name: str, value: Any) -> Json:
        if isinstance(value, FeatureColumn):
            return column_as_data(value, store_file, store_normalizer)
        if name == _DTYPE:
            return np.dtype(value).str if np.dtype(value).kind == "U" else np.dtype(value).name
        if name == _FILE:
            return store_file(value)
        if name == _NORMALIZER:
            return None if value is None else store_normalizer(column, value)
        if isinstance(value, tuple):
            return [encoded("", each) for each in value]
        return value.item() if isinstance(value, np.generic) else value

    fields = dataclasses.fields(column)  # type: ignore[arg-type]  # each kind is a dataclass
    return {_KIND: type(column).__name__} | {
        field.name: encoded(field.name, getattr(column, field.name)) for field in fields
    }


def column_from_data(
    data: Json, find_file: Callable[[str], str], find_normalizer: Callable[[str], Normalizer]
) -> FeatureColumn:
    """Return the column of which `column_as_data` made JSON.

    Args:
        data: The JSON.
        find_file: Called with the name of a vocabulary; returns its path.
        find_normalizer: Called with the name of a normalizer.

    Raises:
        KeyError: There is no such kind of column.
        TypeError: The data are those of another kind.
    """

    def decoded(name: str, value: Json) -> Any:
        if isinstance(value, dict):
            return column_from_data(value, find_file, find_normalizer)
        if name == _DTYPE:
            return np.dtype(value)
        if name == _FILE:
            return find_file(value)
        if name == _NORMALIZER:
            return None if value is None else find_normalizer(value)
        return tuple(decoded("", each) for each in value) if isinstance(value, list) else value

    kind = _KINDS[data[_KIND]]
    column = kind(**{name: decoded(name, value) for name, value in data.items() if name != _KIND})
    if isinstance(column, VocabularyFileCategoricalColumn):
        _ = column.vocabulary  # read now: the file may be deleted while the program runs
    return column


def host_columns(columns: tuple[FeatureColumn, ...]) -> tuple[FeatureColumn, ...]:
    """Return the columns that the host must compute for those of a model, each once."""
    found = (column.host_column for column in columns)
    return tuple({column.host_key: column for column in found if column is not None}.values())


def host_specs(column: FeatureColumn) -> dict[str, HostSpec]:
    """Return what the host hands to the step for one of `host_columns`, by key."""
    match column:
        case SequenceNumericColumn():
            numbers = HostSpec("float32", ("batch", "steps", column.num_elements))
            return {column.host_key: numbers, f"{column.host_key}.length": HostSpec("int32", ("batch",))}
        case SequenceCategoricalColumn():
            ids = _id_specs(column, column.categorical_column, ("batch", "steps", "width"))
            return ids | {f"{column.host_key}.length": HostSpec("int32", ("batch",))}
        case CategoricalColumn():
            return _id_specs(column, column, ("batch", "width"))
    return {}


def _id_specs(
    column: CategoricalColumn, ids: CategoricalColumn, axes: tuple[str, ...]
) -> dict[str, HostSpec]:
    is_hashed = ids.hashed_table is not None
    specs = {column.host_key: HostSpec("uint32", (*axes, 2)) if is_hashed else HostSpec("int32", axes)}
    if isinstance(ids, WeightedCategoricalColumn):
        specs[column.weights_key] = HostSpec("float32", axes)
    return specs
