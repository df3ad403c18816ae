"""``numeric_column``: a feature that holds numbers already; ``bucketized_column``: their intervals."""

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from muster.data import FixedLenFeature
from muster.feature_column._categorical_column import CategoricalColumn, PaddedIds
from muster.feature_column._feature_column import DenseColumn, KeyedColumn, ParseSpec
from muster.feature_column._host_values import (
    Features,
    IdsAndWeights,
    dtype_name,
    full,
    host_feature,
    is_real,
    require_feature,
    require_numbers,
)


@dataclass(frozen=True, kw_only=True)
class NumericColumn(KeyedColumn, DenseColumn):
    """A column of numbers, made and checked by `numeric_column`.

    Args:
        key: The key of the feature.
        shape: The shape of one example.
        default_value: Nested tuples of that shape, or None.
        dtype: The dtype when parsing.
        normalizer_fn: Called with the feature of a batch, or None.

    Source: ``NumericColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: np.dtype[Any]
    normalizer_fn: Callable[[jax.Array], jax.Array] | None

    @property
    def num_elements(self) -> int:
        """The product of the shape."""
        return math.prod(self.shape)

    @property
    def parse_example_spec(self) -> ParseSpec:
        """The feature, with the shape, dtype and default of the column."""
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    def values(self, features: Features) -> jax.Array:
        """Return the normalized feature, in its shape.

        Args:
            features: Features that contain the key of the column.

        Returns:
            float32 of the feature's shape, or (batch, 1) for the shape (batch,).

        Raises:
            ValueError: The feature is absent or holds no numbers, or ``normalizer_fn`` does not return one
                row an example.
        """
        inputs = _feature(features, self.key)
        if self.normalizer_fn is None:
            return inputs.astype("float32")
        values = jnp.asarray(self.normalizer_fn(inputs))
        if values.shape[:1] != inputs.shape[:1]:
            raise ValueError(
                f"The normalizer_fn of {self.key} was called with {inputs.shape[0]} examples, of the shape "
                f"{inputs.shape}, and returned the shape {values.shape}: it must return a row for each."
            )
        return values.astype("float32")

    def dense_values(self, features: Features, table: jax.Array | None = None) -> jax.Array:
        """Return the normalized feature, flattened: float32 of shape (batch, num_elements).

        Raises:
            ValueError: The feature is absent, has another shape than the column, or holds no numbers.
        """
        values: jax.Array = self._flattened(self.values(features))
        return values

    def host_values(self, features: Features) -> np.ndarray[Any, Any]:
        """Return what `dense_values` does, on the host.

        Raises:
            ValueError: As by `dense_values`.
        """
        if self.normalizer_fn is not None:
            return np.asarray(self.dense_values(features))
        values = host_feature(features, self.key)
        require_numbers(self.key, values)
        flattened: np.ndarray[Any, Any] = self._flattened(values.astype(np.float32))
        return flattened

    def _flattened(self, values: Any) -> Any:
        if math.prod(values.shape[1:]) != self.num_elements:
            raise ValueError(
                f"Feature {self.key} has the shape {values.shape}, and its column wants "
                f"{(values.shape[0], *self.shape)}. Give numeric_column({self.key!r}, "
                f"shape={values.shape[1:]}), or change the input pipeline."
            )
        return values.reshape(values.shape[0], self.num_elements)


def numeric_column(
    key: str,
    shape: Sequence[int] | int = (1,),
    default_value: Any = None,
    dtype: DTypeLike = "float32",
    normalizer_fn: Callable[[jax.Array], jax.Array] | None = None,
) -> NumericColumn:
    """Return a column of numbers.

    Args:
        key: The key of the feature, and the name of the column.
        shape: The shape of one example; an integer is the length of a vector.
        default_value: The value that `muster.data.parse_example` takes for examples without the feature: one
            number, or an array of the shape.
        dtype: The dtype for `muster.data.parse_example`. The model computes in float32.
        normalizer_fn: Called in the step with the feature of a batch, of shape (batch, ...); returns its
            replacement, such as ``lambda x: (x - 3.0) / 4.2``.

    Raises:
        TypeError: The shape is not of integers, the default has another type than the column, or
            ``normalizer_fn`` cannot be called.
        ValueError: The key is not text, the shape is not positive or not that of the default, or the dtype is
            not one of real numbers.

    Source: ``numeric_column`` (tensorflow/python/feature_column/feature_column_v2.py). A shape may
    contain NumPy's integers, and no booleans.

    Example:
        ```python
        age = muster.feature_column.numeric_column("age", normalizer_fn=lambda value: (value - 38) / 13)
        ```
    """
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")
    sizes, resolved = _checked_shape(shape, key), np.dtype(dtype)
    if not is_real(resolved):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype_name(resolved)}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    return NumericColumn(
        key=key,
        shape=sizes,
        default_value=_checked_default(default_value, sizes, resolved, key),
        dtype=resolved,
        normalizer_fn=normalizer_fn,
    )


def _checked_shape(shape: Any, key: str) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, Sequence | np.ndarray) else (shape,)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, numbers.Integral):
            raise TypeError(f"shape dimensions must be integer. shape: {sizes}, key: {key}")
        if size < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {sizes}, key: {key}")
    return tuple(map(int, sizes))


def _checked_default(default: Any, shape: tuple[int, ...], dtype: np.dtype[Any], key: str) -> Any:
    """Return the default as nested tuples of Python numbers in the column's shape; None stays None."""
    if default is None:
        return None
    try:
        array = np.asarray(default)
    except ValueError as exc:
        raise ValueError(f"default_value is no array: {exc} default_value: {default}, key: {key}") from None
    if array.ndim and array.shape != shape:
        raise ValueError(
            "The shape of default_value must be equal to given shape. "
            f"default_value: {default}, shape: {shape}, key: {key}"
        )
    integral = jnp.issubdtype(array.dtype, jnp.integer)
    if not (integral or (is_real(array.dtype) and jnp.issubdtype(dtype, jnp.floating))):
        raise TypeError(
            "default_value must be compatible with dtype. "
            f"default_value: {default}, dtype: {dtype}, key: {key}"
        )
    return _as_tuples(np.broadcast_to(array, shape).tolist())


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _feature(features: Features, key: str) -> jax.Array:
    """Return one feature of a batch.

    Args:
        features: The features of the batch.
        key: The key of the feature.

    Returns:
        Numbers or booleans of shape (batch, ...); (batch, 1) for one number an example.

    Raises:
        ValueError: The feature is absent, has another dtype, or has no batch axis.
    """
    value = require_feature(features, key)
    require_numbers(key, value)
    array = value if isinstance(value, jax.Array) else np.asarray(value)
    return jnp.asarray(array[:, None] if array.ndim == 1 else array)


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

    Example:
        ```python
        ages = muster.feature_column.numeric_column("age")
        groups = muster.feature_column.bucketized_column(ages, [18, 30, 65])  # four of them
        classifier = muster.estimator.LinearClassifier([groups])
        ```
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
