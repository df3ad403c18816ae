"""``tf.compat.v1.feature_column.shared_embedding_columns``.

Source: tensorflow/python/feature_column/feature_column_v2.py, ``shared_embedding_columns``.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from muster.feature_column import shared_embeddings


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
