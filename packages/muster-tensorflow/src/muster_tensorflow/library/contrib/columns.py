"""``tf.contrib.layers``: feature columns by the names that they had there."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from muster import feature_column


def real_valued_column(
    column_name: str,
    dimension: int = 1,
    default_value: Any = None,
    dtype: Any = np.float32,
    normalizer: Callable[[Any], Any] | None = None,
) -> Any:
    """Return a ``numeric_column``."""
    return feature_column.numeric_column(column_name, (dimension,), default_value, dtype, normalizer)


def sparse_column_with_hash_bucket(
    column_name: str,
    hash_bucket_size: int,
    combiner: str = "sum",
    dtype: Any = np.str_,
    hash_keys: None = None,
) -> Any:
    """Return a ``categorical_column_with_hash_bucket``; ``combiner`` is unused."""
    return feature_column.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype)


def sparse_column_with_keys(
    column_name: str, keys: Sequence[Any], default_value: int = -1, combiner: str = "sum", dtype: Any = None
) -> Any:
    """Return a ``categorical_column_with_vocabulary_list``; ``combiner`` is unused."""
    return feature_column.categorical_column_with_vocabulary_list(column_name, keys, dtype, default_value)


def sparse_column_with_integerized_feature(
    column_name: str, bucket_size: int, combiner: str = "sum", dtype: Any = np.int64
) -> Any:
    """Return a ``categorical_column_with_identity``; ``combiner`` is unused."""
    return feature_column.categorical_column_with_identity(column_name, bucket_size)


def bucketized_column(source_column: Any, boundaries: Sequence[float]) -> Any:
    """Return a ``bucketized_column``."""
    return feature_column.bucketized_column(source_column, list(boundaries))


def crossed_column(
    columns: Sequence[Any],
    hash_bucket_size: int,
    combiner: str = "sum",
    hash_key: int | None = None,
    **unused: Any,
) -> Any:
    """Return a ``crossed_column``; ``combiner`` is unused."""
    return feature_column.crossed_column(columns, hash_bucket_size, hash_key)


def embedding_column(
    sparse_id_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> Any:
    """Return an ``embedding_column``."""
    return feature_column.embedding_column(
        sparse_id_column,
        dimension,
        combiner,
        initializer,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
    )


def one_hot_column(sparse_id_column: Any) -> Any:
    """Return an ``indicator_column``."""
    return feature_column.indicator_column(sparse_id_column)
