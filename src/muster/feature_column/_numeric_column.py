"""``numeric_column``: a feature that holds numbers already."""

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from muster.data import FixedLenFeature
from muster.feature_column._dense_column import Array, DenseColumn, Features, feature, is_real


@dataclass(frozen=True, kw_only=True)
class NumericColumn(DenseColumn):
    """What `numeric_column` returns, which checks its fields.

    Args:
        key: of the feature.
        shape: of the numbers of one example.
        default_value: nested tuples of that shape, or None.
        dtype: of the numbers, where they are read.
        normalizer_fn: called with the feature of a batch, or None.

    Source: ``NumericColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: np.dtype[Any]
    normalizer_fn: Callable[[Array], Array] | None

    @property
    def name(self) -> str:
        """The key."""
        return self.key

    @property
    def num_elements(self) -> int:
        """How many numbers the shape holds."""
        return math.prod(self.shape)

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The one feature, of the shape, dtype and default of the column."""
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    def values(self, features: Features) -> Array:
        """The normalized feature as it is given.

        Args:
            features: with the key of the column.

        Returns:
            float32, of the shape that the feature has; (batch, 1) if it is (batch,).

        Raises:
            ValueError: The feature is not there or holds no numbers, or ``normalizer_fn`` returns something
                else than a row for each example.
        """
        given = feature(features, self.key)
        if self.normalizer_fn is None:
            return given.astype("float32")
        values = jnp.asarray(self.normalizer_fn(given))
        if values.shape[:1] != given.shape[:1]:
            raise ValueError(
                f"The normalizer_fn of {self.key} was given {given.shape[0]} examples, of the shape "
                f"{given.shape}, and returned the shape {values.shape}: it must return a row for each."
            )
        return values.astype("float32")

    def dense_values(self, features: Features) -> Array:
        """The normalized feature, flat: float32 of shape (batch, num_elements).

        Raises:
            ValueError: It is not there, has another shape than the column, or holds no numbers.
        """
        values = self.values(features)
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
    dtype: Any = "float32",
    normalizer_fn: Callable[[Array], Array] | None = None,
) -> NumericColumn:
    """A column of numbers.

    Args:
        key: of the feature, and the column's name.
        shape: of the numbers of one example; a number is a vector's length.
        default_value: what `muster.data.parse_example` puts in the place of a feature that an example does
            not have: one number, or all of the shape.
        dtype: of the numbers, for `muster.data.parse_example`. The model computes in float32.
        normalizer_fn: called in the step with the feature of a batch, of shape (batch, ...), and returns what
            to use in its place, such as ``lambda x: (x - 3.0) / 4.2``.

    Raises:
        TypeError: The shape is not of whole numbers, the default has another type than the column, or
            ``normalizer_fn`` cannot be called.
        ValueError: The key is not text, the shape is not positive or not that of the default, or the dtype is
            not one of real numbers.

    Source: ``numeric_column`` (tensorflow/python/feature_column/feature_column_v2.py). NumPy's numbers are
    taken in a shape, and truth values are not.
    """
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")
    sizes, resolved = _checked_shape(shape, key), np.dtype(dtype)
    if not is_real(resolved):
        raise ValueError(f"dtype must be convertible to float. dtype: {resolved}, key: {key}")
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
    """The default as nested tuples of the column's shape, and of Python's numbers; None stays None."""
    if default is None:
        return None
    try:
        given = np.asarray(default)
    except ValueError as exc:
        raise ValueError(f"default_value is no array: {exc} default_value: {default}, key: {key}") from None
    if given.ndim and given.shape != shape:
        raise ValueError(
            "The shape of default_value must be equal to given shape. "
            f"default_value: {default}, shape: {shape}, key: {key}"
        )
    whole = jnp.issubdtype(given.dtype, jnp.integer)
    if not (whole or (is_real(given.dtype) and jnp.issubdtype(dtype, jnp.floating))):
        raise TypeError(
            "default_value must be compatible with dtype. "
            f"default_value: {default}, dtype: {dtype}, key: {key}"
        )
    return _as_tuples(np.broadcast_to(given, shape).tolist())


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
