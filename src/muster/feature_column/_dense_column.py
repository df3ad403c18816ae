"""The base class of columns with numbers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Features: TypeAlias = Mapping[str, Any]
"""A batch of features by key: arrays of shape (batch, ...), or (batch,) for one number an example."""


class DenseColumn(ABC):
    """A column with the same count of numbers for every example.

    A column is an immutable value. It has no weights: those are the model's.

    Source: ``DenseColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the column, unique in a model, and of its weights."""

    @property
    @abstractmethod
    def num_elements(self) -> int:
        """The count of numbers for an example."""

    @property
    @abstractmethod
    def parse_example_spec(self) -> dict[str, Any]:
        """The features that `muster.data.parse_example` must read, by key."""

    @abstractmethod
    def dense_values(self, features: Features) -> jax.Array:
        """Return the numbers for a batch.

        Args:
            features: The features that the column reads, and others.

        Returns:
            float32 of shape (batch, num_elements).

        Raises:
            ValueError: A feature is absent, has another shape, or holds no numbers.
        """


def feature(features: Features, key: str) -> jax.Array:
    """Return one feature of a batch.

    Args:
        features: The features of the batch.
        key: The key of the feature.

    Returns:
        Numbers or booleans of shape (batch, ...); (batch, 1) for one number an example.

    Raises:
        ValueError: The feature is absent, has another dtype, or has no batch axis.

    Source: ``FeatureTransformationCache`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    if key not in features:
        there = ", ".join(sorted(map(repr, features))) or "none"
        raise ValueError(f"Feature {key} is not in features dictionary. There are: {there}.")
    value = features[key]
    array = value if isinstance(value, jax.Array) else np.asarray(value)
    if not (jnp.issubdtype(array.dtype, jnp.bool_) or is_real(array.dtype)):
        raise ValueError(
            f"Feature {key} has dtype {array.dtype}, and a column needs numbers. Turn it into numbers in the "
            "input pipeline."
        )
    if array.ndim == 0:
        raise ValueError(
            f"Feature (key: {key}) cannot have rank 0. Given: {value}. Call `batch` on the dataset."
        )
    return jnp.asarray(array[:, None] if array.ndim == 1 else array)


def is_real(dtype: Any) -> bool:
    """Return whether a dtype is one of integers or floating-point numbers."""
    return bool(jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating))
