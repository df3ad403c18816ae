"""``bucketized_column``: numbers by the interval in which they lie."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.feature_column._categorical_column import CategoricalColumn, PaddedIds
from muster.feature_column._dense_column import DenseColumn
from muster.feature_column._feature_column import ParseSpec
from muster.feature_column._host_values import Features, IdsAndWeights, full
from muster.feature_column._numeric_column import NumericColumn


@dataclass(frozen=True, kw_only=True)
class BucketizedColumn(DenseColumn, CategoricalColumn):
    """A column of intervals, made and checked by `bucketized_column`.

    It is dense, one value 1 for each number, and categorical: buckets of the second number of an example come
    after those of the first. Steps compute it; the host needs it only to cross it.

    Args:
        source_column: The numbers.
        boundaries: Where the intervals begin; they do not contain their ends.

    Source: ``BucketizedColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    source_column: NumericColumn
    boundaries: tuple[float, ...]

    @property
    def name(self) -> str:
        """The name of the numbers, and ``_bucketized``."""
        return f"{self.source_column.name}_bucketized"

    @property
    def parents(self) -> tuple[NumericColumn]:
        """The numbers."""
        return (self.source_column,)

    @property
    def parse_example_spec(self) -> ParseSpec:
        """That of the numbers."""
        return self.source_column.parse_example_spec

    @property
    def host_column(self) -> None:
        """None: the step computes the buckets."""
        return

    @property
    def num_buckets(self) -> int:
        """The number of intervals, times that of an example's numbers."""
        return (len(self.boundaries) + 1) * self.source_column.num_elements

    @property
    def num_elements(self) -> int:
        """The number of buckets."""
        return self.num_buckets

    def sparse_ids(self, features: Features) -> IdsAndWeights:
        """Return the buckets of a batch, on the host.

        Raises:
            ValueError: The feature is absent, has another shape, or holds no numbers.
        """
        numbers = self.source_column.host_values(features)
        edges = np.array(self.boundaries, np.float32)
        ids = np.searchsorted(edges, numbers, side="right") + self._offsets()
        return IdsAndWeights(full(ids), None)

    def traced_ids(self, features: Features) -> PaddedIds:
        """Compute the buckets in a step.

        Raises:
            ValueError: The feature is absent, has another shape, or holds no numbers.
        """
        numbers = self.source_column.dense_values(features)
        below = numbers[..., None] < jnp.asarray(self.boundaries, "float32")
        ids = jnp.sum(~below, -1, dtype="int32")  # NaNs lie beyond all, as in TensorFlow
        return PaddedIds(ids + self._offsets().astype("int32"), None)

    def dense_values(self, features: Features, table: jax.Array | None = None) -> jax.Array:
        """Return a 1 in the bucket of each number: float32 of shape (batch, num_buckets).

        Raises:
            ValueError: The feature is absent, has another shape, or holds no numbers.
        """
        ids, _ = self.traced_ids(features)
        return jax.nn.one_hot(ids, self.num_buckets, dtype="float32").sum(1)

    def _offsets(self) -> np.ndarray[Any, Any]:
        return np.arange(self.source_column.num_elements) * (len(self.boundaries) + 1)


def bucketized_column(source_column: NumericColumn, boundaries: Sequence[float]) -> BucketizedColumn:
    """Return a column of the intervals in which numbers lie.

    Args:
        source_column: A `numeric_column` of one axis; its ``normalizer_fn`` is applied first.
        boundaries: Increasing numbers: ``[0, 1]`` makes the intervals (-inf, 0), [0, 1) and [1, inf).

    Raises:
        ValueError: The source is another column, or boundaries are no increasing list.

    Source: ``bucketized_column`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    if not isinstance(source_column, NumericColumn):
        raise ValueError(
            f"source_column must be a column generated with numeric_column(). Given: {source_column}"
        )
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not isinstance(boundaries, list | tuple) or not len(boundaries):
        raise ValueError(f"boundaries must be a sorted list. Given: {boundaries!r}")
    if any(low >= high for low, high in zip(boundaries, boundaries[1:], strict=False)):
        raise ValueError(f"boundaries must be a sorted list. Given: {boundaries!r}")
    return BucketizedColumn(source_column=source_column, boundaries=tuple(map(float, boundaries)))
