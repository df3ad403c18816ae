"""The host part of columns: converts features as read into arrays for the step."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from muster.data import Placeholder, RaggedTensor, SparseTensor
from muster.feature_column._as_data import host_columns, host_specs
from muster.feature_column._categorical_column import CategoricalColumn
from muster.feature_column._column_lists import columns_of
from muster.feature_column._feature_column import FeatureColumn, leaf_keys
from muster.feature_column._host_values import (
    Features,
    RememberingFeatures,
    dtype_of,
    is_integer,
    is_text,
    is_traced,
    require_numbers,
)


class ColumnPlaceholder(Placeholder):
    """A placeholder for the values that an exported model's host computes for a column.

    Args:
        key: The key among transformed features.
        column: The column.
        features: What it is made of.
        dtype: The dtype.
        shape: Sizes, None for one that varies.
    """

    __slots__ = ("_column", "_features")

    def __init__(
        self,
        key: str,
        column: FeatureColumn,
        features: Mapping[str, Placeholder],
        dtype: str,
        shape: Sequence[int | None],
    ) -> None:
        super().__init__(dtype, shape, key)
        self._column, self._features = column, dict(features)

    @property
    def column(self) -> FeatureColumn:
        """The column."""
        return self._column

    @property
    def features(self) -> dict[str, Placeholder]:
        """The features of which it is computed."""
        return self._features


def transformed_placeholders(
    features: Mapping[str, Placeholder], columns: tuple[FeatureColumn, ...]
) -> dict[str, Placeholder]:
    """Return what `transform_features` will make of features: those that are numbers, and the columns."""
    transformed = {
        key: each for key, each in features.items() if each.shape is not None and each.dtype.kind != "U"
    }
    for column in host_columns(columns):
        for key, (dtype, axes) in host_specs(column).items():
            shape = [axis if isinstance(axis, int) else None for axis in axes]
            transformed[key] = ColumnPlaceholder(key, column, features, dtype, shape)
    return transformed


_ASKS = "columns ask for the host"


def transform_features(
    features: Features, feature_columns: Iterable[FeatureColumn] | FeatureColumn
) -> dict[str, Any]:
    """Do what columns need of the host: look up and hash text, cross, and pad what is sparse.

    A step computes with arrays of numbers, and compiles anew for each of their shapes. Call this in `map` of
    a dataset, after `batch`; canned Estimators do it themselves::

        dataset.batch(256).map(lambda features, labels: (transform_features(features, columns), labels))

    Args:
        features: A batch, as it comes from the input pipeline; or placeholders, for what an exported model
            will be given.
        feature_columns: One column, or columns in any order, also of several models.

    Returns:
        What the host made of the columns, in arrays that start with the column's name, and the features that
        are arrays of numbers. Left out are text, sparse tensors, and integers that only these columns read.

    Raises:
        ValueError: A feature is absent or does not fit its column, an id is out of range, or two columns of
            one name and kind differ.
    """
    columns = columns_of(feature_columns)
    if any(isinstance(value, Placeholder) for value in features.values()):
        return dict(transformed_placeholders(features, columns))
    by_key: dict[str, FeatureColumn] = {}
    for column in columns:
        host = column.host_column
        if host is None:
            continue
        other = by_key.setdefault(host.host_key, host)
        if other is not host and other != host:
            raise ValueError(
                f"Two columns of one name and kind differ: {other} and {host}. Give the feature a second key "
                "in the input pipeline."
            )
    read_by_steps = {key for column in columns if column.host_column is None for key in leaf_keys(column)}
    read_by_host = {key for host in by_key.values() for key in leaf_keys(host)}
    for key in read_by_steps & features.keys():
        require_numbers(key, features[key])
    transformed = {
        key: value
        for key, value in features.items()
        if key in read_by_steps or not _left_out(value, key in read_by_host)
    }
    return transformed | host_arrays(features, [host for key, host in by_key.items() if key not in features])


def host_arrays(features: Features, columns: Iterable[FeatureColumn]) -> dict[str, np.ndarray[Any, Any]]:
    """Return what the host computes of columns, by keys that start with the columns' names.

    Args:
        features: A batch, as it comes from the input pipeline.
        columns: `FeatureColumn.host_column` of columns, no two of one key.

    Raises:
        ValueError: A feature is absent or does not fit its column, or an id is out of range.
    """
    given = RememberingFeatures(features)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for column in columns:
        arrays.update(column.transformed(given))
    return arrays


class HostNeeded(BaseException):
    """The host has not done its part for columns, which are known now.

    It is no ``Exception``: of those that a layer in a model raises, Keras makes others, or only warns.

    Attributes:
        columns: The columns.
    """

    def __init__(self, columns: tuple[FeatureColumn, ...]) -> None:
        super().__init__(f"The host is to compute {', '.join(column.name for column in columns)}.")
        self.columns = columns


def asking_for_host() -> contextlib.AbstractContextManager[None]:
    """Let columns raise `HostNeeded` in a ``with`` block that traces a step, if the host must do its part."""
    from muster.program.variables import sharing  # imports Keras, which a server does without

    return sharing(_ASKS, True)


def on_host(features: Features, columns: Iterable[FeatureColumn]) -> Features:
    """Return features for a step that runs now: those that are not a step's are transformed.

    Raises:
        HostNeeded: They are a step's, and the host has not done its part, in `asking_for_host`.
    """
    columns = tuple(columns)
    from muster.program.variables import shared_with_step

    asks = shared_with_step(_ASKS)
    traced = any(map(is_traced, jax.tree.leaves(list(features.values())))) or (not features and asks)
    if not traced:
        return transform_features(features, columns)
    if asks and (needed := tuple(each for each in columns if _needs_host(each, features))):
        raise HostNeeded(needed)
    return features


def _needs_host(column: FeatureColumn, features: Features) -> bool:
    host = column.host_column
    if host is None or host.host_key in features:
        return False
    if any(isinstance(features.get(key), SparseTensor) for key in leaf_keys(host)):
        return True
    alone = isinstance(host, CategoricalColumn) and type(host).traced_ids is not CategoricalColumn.traced_ids
    return not alone or not all(key in features for key in leaf_keys(host))


def _left_out(value: Any, read_by_host: bool) -> bool:
    if isinstance(value, SparseTensor | RaggedTensor):
        return True
    dtype = dtype_of(value)
    return is_text(dtype) or (read_by_host and is_integer(dtype))
