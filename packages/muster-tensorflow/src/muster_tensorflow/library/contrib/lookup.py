"""``tf.contrib.lookup``: tables of lists by the names that their arguments had there.

Source: tensorflow/contrib/lookup/lookup_ops.py of TensorFlow 1.15.
"""

from typing import Any

from muster_tensorflow.programs.v2.data import _tables


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> _tables.StaticHashTable:
    """Return a table from words to their places in a list."""
    return _tables.index_table_from_tensor(mapping, num_oov_buckets, default_value)


def string_to_index(tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None) -> Any:
    """Return the places of words in a list."""
    return index_table_from_tensor(mapping, default_value=default_value).lookup(tensor)


def index_to_string_table_from_tensor(
    mapping: Any, default_value: str = "UNK", name: str | None = None
) -> _tables.StaticHashTable:
    """Return a table from places in a list to its words."""
    return _tables.index_to_string_table_from_tensor(mapping, default_value)


def index_to_string(tensor: Any, mapping: Any, default_value: str = "UNK", name: str | None = None) -> Any:
    """Return the words at places in a list."""
    return index_to_string_table_from_tensor(mapping, default_value).lookup(tensor)
