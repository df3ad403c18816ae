"""The variables of the tables that columns read."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from muster._keras import keras
from muster.distribute.engine import hashed_initializer
from muster.feature_column._categorical_column import CategoricalColumn
from muster.feature_column._feature_column import DenseColumn, Table
from muster.program.variables import current_scope
from muster.ps.tables import Keeping


def table_initializer(column: CategoricalColumn, initializer: Callable[..., Any]) -> Callable[..., Any]:
    """Return what initializes the table of a column's ids.

    Args:
        column: The column.
        initializer: What its rows begin with.

    Raises:
        TypeError: The table is a hashed one, whose rows cannot begin with that.
    """
    hashed = column.hashed_table
    if hashed is None:
        return initializer
    keeping = Keeping(
        admit_after=hashed.admit_after,
        max_age=hashed.max_age,
        max_rows=hashed.max_rows,
        evict=hashed.evict,
    )
    return hashed_initializer(initializer, keeping)


def new_table(table: Table) -> keras.Variable:
    """Create the variable of a table, below the current name scope."""
    *scopes, name = table.path
    with ExitStack() as entered:
        for scope in scopes:
            entered.enter_context(keras.name_scope(scope))
        return keras.Variable(table.initializer, table.shape, "float32", trainable=table.trainable, name=name)


def new_tables(
    columns: Iterable[DenseColumn], trainable: bool = True
) -> dict[tuple[str, ...], keras.Variable]:
    """Create the variables that columns read, one for those that share, below the current name scope.

    In a model_fn, what layers share is created for the first.

    Args:
        columns: The columns.
        trainable: Whether tables are trained, unless their columns say not.

    Raises:
        ValueError: Two tables that are not shared have one name, as those of the features "a b" and "a_b".
    """
    tables: dict[tuple[str, ...], Table] = {}
    for column in columns:
        if (table := column.table) is None:
            continue
        other = tables.setdefault(table.path, table)
        if other is not table and (table.shared_by is None or table.shared_by is not other.shared_by):
            raise ValueError(
                f"Two tables of feature columns would have the name {'/'.join(table.path)!r}, that of "
                f"{column.name} among them. Rename a feature, or give another "
                "shared_embedding_collection_name."
            )
    return {
        path: _shared_or_new(replace(table, trainable=table.trainable and trainable))
        for path, table in tables.items()
    }


def _shared_or_new(table: Table) -> keras.Variable:
    scope = current_scope()
    if scope is None or table.shared_by is None:
        return new_table(table)
    key = (Table, id(table.shared_by))
    if key not in scope.shared:
        scope.shared[key] = (new_table(table), table.shared_by)  # which keeps its id
    return scope.shared[key][0]
