"""The values of columns of sequences in one array, as a layer and as a function."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import DatasetError
from muster._keras import keras
from muster.feature_column._column_lists import columns_of, sorted_columns
from muster.feature_column._dense_column import table_of
from muster.feature_column._dense_features import ColumnLayer, value_of
from muster.feature_column._host_values import Features, is_traced
from muster.feature_column._sequence_column import SequenceDenseColumn
from muster.feature_column._tables import new_tables
from muster.feature_column._transform import on_host


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
