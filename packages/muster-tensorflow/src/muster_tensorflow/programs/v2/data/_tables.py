"""Tables of ``tf.lookup``: values by keys, for input functions."""

import enum
import os
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.data import Placeholder, RaggedTensor, SparseTensor
from muster.estimator import Words
from muster.extend import local_path
from muster.feature_column import buckets
from muster_tensorflow.library.ops._eager_values import shown
from muster_tensorflow.library.ops._host_placeholder import compute_on_host
from muster_tensorflow.programs.v2.layers._host_layer import require_host_values


class TextFileIndex(enum.IntEnum):
    """Says what a `TextFileInitializer` takes of a line: all, its number, or, from 0 on, a column."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class KeyValueTensorInitializer:
    """The keys and values of a table.

    Args:
        keys: Numbers or texts, shape (n,), each once.
        values: As many numbers or texts.
        key_dtype: The keys' dtype; None for theirs. Likewise ``value_dtype``.
        name: Unused.

    Raises:
        ValueError: There are other numbers of keys and values, or a key is there twice with other values.

    Source: tensorflow/python/ops/lookup_ops.py, ``KeyValueTensorInitializer``.
    """

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None
    ) -> None:
        self.keys, self.values = _array(keys, key_dtype), _array(values, value_dtype)
        if self.keys.shape != self.values.shape or self.keys.ndim != 1:
            raise ValueError(
                f"A table needs a value for each key, got the shapes {self.keys.shape} and "
                f"{self.values.shape}."
            )
        self.table = dict(zip(self.keys.tolist(), self.values.tolist(), strict=True))
        for key, value in zip(self.keys.tolist(), self.values.tolist(), strict=True):
            if self.table[key] != value:
                raise ValueError(f"The key {key!r} has two values, {value!r} and {self.table[key]!r}.")


class TextFileInitializer(KeyValueTensorInitializer):
    """The keys and values in the lines of a text file.

    Args:
        filename: The file.
        key_dtype: The keys' dtype.
        key_index: Where keys are: a `TextFileIndex`, or the number of a column.
        value_dtype: The values' dtype.
        value_index: Where values are.
        vocab_size: How many lines to read; None for all.
        delimiter: What separates columns.
        name: Unused.
        value_index_offset: Added to the numbers of lines.

    Source: tensorflow/python/ops/lookup_ops.py, ``TextFileInitializer``.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        with open(local_path(filename), encoding="utf-8") as file:
            lines = [line.rstrip("\r\n") for line in file][:vocab_size]

        def parts(index: int, dtype: Any) -> list[Any]:
            match index:
                case TextFileIndex.WHOLE_LINE:
                    return lines
                case TextFileIndex.LINE_NUMBER:
                    return [number + value_index_offset for number in range(len(lines))]
            columns = [line.split(delimiter)[index] for line in lines]
            return (
                columns if np.dtype(dtype).kind in "OSU" else [np.dtype(dtype).type(each) for each in columns]
            )

        super().__init__(parts(key_index, key_dtype), parts(value_index, value_dtype), key_dtype, value_dtype)


class StaticHashTable:
    """Gives the value of each key, and a default one for all others.

    Args:
        initializer: The keys and values.
        default_value: The value of other keys.
        name: Unused.
        experimental_is_anonymous: Unused.

    Source: tensorflow/python/ops/lookup_ops.py, ``StaticHashTable``.
    """

    _oov_buckets = 1

    def __init__(
        self,
        initializer: KeyValueTensorInitializer,
        default_value: Any,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        self._table = initializer.table
        self._initializer = initializer
        self.default_value = default_value
        self.key_dtype, self.value_dtype = initializer.keys.dtype, initializer.values.dtype

    @shown
    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Return the values of keys, in their shape.

        Text is looked up on the host: in input functions, and before the steps of a model_fn. Numbers are
        looked up in steps, too, of which text may be a prediction.

        Raises:
            TypeError: The keys are values of a functional model, or text of a compiled function.
        """
        if isinstance(keys, jax.core.Tracer) and self.key_dtype.kind in "iu" and self._oov_buckets == 1:
            return self._lookup_in_step(keys)
        if isinstance(keys, Placeholder):
            return compute_on_host(self.lookup, (keys,), {})
        require_host_values(self, keys)
        if isinstance(keys, RaggedTensor):
            return keys.with_flat_values(self.lookup(keys.plain_values))
        if isinstance(keys, SparseTensor):
            return keys.with_values(self.lookup(keys.plain_values))
        array = _array(keys, None)
        values = [self._value(key) for key in array.ravel().tolist()]
        return np.array(values, None if self.value_dtype.kind == "U" else self.value_dtype).reshape(
            array.shape
        )

    def content_key(self) -> Any:
        """Return what makes tables equal."""
        return [self._initializer.keys, self._initializer.values, self.default_value]

    def _lookup_in_step(self, keys: jax.Array) -> Any:
        order = np.argsort(self._initializer.keys)
        known, last = self._initializer.keys[order], len(order) - 1
        places = jnp.minimum(jnp.searchsorted(known, keys), last)
        found = jnp.where(jnp.asarray(known)[places] == keys, places, len(order))
        values = [*self._initializer.values[order].tolist(), self.default_value]
        if self.value_dtype.kind == "U":
            return Words(found, tuple(values))
        return jnp.asarray(np.array(values, self.value_dtype))[found]

    def _value(self, key: Any) -> Any:
        return self._table.get(key, self.default_value)

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    @shown
    def size(self, name: str | None = None) -> Any:
        """Return the number of keys."""
        return np.int64(len(self._table))


class StaticVocabularyTable(StaticHashTable):
    """Numbers words: those of a vocabulary by its values, and others by numbers behind those, by their hash.

    Args:
        initializer: Words and their numbers.
        num_oov_buckets: How many numbers there are for other words.
        lookup_key_dtype: Unused.
        name: Unused.

    Raises:
        ValueError: There is none.

    Source: tensorflow/python/ops/lookup_ops.py, ``StaticVocabularyTable``.
    """

    def __init__(
        self,
        initializer: KeyValueTensorInitializer,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
    ) -> None:
        if num_oov_buckets < 1:
            raise ValueError(
                f"num_oov_buckets must be 1 or more, got {num_oov_buckets}. StaticHashTable has one value "
                "for all other words."
            )
        super().__init__(initializer, len(initializer.table))
        self._oov_buckets = num_oov_buckets

    def content_key(self) -> Any:
        return [super().content_key(), self._oov_buckets]

    def _value(self, key: Any) -> Any:
        if key in self._table or self._oov_buckets == 1:
            return super()._value(key)
        return len(self._table) + int(buckets(np.array([str(key)]), self._oov_buckets)[0])

    @shown
    def size(self, name: str | None = None) -> Any:
        """Return how many numbers there are."""
        return np.int64(len(self._table) + self._oov_buckets)


def index_table_from_tensor(
    vocabulary_list: Sequence[str],
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> StaticHashTable:
    """Return a table from words to their places in a list.

    Source: tensorflow/python/ops/lookup_ops.py, ``index_table_from_tensor``.
    """
    numbers = KeyValueTensorInitializer(vocabulary_list, np.arange(len(vocabulary_list)))
    if num_oov_buckets:
        return StaticVocabularyTable(numbers, num_oov_buckets)
    return StaticHashTable(numbers, default_value)


def _lines(file: str | os.PathLike[str], size: int | None) -> list[str]:
    with open(local_path(file), encoding="utf-8") as opened:
        return [line.rstrip("\r\n") for line in opened][:size]


def index_table_from_file(
    vocabulary_file: str | os.PathLike[str],
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    **unused: object,
) -> StaticHashTable:
    """Return a table from the lines of a file to their numbers, from 0 on.

    Source: tensorflow/python/ops/lookup_ops.py, ``index_table_from_file``.
    """
    return index_table_from_tensor(_lines(vocabulary_file, vocab_size), num_oov_buckets, default_value)


def index_to_string_table_from_file(
    vocabulary_file: str | os.PathLike[str],
    vocab_size: int | None = None,
    default_value: str = "UNK",
    **unused: object,
) -> StaticHashTable:
    """Return a table from the numbers of the lines of a file, from 0 on, to the lines.

    Source: tensorflow/python/ops/lookup_ops.py, ``index_to_string_table_from_file``.
    """
    return index_to_string_table_from_tensor(_lines(vocabulary_file, vocab_size), default_value)


def index_to_string_table_from_tensor(
    vocabulary_list: Iterable[str], default_value: str = "UNK", name: str | None = None
) -> StaticHashTable:
    """Return a table from places in a list to its words.

    Source: tensorflow/python/ops/lookup_ops.py, ``index_to_string_table_from_tensor``.
    """
    words = list(vocabulary_list)
    return StaticHashTable(KeyValueTensorInitializer(np.arange(len(words)), words), default_value)


def _array(values: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Return an array of numbers, or of texts as ``str``."""
    array = np.asarray(values)
    if array.dtype.kind in "OSU":
        texts = [each.decode() if isinstance(each, bytes) else each for each in array.ravel().tolist()]
        return np.array(texts, object).reshape(array.shape).astype(str)
    return array if dtype is None or np.dtype(dtype).kind in "OSU" else array.astype(dtype)
