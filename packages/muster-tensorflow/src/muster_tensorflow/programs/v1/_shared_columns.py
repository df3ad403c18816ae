"""The functions of ``tf.compat.v1.feature_column`` that differ from TensorFlow 2's.

Source: tensorflow/python/feature_column/feature_column.py and feature_column_v2.py.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from muster.feature_column import FeatureColumn, shared_embeddings
from muster.feature_column import categorical_column_with_vocabulary_file as _of_file
from muster.feature_column import input_layer as _input_layer
from muster.feature_column import linear_model as _linear_model
from muster_tensorflow.library.ops._parameters import takes

categorical_column_with_vocabulary_file = takes(
    _of_file, "key vocabulary_file vocabulary_size num_oov_buckets default_value dtype"
)


def shared_embedding_columns(
    categorical_columns: Sequence[Any],
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | os.PathLike[str] | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[Any]:
    """Do as ``shared_embeddings``, whose table is called ``embedding_weights``, in a scope of its name.

    Raises:
        ValueError: As by ``shared_embeddings``.
    """
    columns = shared_embeddings(
        categorical_columns,
        dimension,
        combiner,
        initializer,
        shared_embedding_collection_name,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
    )
    table = columns[0].embedding_table
    table = replace(table, path=(*table.path, "embedding_weights"))
    return [replace(column, embedding_table=table) for column in columns]


def input_layer(
    features: Any,
    feature_columns: Any,
    weight_collections: object = None,
    trainable: bool = True,
    cols_to_vars: None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> Any:
    """Return the values of columns, as `muster.feature_column.input_layer` does.

    Args:
        features: By key.
        feature_columns: One column, or several.
        weight_collections: Unused.
        trainable: Whether embeddings are trained.
        cols_to_vars: None: variables are found by their names.
        cols_to_output_tensors: Gets the values of each column, by the column.
    """
    _require_defaults("input_layer", cols_to_vars)
    alone = isinstance(feature_columns, FeatureColumn)
    columns: list[Any] = [feature_columns] if alone else [*feature_columns]
    return _input_layer(features, columns, weight_collections, trainable, cols_to_output_tensors)


def linear_model(
    features: Any,
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: object = None,
    trainable: bool = True,
    cols_to_vars: None = None,
) -> Any:
    """Return weighted sums of columns, as `muster.feature_column.linear_model` does.

    Args:
        features: By key.
        feature_columns: One column, or several.
        units: How many sums to return.
        sparse_combiner: How weights of several ids of a column add up.
        weight_collections: Unused.
        trainable: True.
        cols_to_vars: None: variables are found by their names.
    """
    if not trainable:
        raise ValueError("linear_model is trained here: give the optimizer the variables to train.")
    _require_defaults("linear_model", cols_to_vars)
    return _linear_model(features, feature_columns, units, sparse_combiner)


def _require_defaults(function: str, *given: object) -> None:
    if any(each is not None for each in given):
        raise ValueError(f"{function} fills no dicts of variables: find variables by their names.")
