"""``linear_model``: weighted sums of columns."""

from collections.abc import Iterable

import jax
import jax.numpy as jnp

from muster.feature_column._categorical_column import CategoricalColumn
from muster.feature_column._column_lists import sorted_columns
from muster.feature_column._dense_column import DenseColumn, Table, column_scopes
from muster.feature_column._dense_features import dense_features
from muster.feature_column._host_values import Features
from muster.feature_column._lookup import combined_rows, require_combiner
from muster.feature_column._tables import new_table
from muster.feature_column._transform import on_host

Column = DenseColumn | CategoricalColumn


def linear_model(
    features: Features,
    feature_columns: Iterable[Column] | Column,
    units: int = 1,
    sparse_combiner: str = "sum",
    *,
    scope: tuple[str, ...] = ("linear_model",),
) -> jax.Array:
    """Return weighted sums of columns, plus a bias; weights and bias start at zero.

    The variables have TensorFlow's names, below the current name scope: ``linear_model/<column>/weights``, of
    shape (num_elements or num_buckets, units), and ``linear_model/bias_weights``, of shape (units,).

    Args:
        features: By key, each of shape (batch, ...), per replica; in a step, what `transform_features`
            returned.
        feature_columns: One column, or columns in any order, dense or categorical.
        units: How many sums to return.
        sparse_combiner: How weights of several ids of a column add up: ``"sum"``, ``"mean"`` or ``"sqrtn"``.
        scope: The scopes of the variables.

    Returns:
        float32 of shape (batch, units).

    Raises:
        ValueError: The columns cannot make a model, there is no such combiner, a feature is missing, or does
            not fit its column.

    Source: ``linear_model`` (tensorflow/python/feature_column/feature_column.py).
    """
    require_combiner(sparse_combiner)
    columns = sorted_columns(feature_columns, wanted=(DenseColumn, CategoricalColumn))
    total: jax.Array = new_table(Table(path=(*scope, "bias_weights"), shape=(units,))).value
    here = on_host(features, columns)
    weights = {column.name: _weights(column, units, scope) for column in columns}
    for column in columns:
        if isinstance(column, CategoricalColumn):
            found = column.step_ids(here)
            total = total + combined_rows(weights[column.name], found, sparse_combiner)
    dense = [column for column in columns if not isinstance(column, CategoricalColumn)]
    if dense:
        # One product, since XLA takes a second to compile ten of them.
        stacked = jnp.concatenate([weights[column.name] for column in dense])
        total = total + jnp.matmul(dense_features(here, dense), stacked)
    return total


def _weights(column: Column, units: int, scope: tuple[str, ...]) -> jax.Array:
    rows = column.num_buckets if isinstance(column, CategoricalColumn) else column.num_elements
    path = (*scope, *column_scopes(column.name), "weights")
    value: jax.Array = new_table(Table(path=path, shape=(rows, units))).value
    return value
