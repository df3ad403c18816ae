"""The base classes of feature columns, and descriptions of the tables of dense ones."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
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


@dataclass(frozen=True, kw_only=True)
class Table:
    """A variable of a model that columns read: embeddings, or a linear model's weights.

    Args:
        path: The scopes and the name of the variable.
        shape: Its shape.
        initializer: A Keras initializer.
        trainable: Whether it is trained.
        shared_by: What all layers of a model_fn share it for: an object that tells it from other tables. None
            for a variable of one layer.
    """

    path: tuple[str, ...]
    shape: tuple[int, ...]
    initializer: str | Callable[..., Any] = "zeros"
    trainable: bool = True
    shared_by: object = None


class DenseColumn(FeatureColumn):
    """A feature column with a fixed number of values for each example.

    Source: ``DenseColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    @property
    @abstractmethod
    def num_elements(self) -> int:
        """The number of values for each example."""

    @property
    def table(self) -> Table | None:
        """The variable that the column reads, which columns may share; None if it reads none."""
        return None

    @abstractmethod
    def dense_values(self, features: Features, table: jax.Array | None = None) -> jax.Array:
        """Return the values of the column for a batch.

        Args:
            features: The features that the column reads, and others; what the host computes of the column has
                been computed.
            table: The value of the column's table, if it has one.

        Returns:
            float32 of shape (batch, num_elements).

        Raises:
            ValueError: A feature is absent, has another shape, or holds no numbers.
        """


def column_scopes(name: str) -> tuple[str, ...]:
    """Return a column's name as the scopes of a variable's path, with TensorFlow's replacements by "_"."""
    return tuple(scope for scope in re.sub(r"[^A-Za-z0-9_.\-/]", "_", name).split("/") if scope)


def table_of(column: DenseColumn, tables: Mapping[tuple[str, ...], Any]) -> Any:
    """Return the variable or value that a column reads; None if it reads none."""
    return None if column.table is None else tables[column.table.path]
