"""Features on the host, where text is looked up and hashed: sparse tensors, then padded arrays."""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from muster.data import RaggedTensor, SparseTensor

Features: TypeAlias = Mapping[str, Any]
"""A batch of features by key: arrays of shape (batch, ...), or (batch,) for one value an example."""

Made = TypeVar("Made")

# Up to so many ids of an example, each number of them is a shape of its own for the compiler.
_FEW = 4


class IdsAndWeights(NamedTuple):
    """The ids and weights that a categorical column computes of a batch on the host.

    Attributes:
        ids: int64 of shape (batch, ids), or (batch, steps, ids) of sequences.
        weights: One number for each id; None weighs all alike.
    """

    ids: SparseTensor
    weights: np.ndarray[Any, Any] | None


def require_feature(features: Features, key: str) -> Any:
    """Return a feature of a batch.

    Raises:
        ValueError: There is none of this key, or it has no axis of examples.

    Source: ``FeatureTransformationCache`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    if key not in features:
        there = ", ".join(sorted(map(repr, features))) or "none"
        raise ValueError(f"Feature {key} is not in features dictionary. There are: {there}.")
    value = features[key]
    if isinstance(value, list):
        value = np.array(value, object if _holds_bytes(value) else None)
    if not isinstance(value, SparseTensor | RaggedTensor) and np.ndim(value) == 0:
        raise ValueError(
            f"Feature (key: {key}) cannot have rank 0. Given: {value}. Call `batch` on the dataset."
        )
    return value


def host_feature(features: Features, key: str) -> Any:
    """Return a feature as a sparse tensor, or as a NumPy array of at least two axes.

    Raises:
        ValueError: There is none of this key, it has no axis of examples, or it is a value of a step.
    """
    value = require_feature(features, key)
    if isinstance(value, RaggedTensor):
        value = value.to_sparse()
    if is_traced(value.plain_values if isinstance(value, SparseTensor) else value):
        raise ValueError(
            f"Feature {key} is a value of a step, and its column works on the host. Call "
            "transform_features(features, feature_columns) in `map` of the dataset, after `batch`."
        )
    if isinstance(value, SparseTensor):
        return value.with_values(np.asarray(value.plain_values))
    array = np.asarray(value)
    return array[:, None] if array.ndim == 1 else array


def sparse_feature(features: Features, key: str) -> SparseTensor:
    """Return a feature as a sparse tensor: in arrays, empty text and the integer -1 are empty places.

    Raises:
        ValueError: As by `host_feature`.

    Source: ``_to_sparse_input_and_drop_ignore_values``
    (tensorflow/python/feature_column/feature_column_v2.py).
    """
    return remembered(features, ("sparse", key), lambda: _as_sparse(host_feature(features, key)))


def remembered(features: Features, key: tuple[str, str], make: Callable[[], Made]) -> Made:
    """Return what `make` returns; what it did for the same features, if these are `RememberingFeatures`."""
    if not isinstance(features, RememberingFeatures):
        return make()
    if key not in features.made:
        features.made[key] = make()
    made: Made = features.made[key]
    return made


class RememberingFeatures(dict[str, Any]):
    """A batch of features, and what several columns have made of them.

    Source: ``FeatureTransformationCache`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    def __init__(self, features: Features) -> None:
        super().__init__(features)
        self.made: dict[tuple[str, str], Any] = {}


def _as_sparse(value: Any) -> SparseTensor:
    if isinstance(value, SparseTensor):
        return value
    if value.dtype.kind == "O":
        there = value.astype(bool)  # empty text is false
    elif value.dtype.kind in "US":
        there = value != np.zeros((), value.dtype)
    else:
        there = value != (-1 if value.dtype.kind in "iu" else 0)
    if there.all():
        return full(value)
    return SparseTensor.of_checked(np.argwhere(there), value[there], np.array(value.shape))


def full(array: np.ndarray[Any, Any]) -> SparseTensor:
    """Return an array without empty places as a sparse tensor."""
    return SparseTensor.of_checked(_all_places(array.shape), array.reshape(-1), np.array(array.shape))


@lru_cache(maxsize=64)
def _all_places(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    places = np.argwhere(np.ones(shape, bool))
    places.flags.writeable = False
    return places


def is_traced(value: Any) -> bool:
    """Return whether a value is one of a step, unknown until the step runs."""
    return isinstance(value, jax.core.Tracer)


def is_text(dtype: DTypeLike) -> bool:
    """Return whether a dtype is that of text or bytes."""
    return np.dtype(dtype).kind in "USO"


def is_integer(dtype: DTypeLike) -> bool:
    """Return whether a dtype is one of integers."""
    return bool(jnp.issubdtype(np.dtype(dtype), jnp.integer))


def is_real(dtype: Any) -> bool:
    """Return whether a dtype is one of integers or floating-point numbers."""
    return bool(jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating))


def dtype_of(value: Any) -> Any:
    """Return the dtype of a feature, which may be a list or a column of a data frame."""
    dtype = getattr(value, "dtype", None)
    return dtype if isinstance(dtype, np.dtype | str) else np.asarray(value).dtype


def require_numbers(key: str, value: Any) -> None:
    """Check that a feature is an array of numbers or booleans.

    Raises:
        ValueError: It is sparse, or holds something else.
    """
    if isinstance(value, SparseTensor | RaggedTensor):
        raise ValueError(
            "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is not supported. "
            f"key: {key}. Read it as a FixedLenFeature, or pad it in the input pipeline."
        )
    dtype = dtype_of(value)
    if is_real(dtype) or jnp.issubdtype(dtype, jnp.bool_):
        return
    remedy = "Turn it into numbers in the input pipeline."
    if is_text(dtype):
        remedy = "Use a categorical column for text, such as categorical_column_with_hash_bucket."
    raise ValueError(f"Feature {key} has dtype {dtype}, and a column needs numbers. {remedy}")


def dtype_name(dtype: DTypeLike) -> str:
    """Return the name of a dtype for messages: ``string`` for text and bytes."""
    return "string" if is_text(dtype) else np.dtype(dtype).name


def as_bytes(values: Iterable[Any]) -> list[bytes]:
    """Return text as bytes, in UTF-8; bytes stay as they are.

    Raises:
        ValueError: A value is neither.
    """
    values = list(values)
    with suppress(AttributeError):
        return [value.encode() for value in values]  # most often all are str
    encoded = []
    for value in values:
        if isinstance(value, str):
            encoded.append(value.encode())
        elif isinstance(value, bytes):
            encoded.append(value)
        else:
            raise ValueError(f"Text or bytes are wanted, got {value!r} of type {type(value).__name__}.")
    return encoded


def padded(ids: SparseTensor, values: np.ndarray[Any, Any], empty: Any, dtype: DTypeLike) -> Any:
    """Return values at the places of ids as an array, wide enough that few widths are compiled.

    Args:
        ids: Of shape (..., ids).
        values: A value for each id.
        empty: What goes elsewhere.
        dtype: The array's dtype.

    Returns:
        Of shape (..., width): the number of ids if it is small, else the next power of 2.
    """
    *batch, most = ids.shape
    width = max(1, most) if most <= _FEW else 1 << (most - 1).bit_length()
    if len(values) == math.prod(batch) * width:
        return values.reshape(*batch, width).astype(dtype)
    array = np.full((*batch, width), empty, dtype)
    array[tuple(ids.plain_indices.T)] = values
    return array


def _holds_bytes(value: list[Any]) -> bool:
    first: Any = value
    while isinstance(first, list) and first:
        first = first[0]
    return isinstance(first, bytes)
