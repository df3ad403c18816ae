"""The base class of dense columns, and descriptions of their tables."""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from muster.feature_column._feature_column import FeatureColumn
from muster.feature_column._host_values import Features


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
