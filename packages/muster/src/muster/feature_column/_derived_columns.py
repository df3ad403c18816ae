"""``crossed_column``: features combined and hashed; ``weighted_categorical_column``: ids with weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from muster.data import SparseTensor, VarLenFeature
from muster.feature_column._categorical_column import CategoricalColumn
from muster.feature_column._feature_column import ParseSpec
from muster.feature_column._fingerprint import fingerprint64, fingerprint_cat64
from muster.feature_column._host_values import (
    Features,
    IdsAndWeights,
    dtype_name,
    full,
    host_feature,
    is_real,
    is_text,
    remembered,
)
from muster.feature_column._id_columns import HashedCategoricalColumn


@dataclass(frozen=True, kw_only=True)
class WeightedCategoricalColumn(CategoricalColumn):
    """A column of ids with weights, made and checked by `weighted_categorical_column`.

    Args:
        categorical_column: The ids.
        weight_feature_key: The key of their weights.
        dtype: The dtype of the weights.

    Source: ``WeightedCategoricalColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: np.dtype[Any]

    @property
    def name(self) -> str:
        """The name of the ids, ``_weighted_by_`` and the key of the weights."""
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def num_buckets(self) -> int:
        """That of the ids."""
        return self.categorical_column.num_buckets

    @property
    def hashed_table(self) -> Any:
        """That of the column that makes the ids."""
        return self.categorical_column.hashed_table

    @property
    def parents(self) -> tuple[CategoricalColumn | str, ...]:
        """The ids, and the key of their weights."""
        return (self.categorical_column, self.weight_feature_key)

    @property
    def parse_example_spec(self) -> ParseSpec:
        """The features of the ids, and the weights, as many as there are ids.

        Raises:
            ValueError: The weights are a feature of the ids.
        """
        spec = self.categorical_column.parse_example_spec
        if self.weight_feature_key in spec:
            raise ValueError(
                f"Parse config {spec[self.weight_feature_key]} already exists for {self.weight_feature_key}."
            )
        return spec | {self.weight_feature_key: VarLenFeature(self.dtype)}

    def sparse_ids(self, features: Features) -> IdsAndWeights:
        """Return the ids, and the number at each id's place among the weights.

        Raises:
            ValueError: A feature is absent, weights are no numbers, or not at the places of the ids.
        """
        ids, weights = self.categorical_column.sparse_ids(features)
        if weights is not None:
            raise ValueError(f"The ids of {self.name} have weights already.")
        given = host_feature(features, self.weight_feature_key)
        if is_text(given.dtype):
            raise ValueError(f"dtype of {self.weight_feature_key} is not convertible to float: string.")
        if ids.shape != given.shape:
            raise ValueError(
                f"Dimensions {ids.shape[-1]} and {given.shape[-1]} are not compatible: the ids of "
                f"{self.categorical_column.name} have the shape {ids.shape}, their weights "
                f"{self.weight_feature_key} {given.shape}."
            )
        if isinstance(given, SparseTensor):
            places, weights = given.plain_indices, given.plain_values
            if len(weights) == len(ids.plain_values) and (places == ids.plain_indices).all():
                return IdsAndWeights(ids, weights)
            there = np.zeros(given.shape, bool)
            there[tuple(places.T)] = True
            missing = ~there[tuple(ids.plain_indices.T)]
            if missing.any():
                place = ids.plain_indices[np.argmax(missing)]
                raise ValueError(
                    f"{self.weight_feature_key} has no weight at {place}, where "
                    f"{self.categorical_column.name} has an id."
                )
            given = np.asarray(given.to_dense())
        return IdsAndWeights(ids, given[tuple(ids.plain_indices.T)])


def weighted_categorical_column(
    categorical_column: CategoricalColumn, weight_feature_key: str, dtype: DTypeLike = "float32"
) -> WeightedCategoricalColumn:
    """Return a column of ids that have weights.

    Args:
        categorical_column: The ids.
        weight_feature_key: The key of the weights, which are at the places of the ids.
        dtype: The dtype of the weights.

    Raises:
        ValueError: The dtype is not one of real numbers.

    Source: ``weighted_categorical_column`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    resolved = np.dtype(dtype)
    if not is_real(resolved):
        raise ValueError(f"dtype {dtype_name(resolved)} is not convertible to float.")
    return WeightedCategoricalColumn(
        categorical_column=categorical_column, weight_feature_key=weight_feature_key, dtype=resolved
    )


_HASH_KEY = 0xDECAFCAFFE


@dataclass(frozen=True, kw_only=True)
class CrossedColumn(CategoricalColumn):
    """A column of combinations, made and checked by `crossed_column`.

    Args:
        keys: What is combined: columns, or keys of features.
        hash_bucket_size: The number of buckets.
        hash_key: What fingerprints start from; None and 0 for TensorFlow's.

    Source: ``CrossedColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    keys: tuple[CategoricalColumn | str, ...]
    hash_bucket_size: int
    hash_key: int | None

    @cached_property
    def name(self) -> str:
        """The names of what is combined, sorted, with ``_X_`` between them."""
        names = [leaf if isinstance(leaf, str) else leaf.name for leaf in self._leaves]
        return "_X_".join(sorted(names))

    @property
    def num_buckets(self) -> int:
        """The number of buckets."""
        return self.hash_bucket_size

    @property
    def parents(self) -> tuple[CategoricalColumn | str, ...]:
        """The combined features and columns."""
        return self.keys

    @property
    def parse_example_spec(self) -> ParseSpec:
        """The features of the columns; keys are of text, with any number of values."""
        spec: ParseSpec = {}
        for key in self.keys:
            spec |= {key: VarLenFeature(np.dtype(str))} if isinstance(key, str) else key.parse_example_spec
        return spec

    def sparse_ids(self, features: Features) -> IdsAndWeights:
        """Return the buckets of all combinations of an example's values; the last feature's change fastest.

        Raises:
            ValueError: A feature is absent, a column has weights, or features differ in length.

        Source: ``SparseCrossHashed`` (tensorflow/core/kernels/sparse_cross_op.cc).
        """
        inputs = [_fingerprints(leaf, features) for leaf in self._leaves]
        if len({len(counts) for _, counts in inputs}) > 1:
            raise ValueError(
                f"The features of {self.name} differ in their number of examples: "
                f"{[len(counts) for _, counts in inputs]}."
            )
        if all((counts == 1).all() for _, counts in inputs):
            return IdsAndWeights(full(self._hashed([values for values, _ in inputs])[:, None]), None)
        totals = np.prod([counts for _, counts in inputs], axis=0)
        rows = np.repeat(np.arange(len(totals)), totals)
        place = _places(totals)
        rest, chosen = place, []
        for values, counts in reversed(inputs):
            starts = np.cumsum(counts) - counts
            rest, here = np.divmod(rest, counts[rows])
            chosen.append(values[starts[rows] + here])
        return IdsAndWeights(
            SparseTensor.of_checked(
                np.stack([rows, place], axis=1),
                self._hashed(chosen[::-1]),
                np.array([len(totals), totals.max(initial=0)]),
            ),
            None,
        )

    def _hashed(self, values: list[Any]) -> np.ndarray[Any, Any]:
        """Return the buckets, int64, of combinations of one value of each feature."""
        hashes = np.full(len(values[0]), np.uint64(self.hash_key or _HASH_KEY))
        for each in values:
            hashes = fingerprint_cat64(hashes, each)
        return (hashes % np.uint64(self.hash_bucket_size)).astype(np.int64)

    @cached_property
    def _leaves(self) -> list[CategoricalColumn | str]:
        """Return what is combined, with crossed columns taken apart."""
        leaves: list[CategoricalColumn | str] = []
        for key in self.keys:
            leaves += key._leaves if isinstance(key, CrossedColumn) else [key]
        return leaves


def crossed_column(
    keys: Sequence[CategoricalColumn | str], hash_bucket_size: int, hash_key: int | None = None
) -> CrossedColumn:
    """Return a column of the combinations of several features' values, put into buckets by fingerprints.

    An example with several values has a combination of each with each. Ids are those of TensorFlow.

    Args:
        keys: Two or more: keys of features of text or integers, or categorical columns, except hashed ones.
        hash_bucket_size: The number of buckets.
        hash_key: What fingerprints start from; None for TensorFlow's ``0xDECAFCAFFE``.

    Raises:
        ValueError: There are fewer keys, one of another kind, or no bucket.

    Source: ``crossed_column`` (tensorflow/python/feature_column/feature_column_v2.py).

    Example:
        ```python
        column = muster.feature_column.crossed_column(["education", "occupation"], hash_bucket_size=1000)
        ```
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Hashing before crossing "
                "will increase probability of collision. Instead, use the feature name as a string. "
                f"Given: {key}"
            )
        if not isinstance(key, str | CategoricalColumn):
            raise ValueError(
                "Unsupported key type. All keys must be either string, or categorical column except "
                f"HashedCategoricalColumn. Given: {key}"
            )
    return CrossedColumn(keys=tuple(keys), hash_bucket_size=hash_bucket_size, hash_key=hash_key)


def _fingerprints(leaf: CategoricalColumn | str, features: Features) -> tuple[Any, Any]:
    """Return what is combined of a feature or column.

    Returns:
        The values of all examples, uint64, in one vector; and how many values each example has.

    Raises:
        ValueError: The column has weights, or the values have more than two axes.
    """
    if isinstance(leaf, str):
        given = host_feature(features, leaf)  # of arrays, also empty text
    else:
        given, weights = leaf.sparse_ids(features)
        if weights is not None:
            raise ValueError(
                "crossed_column does not support weight_tensor, but the given column populates "
                "weight_tensor. "
                f"Given column: {leaf.name}"
            )
    name = leaf if isinstance(leaf, str) else leaf.name
    if len(given.shape) != 2:
        raise ValueError(f"Feature {name} has the shape {given.shape}, and is crossed only with two axes.")
    if isinstance(given, SparseTensor):
        counts, values = np.bincount(given.plain_indices[:, 0], minlength=given.shape[0]), given.plain_values
    else:
        counts, values = np.full(given.shape[0], given.shape[1]), given.reshape(-1)
    if is_text(values.dtype):
        hashes = remembered(features, ("hashes", name), lambda: fingerprint64(values.tolist()))
        return hashes, counts
    return values.astype(np.int64).astype(np.uint64), counts


def _places(counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return 0, 1, ... for each of several counts, one after the other."""
    places: np.ndarray[Any, Any] = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return places
