"""Apply columns to the placeholders of an exported model's inputs."""

from collections.abc import Mapping, Sequence

from muster.data import Placeholder
from muster.feature_column._as_data import host_columns, host_specs
from muster.feature_column._feature_column import FeatureColumn


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
