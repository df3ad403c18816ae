"""Functions of ``tf.data.experimental`` that are no methods of datasets.

Source: tensorflow/python/data/experimental/ops/.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from muster import OutOfRangeError
from muster.data import Dataset, TensorSpec
from muster_tensorflow.library.ops._arrays import as_array
from muster_tensorflow.programs.v2.data._tables import (
    KeyValueTensorInitializer,
    StaticHashTable,
    StaticVocabularyTable,
)


class AutotuneAlgorithm(enum.Enum):
    """The algorithms by which TensorFlow's pipelines choose their parallelism; unused."""

    DEFAULT = 0
    HILL_CLIMB = 1
    GRADIENT_DESCENT = 2
    MAX_PARALLELISM = 3
    STAGE_BASED = 4


class ExternalStatePolicy(enum.Enum):
    """Says what to do with state that checkpoints of pipelines lack; unused."""

    WARN = 0
    IGNORE = 1
    FAIL = 2


def at(dataset: Dataset, index: int) -> Any:
    """Return an element by its place.

    Raises:
        OutOfRangeError: There are not so many.
    """
    for element in dataset.skip(int(index)).take(1):
        return element
    raise OutOfRangeError(f"The dataset has no element at {index}.")


def from_list(elements: Sequence[Any], name: str | None = None) -> Dataset:
    """Return a dataset of the elements of a list, which have one structure.

    Raises:
        ValueError: The list is empty.
    """
    if not elements:
        raise ValueError("from_list needs at least one element, to know what elements are.")
    kept = list(elements)
    parts = [jax.tree.map(as_array, each, is_leaf=_is_leaf) for each in kept]
    spec = jax.tree.map(_spec_of_all, *parts)
    return Dataset.from_generator(lambda: iter(parts), output_signature=spec)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, list)  # of numbers; tuples and dicts are structures


def _spec_of_all(*arrays: Any) -> TensorSpec:
    """Return the spec that all arrays fit."""
    ranks = {array.ndim for array in arrays}
    sizes = (
        [set(each) for each in zip(*(array.shape for array in arrays), strict=True)]
        if len(ranks) == 1
        else None
    )
    shape = None if sizes is None else [size.pop() if len(size) == 1 else None for size in sizes]
    return TensorSpec(shape, np.result_type(*(array.dtype for array in arrays)))


def pad_to_cardinality(cardinality: int, mask_key: str = "valid") -> Callable[[Dataset], Dataset]:
    """Return a transformation that adds elements of zeros until there are so many.

    Args:
        cardinality: How many there will be.
        mask_key: What tells elements, which are dicts, from zeros: the key of a boolean.
    """

    def pad(dataset: Dataset) -> Dataset:
        size = dataset.cardinality()
        if size < 0 or size > cardinality:
            raise ValueError(f"A dataset of cardinality {size} cannot be padded to {cardinality} elements.")
        spec = dataset.element_spec
        if not isinstance(spec, dict) or mask_key in spec:
            raise ValueError(f"Elements are dicts without the key {mask_key!r}, got {spec}.")
        marked = dataset.map(lambda element: {**element, mask_key: np.True_})
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), spec)
        missing = Dataset.from_tensors({**zeros, mask_key: np.False_})
        return marked.concatenate(missing.repeat(cardinality - size))

    return pad


def table_from_dataset(
    dataset: Dataset,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: Any = None,
    hasher_spec: object = None,
    key_dtype: Any = np.str_,
    name: str | None = None,
) -> StaticHashTable:
    """Return a table of a dataset's pairs of a key and a value.

    Args:
        dataset: The pairs.
        num_oov_buckets: How many numbers other keys have, by their hash.
        vocab_size: How many pairs count; None for all.
        default_value: The value of other keys, if they have no numbers; None is -1.
        hasher_spec: Unused.
        key_dtype: The keys' dtype.
        name: Unused.
    """
    pairs = list(dataset.take(-1 if vocab_size is None else vocab_size).iterator())
    keys, values = ([pair[place] for pair in pairs] for place in (0, 1))
    initializer = KeyValueTensorInitializer(keys, values, key_dtype)
    if num_oov_buckets:
        return StaticVocabularyTable(initializer, num_oov_buckets)
    return StaticHashTable(initializer, -1 if default_value is None else default_value)


def index_table_from_dataset(
    dataset: Dataset,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: object = None,
    key_dtype: Any = np.str_,
    name: str | None = None,
) -> StaticHashTable:
    """Return a table that numbers a dataset's keys, in their order.

    Args:
        dataset: The keys.
        num_oov_buckets: How many numbers other keys have, by their hash.
        vocab_size: How many keys count; None for all.
        default_value: The number of other keys, if they have none.
        hasher_spec: Unused.
        key_dtype: The keys' dtype.
        name: Unused.
    """
    pairs = dataset.enumerate().map(lambda place, key: (key, place))
    return table_from_dataset(pairs, num_oov_buckets, vocab_size, default_value, hasher_spec, key_dtype)
