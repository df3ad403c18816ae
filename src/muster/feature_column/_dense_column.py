"""What all columns have in common that give numbers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Array = Any

Features: TypeAlias = Mapping[str, Any]
"""A batch of features by key: arrays of shape (batch, ...), or (batch,) for one number an example."""


class DenseColumn(ABC):
    """A column that gives as many numbers for every example.

    A column is an immutable value. It has no weights: those are the model's.

    Source: ``DenseColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What tells the column from the others of a model, and names its weights."""

    @property
    @abstractmethod
    def num_elements(self) -> int:
        """How many numbers it gives for an example."""

    @property
    @abstractmethod
    def parse_example_spec(self) -> dict[str, Any]:
        """What `muster.data.parse_example` must read for it: key -> feature."""

    @abstractmethod
    def dense_values(self, features: Features) -> Array:
        """Its numbers for a batch.

        Args:
            features: with all that the column reads.

        Returns:
            float32 of shape (batch, num_elements).

        Raises:
            ValueError: A feature is not there, has another shape, or holds no numbers.
        """


def feature(features: Features, key: str) -> Array:
    """One feature of a batch.

    Args:
        features: of the batch.
        key: which.

    Returns:
        Numbers or truth values of shape (batch, ...); a number for each example has the shape (batch, 1).

    Raises:
        ValueError: It is not there, holds something else, or has no batch axis.

    Source: ``FeatureTransformationCache`` (tensorflow/python/feature_column/feature_column_v2.py).
    """
    if key not in features:
        there = ", ".join(sorted(map(repr, features))) or "none"
        raise ValueError(f"Feature {key} is not in features dictionary. There are: {there}.")
    given = features[key]
    array = given if isinstance(given, jax.Array) else np.asarray(given)
    if not (jnp.issubdtype(array.dtype, jnp.bool_) or is_real(array.dtype)):
        raise ValueError(
            f"Feature {key} has dtype {array.dtype}, and a column needs numbers. Turn it into numbers in the "
            "input pipeline."
        )
    if array.ndim == 0:
        raise ValueError(
            f"Feature (key: {key}) cannot have rank 0. Given: {given}. Call `batch` on the dataset."
        )
    return jnp.asarray(array[:, None] if array.ndim == 1 else array)


def is_real(dtype: Any) -> bool:
    """Whether a dtype is one of integers or floating-point numbers."""
    return bool(jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating))
