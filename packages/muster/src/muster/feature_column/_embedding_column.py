"""``embedding_column``, ``shared_embeddings``: rows of tables, by ids; ``indicator_column``: their counts."""

import dataclasses
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from muster._keras import keras
from muster._paths import local_path
from muster.checkpoint.tensorflow import find_checkpoint, read_either
from muster.feature_column._categorical_column import CategoricalColumn, PaddedIds
from muster.feature_column._derived_columns import WeightedCategoricalColumn
from muster.feature_column._feature_column import Table, column_scopes
from muster.feature_column._ids_as_values import IdsAsValues, require_categorical
from muster.feature_column._lookup import combined_rows, counts, require_combiner
from muster.feature_column._tables import table_initializer


@dataclass(frozen=True, kw_only=True)
class IndicatorColumn(IdsAsValues):
    """A column of counts of ids, made by `indicator_column`.

    Args:
        categorical_column: The ids.

    Source: ``IndicatorColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        """The name of the ids, and ``_indicator``."""
        return f"{self.categorical_column.name}_indicator"

    @property
    def num_elements(self) -> int:
        """The number of buckets."""
        return self.categorical_column.num_buckets

    def values_of(self, ids: PaddedIds, table: jax.Array | None) -> jax.Array:
        """Return how often each id occurs, or the sum of its weights."""
        return counts(ids, self.num_elements)


def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """Return a column of one value for each id: how often it occurs, or the sum of its weights.

    Args:
        categorical_column: The ids.

    Raises:
        ValueError: It is another kind of column.

    Source: ``indicator_column`` (tensorflow/python/feature_column/feature_column_v2.py).

    Example:
        ```python
        colours = muster.feature_column.categorical_column_with_vocabulary_list("colour", ["red", "blue"])
        column = muster.feature_column.indicator_column(colours)
        ```
    """
    if require_categorical(categorical_column).hashed_table is not None:
        raise ValueError(
            f"indicator_column has a value for each id of {categorical_column.name}, and those of a hashed "
            "table are any number. Use embedding_column, or categorical_column_with_hash_bucket."
        )
    return IndicatorColumn(categorical_column=categorical_column)


Initializer = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class EmbeddingTable:
    """A table of embeddings, which several columns may look up in.

    Args:
        path: The scopes and the name of its variable.
        dimension: The length of a row.
        column: A column of ids, which says how many rows there are.
        initializer: Called with a shape and a dtype; None for a truncated normal distribution with a standard
            deviation of 1 / sqrt(dimension).
        ckpt_to_load_from: A checkpoint to start from, or None.
        tensor_name_in_ckpt: The variable's name there.
        trainable: Whether it is trained.
    """

    path: tuple[str, ...]
    dimension: int
    column: CategoricalColumn
    initializer: Initializer | None
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    trainable: bool

    @property
    def table(self) -> Table:
        """The variable."""
        initializer = self.initializer or keras.initializers.TruncatedNormal(
            0.0, 1 / math.sqrt(self.dimension)
        )
        return Table(
            path=self.path,
            shape=(self.column.num_buckets, self.dimension),
            initializer=table_initializer(self.column, initializer)
            if self.ckpt_to_load_from is None
            else self._stored,
            trainable=self.trainable,
        )

    def _stored(self, shape: tuple[int, ...], dtype: Any = None) -> Any:
        path = str(self.ckpt_to_load_from)
        checkpoint = read_either(find_checkpoint(path) or path, mapped=True)
        values = checkpoint.variables.get(str(self.tensor_name_in_ckpt))
        if values is None or tuple(values.shape) != tuple(shape):
            found = "none of this name" if values is None else f"shape {tuple(values.shape)}"
            raise ValueError(
                f"{self.tensor_name_in_ckpt} of {self.ckpt_to_load_from} must have the shape {tuple(shape)} "
                f"of {'/'.join(self.path)}; there is {found}."
            )
        return jax.numpy.asarray(np.asarray(values), dtype)


class _LookedUp(IdsAsValues):
    """The base class of columns that look up rows of tables."""

    combiner: str
    max_norm: float | None

    def values_of(self, ids: PaddedIds, table: jax.Array | None) -> jax.Array:
        """Return the combination of the ids' rows."""
        if table is None:
            raise ValueError(f"The column {self.name} needs the value of its table.")
        return combined_rows(table, ids, self.combiner, self.max_norm)


@dataclass(frozen=True, kw_only=True)
class EmbeddingColumn(_LookedUp):
    """A column of embeddings, made and checked by `embedding_column`, whose arguments it has.

    Source: ``EmbeddingColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    categorical_column: CategoricalColumn
    dimension: int
    combiner: str
    initializer: Initializer | None
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool

    @property
    def name(self) -> str:
        """The name of the ids, and ``_embedding``."""
        return f"{self.categorical_column.name}_embedding"

    @property
    def num_elements(self) -> int:
        """The dimension."""
        return self.dimension

    @property
    def table(self) -> Table:
        """``<name>/embedding_weights``, of shape (num_buckets, dimension)."""
        return EmbeddingTable(
            path=(*column_scopes(self.name), "embedding_weights"),
            dimension=self.dimension,
            column=self.categorical_column,
            initializer=self.initializer,
            ckpt_to_load_from=self.ckpt_to_load_from,
            tensor_name_in_ckpt=self.tensor_name_in_ckpt,
            trainable=self.trainable,
        ).table


@dataclass(frozen=True, kw_only=True)
class SharedEmbeddingColumn(_LookedUp):
    """One of several columns that look up in one table, made and checked by `shared_embeddings`.

    Args:
        categorical_column: The ids.
        embedding_table: The table.
        combiner: As for `embedding_column`.
        max_norm: As for `embedding_column`.

    Source: ``SharedEmbeddingColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    categorical_column: CategoricalColumn
    embedding_table: EmbeddingTable
    combiner: str
    max_norm: float | None

    @property
    def name(self) -> str:
        """The name of the ids, and ``_shared_embedding``."""
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def dimension(self) -> int:
        """The length of a row."""
        return self.embedding_table.dimension

    @property
    def num_elements(self) -> int:
        """The dimension."""
        return self.embedding_table.dimension

    @property
    def table(self) -> Table:
        """The shared table, of shape (num_buckets, dimension)."""
        return dataclasses.replace(self.embedding_table.table, shared_by=self.embedding_table)


def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: Initializer | None = None,
    ckpt_to_load_from: str | os.PathLike[str] | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:
    """Return a column of trained vectors, one for each id; those of an example's ids are combined.

    Args:
        categorical_column: The ids.
        dimension: The length of a vector.
        combiner: ``"mean"``, ``"sqrtn"`` or ``"sum"``; with weights, the sum is divided by that of the
            weights, or by the root of that of their squares.
        initializer: A Keras initializer; None for a truncated normal distribution with a standard deviation
            of 1 / sqrt(dimension).
        ckpt_to_load_from: A checkpoint of muster or TensorFlow that has the vectors to start from, or a
            directory, whose newest is taken.
        tensor_name_in_ckpt: The variable's name there.
        max_norm: The largest Euclidean norm of a vector; longer ones are scaled when they are looked up.
        trainable: Whether they are trained.
        use_safe_embedding_lookup: Ignored: examples without ids always get zeros.

    Raises:
        ValueError: The dimension is not positive, the combiner is none of the three, the initializer cannot
            be called, or only one of a checkpoint and a name is given.

    Source: ``embedding_column`` (tensorflow/python/feature_column/feature_column_v2.py). There, without the
    safe lookup, the last examples are lost if they have no ids.

    Example:
        ```python
        words = muster.feature_column.categorical_column_with_hash_bucket("word", 10_000)
        column = muster.feature_column.embedding_column(words, dimension=16)
        ```
    """
    checkpoint = _checked(
        dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, categorical_column
    )
    return EmbeddingColumn(
        categorical_column=categorical_column,
        dimension=dimension,
        combiner=combiner,
        initializer=initializer,
        ckpt_to_load_from=checkpoint,
        tensor_name_in_ckpt=tensor_name_in_ckpt,
        max_norm=max_norm,
        trainable=trainable,
    )


def shared_embeddings(
    categorical_columns: Sequence[CategoricalColumn],
    dimension: int,
    combiner: str = "mean",
    initializer: Initializer | None = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | os.PathLike[str] | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Return columns of trained vectors that share one table, in the order of their ids' columns.

    All layers of a model_fn share it. Another model, or another layer outside of a model_fn, has one of its
    own.

    Args:
        categorical_columns: The ids: columns of one kind, with the same number of buckets.
        dimension: As for `embedding_column`.
        combiner: As for `embedding_column`.
        initializer: As for `embedding_column`.
        shared_embedding_collection_name: The name of the table; by default the columns' names, sorted, and
            ``_shared_embedding``.
        ckpt_to_load_from: As for `embedding_column`.
        tensor_name_in_ckpt: As for `embedding_column`.
        max_norm: As for `embedding_column`.
        trainable: As for `embedding_column`.
        use_safe_embedding_lookup: Ignored.

    Raises:
        ValueError: As by `embedding_column`, or columns differ in kind or in buckets.

    Source: ``shared_embeddings`` (tensorflow/python/feature_column/feature_column_v2.py). There, they work
    only in graphs.
    """
    columns = sorted(map(require_categorical, categorical_columns), key=lambda column: column.name)
    if not columns:
        raise ValueError("categorical_columns must not be empty.")
    first = columns[0]
    for column in columns[1:]:
        if column.num_buckets != first.num_buckets:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same number "
                "of buckets. "
                f"Given column: {first} with buckets: {first.num_buckets} does  not match column: "
                f"{column} with "
                f"buckets: {column.num_buckets}"
            )
        if type(_ids_of(column)) is not type(_ids_of(first)):
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same type, or be "
                f"weighted_categorical_column of the same type. Given column: {first} of type: {type(first)} "
                f"does not match given column: {column} of type: {type(column)}"
            )
        if _keeping(column) != _keeping(first):
            raise ValueError(
                f"{column.name} and {first.name} cannot share a hashed table, which would keep ids in two "
                f"ways: {_keeping(column)} and {_keeping(first)}. Give both columns the same."
            )
    name = shared_embedding_collection_name
    if not name:
        name = "_".join(column.name for column in columns) + "_shared_embedding"
    checkpoint = _checked(dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, first)
    table = EmbeddingTable(
        path=column_scopes(name),
        dimension=dimension,
        column=first,
        initializer=initializer,
        ckpt_to_load_from=checkpoint,
        tensor_name_in_ckpt=tensor_name_in_ckpt,
        trainable=trainable,
    )
    return [
        SharedEmbeddingColumn(
            categorical_column=column, embedding_table=table, combiner=combiner, max_norm=max_norm
        )
        for column in categorical_columns
    ]


def _keeping(column: CategoricalColumn) -> dict[str, Any]:
    """Return the arguments of a column by which its hashed table keeps ids; nothing of another column."""
    names = ("admit_after", "max_age", "max_rows", "evict")
    hashed = column.hashed_table
    return {} if hashed is None else {name: getattr(hashed, name) for name in names}


def _ids_of(column: CategoricalColumn) -> CategoricalColumn:
    return column.categorical_column if isinstance(column, WeightedCategoricalColumn) else column


def _checked(
    dimension: int | None,
    combiner: str,
    initializer: Any,
    ckpt_to_load_from: str | os.PathLike[str] | None,
    tensor_name_in_ckpt: str | None,
    column: CategoricalColumn,
) -> str | None:
    """Check arguments of embeddings, and return the checkpoint's path as text."""
    name = require_categorical(column).name
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (ckpt_to_load_from is None) != (tensor_name_in_ckpt is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them.")
    if initializer is not None and not callable(initializer):
        raise ValueError(f"initializer must be callable if specified. Embedding of column_name: {name}")
    require_combiner(combiner)
    if column.hashed_table is not None and ckpt_to_load_from is not None:
        raise ValueError(
            f"The hashed table of {name} cannot be loaded by ckpt_to_load_from. Give the Estimator "
            "warm_start_from, or go on in its model_dir."
        )
    return None if ckpt_to_load_from is None else local_path(ckpt_to_load_from)
