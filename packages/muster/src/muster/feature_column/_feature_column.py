"""Feature columns: their base class."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from muster.data import FixedLenFeature, VarLenFeature
from muster.feature_column._host_values import Features

ParseSpec: TypeAlias = dict[str, FixedLenFeature | VarLenFeature]
"""The parsing specs for `muster.data.parse_example`, by key."""


class FeatureColumn(ABC):
    """A feature column: an immutable value without weights, which are the model's.

    Source: ``FeatureColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the column, unique in a model, and of its weights."""

    @property
    @abstractmethod
    def parents(self) -> tuple["FeatureColumn | str", ...]:
        """The columns that this one is made of, and the keys of features that it reads."""

    @property
    def host_column(self) -> "FeatureColumn | None":
        """The column that the host must compute, under `host_key`; None if steps compute all."""
        return None

    @property
    def host_key(self) -> str:
        """The key of the column among features that have been transformed, if the host computes it."""
        return self.name

    def transformed(self, features: Features) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return what the host computes of the column, for the step.

        Args:
            features: The features that the column reads, as they come from the input pipeline, and others.

        Raises:
            ValueError: A feature is absent or does not fit the column.
        """
        return {}

    @property
    @abstractmethod
    def parse_example_spec(self) -> ParseSpec:
        """The features that `muster.data.parse_example` must read, by key."""


class KeyedColumn(FeatureColumn):
    """A feature column of one feature, by whose key it is named."""

    key: str

    @property
    def name(self) -> str:
        """The key."""
        return self.key

    @property
    def parents(self) -> tuple[str]:
        """The key."""
        return (self.key,)


class ValuesByKey(KeyedColumn):
    """A feature column of any number of values of one feature."""

    dtype: np.dtype[Any]

    @property
    def parse_example_spec(self) -> ParseSpec:
        """The feature, with any number of values."""
        return {self.key: VarLenFeature(self.dtype)}


def leaf_keys(column: FeatureColumn) -> set[str]:
    """Return the keys of all features that a column reads."""
    keys: set[str] = set()
    for parent in column.parents:
        keys |= {parent} if isinstance(parent, str) else leaf_keys(parent)
    return keys
