"""Dense columns: their base class, and the tables in which they look up."""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import jax

from muster._keras import keras
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
    """

    path: tuple[str, ...]
    shape: tuple[int, ...]
    initializer: str | Callable[..., Any] = "zeros"
    trainable: bool = True

    def variable(self) -> keras.Variable:
        """Create the variable, below the current name scope."""
        *scopes, name = self.path
        with ExitStack() as entered:
            for scope in scopes:
                entered.enter_context(keras.name_scope(scope))
            return keras.Variable(
                self.initializer, self.shape, "float32", trainable=self.trainable, name=name
            )


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


def scopes(name: str) -> tuple[str, ...]:
    """Return a column's name as the scopes of a variable's path, with TensorFlow's replacements by "_"."""
    return tuple(scope for scope in re.sub(r"[^A-Za-z0-9_.\-/]", "_", name).split("/") if scope)


def new_tables(columns: Iterable[DenseColumn]) -> dict[tuple[str, ...], keras.Variable]:
    """Create the variables that columns read, one for those that share, below the current name scope."""
    tables = {table.path: table for column in columns if (table := column.table) is not None}
    return {path: table.variable() for path, table in tables.items()}


def table_of(column: DenseColumn, tables: Mapping[tuple[str, ...], Any]) -> Any:
    """Return the variable or value that a column reads; None if it reads none."""
    return None if column.table is None else tables[column.table.path]
