"""Tables of ``tf.lookup.experimental``, whose keys and values change."""

from typing import Any

import numpy as np

from muster.data import RaggedTensor
from muster_tensorflow.library.ops._eager_values import shown
from muster_tensorflow.library.ops.control._needs_values import known


class MutableHashTable:
    """Keeps a value for each key, and has a default one for all others; it computes on the host.

    A `tf.function` that uses it runs uncompiled.

    Args:
        key_dtype: The dtype of keys: text or integers.
        value_dtype: The dtype of values.
        default_value: The value of other keys; values have its shape.
        name: Unused.
        checkpoint: Unused.
        experimental_is_anonymous: Unused.

    Source: tensorflow/python/ops/lookup_ops.py, ``MutableHashTable``.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        self.key_dtype, self.value_dtype = np.dtype(key_dtype), np.dtype(value_dtype)
        self.name = name
        self._default = self._as_values(default_value)
        self._table: dict[Any, Any] = {}

    @shown
    def insert(self, keys: Any, values: Any, name: str | None = None) -> None:
        """Set the values of keys.

        Args:
            keys: Of any shape.
            values: Of the shape of the keys, followed by that of a value.
            name: Unused.
        """
        flat = self._keys(keys).reshape(-1).tolist()
        shape = self._default.shape
        rows = self._as_values(values)
        if rows.shape != (*np.shape(keys), *shape):
            raise ValueError(
                f"Expected shape {[*np.shape(keys), *shape]} for value, got {list(rows.shape)}: keys have a "
                "value each."
            )
        self._table.update(zip(flat, rows.reshape(-1, *shape), strict=True))

    insert_or_assign = insert

    @shown
    def lookup(self, keys: Any, dynamic_default_values: Any = None, name: str | None = None) -> Any:
        """Return the values of keys.

        Args:
            keys: Of any shape, or ragged.
            dynamic_default_values: The values of other keys: one, or one for each key; None for the table's.
            name: Unused.
        """
        if isinstance(keys, RaggedTensor):
            return keys.with_flat_values(self.lookup(keys.plain_values, dynamic_default_values))
        flat, shape = self._keys(keys), self._default.shape
        others = self._default if dynamic_default_values is None else self._as_values(dynamic_default_values)
        others = np.broadcast_to(others, (*flat.shape, *shape)).reshape(-1, *shape)
        pairs = zip(flat.reshape(-1).tolist(), others, strict=True)
        values = [self._table.get(key, other) for key, other in pairs]
        return self._as_values(values).reshape((*flat.shape, *shape))[()]

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    @shown
    def remove(self, keys: Any, name: str | None = None) -> None:
        """Forget the values of keys; those that are not there are left out."""
        for key in self._keys(keys).reshape(-1).tolist():
            self._table.pop(key, None)

    erase = remove

    @shown
    def size(self, name: str | None = None) -> Any:
        """Return the number of keys."""
        return np.int64(len(self._table))

    @shown
    def export(self, name: str | None = None) -> tuple[Any, Any]:
        """Return all keys and their values."""
        values = self._as_values(list(self._table.values()))
        keys = np.array(list(self._table), None if self._is_text(self.key_dtype) else self.key_dtype)
        return keys, values.reshape(len(keys), *self._default.shape)

    def _keys(self, keys: Any) -> np.ndarray[Any, Any]:
        array = known(keys, type(self).__name__)
        return _texts(array) if self._is_text(self.key_dtype) else array.astype(self.key_dtype)

    def _as_values(self, values: Any) -> np.ndarray[Any, Any]:
        array = known(values, type(self).__name__)
        return _texts(array) if self._is_text(self.value_dtype) else array.astype(self.value_dtype)

    @staticmethod
    def _is_text(dtype: np.dtype[Any]) -> bool:
        return dtype.kind in "OSU"


class DenseHashTable(MutableHashTable):
    """Does as `MutableHashTable`, but for two keys that it never has.

    Args:
        key_dtype: As there.
        value_dtype: As there.
        default_value: As there.
        empty_key: A key that is never used.
        deleted_key: Another one.
        initial_num_buckets: Unused.
        name: Unused.
        checkpoint: Unused.
        experimental_is_anonymous: Unused.

    Raises:
        ValueError: ``empty_key`` and ``deleted_key`` are the same.

    Source: tensorflow/python/ops/lookup_ops.py, ``DenseHashTable``.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        super().__init__(key_dtype, value_dtype, default_value, name)
        self._unused = [self._keys(each).tolist() for each in (empty_key, deleted_key)]
        if self._unused[0] == self._unused[1]:
            raise ValueError("Empty and deleted keys must have the same shape, and be different.")

    def _keys(self, keys: Any) -> np.ndarray[Any, Any]:
        array = super()._keys(keys)
        for key, what in zip(getattr(self, "_unused", ()), ("empty_key", "deleted_key"), strict=False):
            if (array == key).any():
                raise ValueError(f"Using the {what} as a table key is not allowed: {key!r}.")
        return array


def _texts(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return text as ``str``, which is what keys are told apart by."""
    if array.dtype.kind not in "OS":
        return array
    words = [each.decode() if isinstance(each, bytes) else each for each in array.reshape(-1).tolist()]
    return np.array(words, str).reshape(array.shape)
