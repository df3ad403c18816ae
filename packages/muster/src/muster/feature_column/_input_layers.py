"""The values of columns in one array, dense, of sequences, or in weighted sums; as functions and layers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import DatasetError
from muster._keras import keras
from muster.distribute.engine import is_hashed
from muster.feature_column._categorical_column import CategoricalColumn
from muster.feature_column._column_lists import columns_of, sorted_columns
from muster.feature_column._feature_column import DenseColumn, Table, column_scopes, table_of
from muster.feature_column._host_values import Features, is_traced
from muster.feature_column._lookup import combined_rows, require_combiner
from muster.feature_column._sequence_column import SequenceDenseColumn
from muster.feature_column._tables import new_table, new_tables, table_initializer
from muster.feature_column._transform import on_host


def dense_features(
    features: Features,
    feature_columns: Iterable[DenseColumn] | DenseColumn,
    tables: Mapping[tuple[str, ...], Any] | None = None,
) -> jax.Array:
    """Concatenate the values of columns for a batch, in the order of the columns' names.

    Args:
        features: Features of shape (batch, ...) by key; in a step, what `transform_features` returned.
        feature_columns: One column, or columns in any order.
        tables: The variables that columns look up in, or their values, by their path; None creates them,
            below the current name scope, as for `EmbeddingColumn` in ``<column's name>/embedding_weights``.

    Returns:
        float32 of shape (batch, the sum of the columns' ``num_elements``).

    Raises:
        ValueError: `sorted_columns` refuses the columns, a column refuses its feature, or features differ
            in length.

    Source: ``DenseFeatures`` (tensorflow/python/keras/feature_column/dense_features_v2.py).
    """
    columns: tuple[DenseColumn, ...] = sorted_columns(feature_columns)
    tables = new_tables(columns) if tables is None else tables
    here = on_host(features, columns)
    values = [column.dense_values(here, value_of(table_of(column, tables))) for column in columns]
    for column, rows in zip(columns, values, strict=True):
        if rows.shape[0] != values[0].shape[0]:
            raise ValueError(
                "Batch size (first dimension) of each feature must be same. Batch size of columns "
                f"({columns[0].name}, {column.name}): ({values[0].shape[0]}, {rows.shape[0]})"
            )
        if rows.ndim != 2:
            raise ValueError(
                f"Column {column.name} has values of shape {rows.shape}, and a dense one has one axis of "
                "values. Does its feature have an axis too many?"
            )
    return jnp.concatenate(values, axis=1)


class ColumnLayer(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
    """A layer of columns, which calls them with the tables that it has.

    Args:
        columns: The columns.
        trainable: Whether their tables are trained.
        name: The name of the layer.
    """

    def __init__(self, columns: tuple[Any, ...], trainable: bool = True, name: str | None = None) -> None:
        super().__init__(trainable=trainable, name=name)
        self._columns = columns
        self._paths: tuple[tuple[str, ...], ...] = ()
        self._tables: list[keras.Variable] = []

    def __call__(self, features: Features, *args: Any, **kwargs: Any) -> Any:
        """Do the host's part on features that are not a step's, then call the layer."""
        if not isinstance(features, Mapping):
            raise ValueError(f"We expected a dictionary here. Instead we got: {features}")
        # Keras takes lists for structures of tensors.
        features = {
            key: np.asarray(value) if isinstance(value, list) else value for key, value in features.items()
        }
        if not any(isinstance(value, keras.KerasTensor) for value in features.values()):
            features = on_host(features, self._columns)
        return super().__call__(features, *args, **kwargs)

    def build(self, input_shape: Any = None) -> None:
        """Create the tables, once."""
        tables = new_tables(self._columns)
        self._paths, self._tables = tuple(tables), list(tables.values())
        self.built = True

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns."""
        return self._columns

    @property
    def tables(self) -> dict[tuple[str, ...], keras.Variable]:
        """The tables by their paths."""
        return dict(zip(self._paths, self._tables, strict=True))


class DenseFeatures(ColumnLayer):
    """A Keras layer of the values of dense columns, concatenated in the order of their names.

    Its input is a dict of features of shape (batch, ...); in a step, what `transform_features` returned. Its
    output is float32 of shape (batch, the sum of the columns' ``num_elements``).

    Args:
        feature_columns: One column, or columns in any order.
        trainable: Whether embeddings are trained.
        name: The name of the layer.

    Raises:
        ValueError: There are no columns, two of one name, or one that is not dense.

    Source: ``DenseFeatures`` (tensorflow/python/keras/feature_column/dense_features_v2.py).
    """

    def __init__(
        self,
        feature_columns: Iterable[DenseColumn] | DenseColumn,
        trainable: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(sorted_columns(feature_columns), trainable, name)

    def __call__(
        self,
        features: Features,
        *args: Any,
        cols_to_output_tensors: dict[DenseColumn, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call the layer; put the values of each column in the dict, if there is one, by the column."""
        values = super().__call__(features, *args, **kwargs)
        _split(values, self._columns, cols_to_output_tensors)
        return values

    def call(self, features: Features) -> jax.Array:
        """Return the values of a batch."""
        return dense_features(features, self._columns, self.tables)


def input_layer(
    features: Features,
    feature_columns: Iterable[DenseColumn] | DenseColumn,
    weight_collections: object = None,
    trainable: bool = True,
    cols_to_output_tensors: dict[DenseColumn, Any] | None = None,
) -> jax.Array:
    """Return what `dense_features` does, with variables below ``input_layer``.

    Args:
        features: As for `dense_features`.
        feature_columns: Likewise.
        weight_collections: Ignored: variables are in no collections.
        trainable: Whether embeddings are trained.
        cols_to_output_tensors: Gets the values of each column, float32 of shape (batch, ``num_elements``),
            by the column.

    Source: ``input_layer`` (tensorflow/python/feature_column/feature_column.py).
    """
    columns = sorted_columns(feature_columns)
    with keras.name_scope("input_layer"):
        values = dense_features(features, columns, new_tables(columns, trainable))
    _split(values, columns, cols_to_output_tensors)
    return values


def _split(values: Any, columns: tuple[DenseColumn, ...], into: dict[DenseColumn, Any] | None) -> None:
    """Put the values of each column, which are concatenated in their order, into a dict."""
    if into is not None:
        start = 0
        for column in columns:
            into[column] = values[:, start : start + column.num_elements]
            start += column.num_elements


def value_of(table: Any) -> Any:
    """Return the value of a table that may be a variable; that of a hashed table is the variable itself."""
    return table.value if isinstance(table, keras.Variable) and not is_hashed(table.shape) else table


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


def _weights(column: Column, units: int, scope: tuple[str, ...]) -> Any:
    path = (*scope, *column_scopes(column.name), "weights")
    if not isinstance(column, CategoricalColumn):
        return new_table(Table(path=path, shape=(column.num_elements, units))).value
    initializer = table_initializer(column, keras.initializers.Zeros())
    return value_of(new_table(Table(path=path, shape=(column.num_buckets, units), initializer=initializer)))


class SequenceFeatures(ColumnLayer):
    """A Keras layer of the values of columns of sequences, concatenated in the order of their names.

    Its input is a dict of features; in a step, what `transform_features` returned. Its output is float32 of
    shape (batch, steps, the sum of the columns' ``num_elements``), and the sequences' lengths, int32 of shape
    (batch,).

    Args:
        feature_columns: One column, or columns in any order.
        trainable: Whether embeddings are trained.
        name: The name of the layer.

    Raises:
        ValueError: There are no columns, two of one name, or one that is not of sequences. When it is called:
            sequences of two columns differ in length.

    Source: ``SequenceFeatures`` (tensorflow/python/keras/feature_column/sequence_feature_column.py).
    """

    def __init__(
        self,
        feature_columns: Iterable[SequenceDenseColumn] | SequenceDenseColumn,
        trainable: bool = True,
        name: str | None = None,
    ) -> None:
        columns = columns_of(feature_columns)
        super().__init__(sorted_columns(columns, wanted=(SequenceDenseColumn,)), trainable, name)

    def call(self, features: Features) -> tuple[jax.Array, jax.Array]:
        """Return the values of a batch, and the lengths of its sequences."""
        return _sequences(features, self._columns, self.tables)


def sequence_input_layer(
    features: Features,
    feature_columns: Iterable[SequenceDenseColumn] | SequenceDenseColumn,
    weight_collections: object = None,
    trainable: bool = True,
) -> tuple[jax.Array, jax.Array]:
    """Return what `SequenceFeatures` does, with variables below ``sequence_input_layer``.

    Args:
        features: Features by key; in a step, what `transform_features` returned.
        feature_columns: One column, or columns in any order.
        weight_collections: Ignored: variables are in no collections.
        trainable: Whether embeddings are trained.

    Raises:
        ValueError: As by `SequenceFeatures`.

    Source: ``sequence_input_layer`` (tensorflow/contrib/feature_column/python/feature_column/
    sequence_feature_column.py of TensorFlow 1.15).
    """
    columns = sorted_columns(columns_of(feature_columns), wanted=(SequenceDenseColumn,))
    with keras.name_scope("sequence_input_layer"):
        return _sequences(on_host(features, columns), columns, new_tables(columns, trainable))


def _sequences(
    features: Features, columns: Sequence[Any], tables: Mapping[tuple[str, ...], Any]
) -> tuple[jax.Array, jax.Array]:
    found = [column.sequence_values(features, value_of(table_of(column, tables))) for column in columns]
    values, lengths = zip(*found, strict=True)
    first = values[0]
    for column, other in zip(columns[1:], lengths[1:], strict=True):
        if is_traced(other):
            # NaN has the step run eagerly, which raises the error.
            first = first * jnp.where(jnp.array_equal(other, lengths[0]), 1, jnp.nan).astype(first.dtype)
        elif not np.array_equal(other, lengths[0]):
            raise DatasetError(
                f"Condition x == y did not hold: sequences of {columns[0].name} have the lengths "
                f"{np.asarray(lengths[0])}, those of {column.name} {np.asarray(other)}."
            )
    return jnp.concatenate([first, *values[1:]], axis=-1), lengths[0]
