"""Models with feature column layers: run the columns' host part on each batch.

TensorFlow's ``DenseFeatures`` looks up text in the step, where no array of JAX holds text. So `fit`,
`evaluate` and `predict` of a model that has such layers compute the ids where input functions run. In a
functional model a layer of the host stands before the columns' own, which has the weights.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from muster import keras
from muster.feature_column import ColumnLayer, transform_features
from muster_tensorflow.patches import wrap
from muster_tensorflow.programs.v2.layers._host_layer import HostLayer, is_text


class ColumnPart:
    """Computes on the host what the layers of feature columns in a model need.

    Args:
        columns: Those of all its layers.
    """

    def __init__(self, columns: tuple[Any, ...]) -> None:
        self._columns = columns

    def parts(self, inputs: Any) -> Any:
        """Return a batch's features with what the host computes; of what has that already, the same."""
        return _transformed(inputs, self._columns) if isinstance(inputs, Mapping) else inputs


def _transformed(features: Mapping[str, Any], columns: tuple[Any, ...]) -> dict[str, Any]:
    """Return what the host computes of columns, and all features that are numbers."""
    numbers = {key: value for key, value in features.items() if np.asarray(value).dtype.kind in "biuf"}
    return numbers | transform_features(features, columns)


def column_part(model: Any) -> ColumnPart | None:
    """Return what the host does for a model's layers of feature columns; None if there is nothing to do."""
    layers = [each for each in model._flatten_layers() if isinstance(each, ColumnLayer)]
    columns = tuple(column for layer in layers for column in layer.columns)
    return None if all(column.host_column is None for column in columns) else ColumnPart(columns)


class ColumnsOnHost(HostLayer):
    """The host's part of columns, in a functional model whose inputs are text.

    Args:
        columns: The columns.
    """

    def __init__(self, columns: tuple[Any, ...]) -> None:
        super().__init__()
        self._columns = columns

    def __call__(self, inputs: Any) -> Any:
        """Make a part of the model of symbolic features."""
        return keras.layers.Layer.__call__(self, inputs)

    def call(self, inputs: Any) -> Any:
        """Return what the columns' own layer takes."""
        return _transformed(inputs, self._columns)


def _of_text(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``ColumnLayer.__call__``: symbolic text goes through a layer of the host before."""

    @functools.wraps(original)
    def call(self: Any, features: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(features, Mapping) and any(map(is_text, features.values())):
            features = ColumnsOnHost(self.columns)(dict(features))
        return original(self, features, *args, **kwargs)

    return call


def patch() -> None:
    """Let layers of columns stand in functional models whose inputs are text."""
    wrap(ColumnLayer, "__call__", _of_text)
