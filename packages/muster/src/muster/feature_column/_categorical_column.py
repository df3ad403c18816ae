"""The base class of categorical columns, and the ids and weights that they pass to the step."""

from abc import abstractmethod
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster._row_ids import NO_ID, wide_ids
from muster.feature_column._feature_column import FeatureColumn, ParseSpec
from muster.feature_column._host_values import (
    Features,
    IdsAndWeights,
    padded,
)


class PaddedIds(NamedTuple):
    """The ids of a batch in a step.

    Attributes:
        ids: int32 of shape (batch, width), or (batch, steps, width) of sequences; -1 where there is none. Of
            hashed tables the halves of ids of 64 bits: uint32, with one axis more, of size 2.
        weights: float32 of that shape; None weighs all alike.
    """

    ids: jax.Array
    weights: jax.Array | None


class CategoricalColumn(FeatureColumn):
    """A feature column with any number of ids for each example.

    Ids are made on the host, by `sparse_ids`, and handed to the step as padded arrays. Columns that need no
    host at all make them in the step.

    Source: ``CategoricalColumn`` (tensorflow/python/feature_column/feature_column_v2.py).
    """

    @property
    @abstractmethod
    def num_buckets(self) -> int:
        """Ids are from 0 up to this number."""

    @abstractmethod
    def sparse_ids(self, features: Features) -> IdsAndWeights:
        """Return the ids of a batch, on the host.

        Args:
            features: The features that the column reads, as they come from the input pipeline, and others.

        Returns:
            Ids as TensorFlow makes them: -1 for what a vocabulary lacks.

        Raises:
            ValueError: A feature is absent or has a wrong dtype.
        """

    @property
    def hashed_table(self) -> Any:
        """The `HashedTableColumn` that chooses which ids a hashed table keeps; None if ids number rows."""
        return None

    @property
    def host_column(self) -> FeatureColumn | None:
        """The column itself."""
        return self

    @cached_property
    def host_key(self) -> str:
        """The key of the column's ids among features that have been transformed."""
        return f"{self.name}.{type(self).__name__}.{self.num_buckets}"

    @cached_property
    def weights_key(self) -> str:
        """The key of the weights of the column's ids."""
        return f"{self.host_key}.weights"

    def transformed(self, features: Features) -> dict[str, np.ndarray[Any, Any]]:
        """Return the column's ids, and weights if it has any, as arrays for the step.

        Raises:
            ValueError: As by `sparse_ids`; or an id is too large or negative.
        """
        return self.padded_ids(self.sparse_ids(features))

    def padded_ids(self, found: IdsAndWeights) -> dict[str, np.ndarray[Any, Any]]:
        """Return ids, and weights if there are any, as arrays for the step.

        Raises:
            ValueError: An id is too large or negative.
        """
        ids, weights = found
        values = ids.plain_values
        if self.hashed_table is not None:
            arrays = {self.host_key: wide_ids(padded(ids, values, NO_ID, np.int64))}
        elif len(values) and (values.min() < -1 or values.max() >= self.num_buckets):
            at = int(np.argmax((values < -1) | (values >= self.num_buckets)))
            example = ids.plain_indices[at, 0]
            raise ValueError(
                f"Column {self.name}: the id {values[at]} of example {example} is not in "
                f"[0, {self.num_buckets}). Give the column a default_value, or more buckets."
            )
        else:
            arrays = {self.host_key: padded(ids, values, -1, np.int32)}
        if weights is not None:
            arrays[self.weights_key] = padded(ids, weights, 0, np.float32)
        return arrays

    def step_ids(self, features: Features) -> PaddedIds:
        """Return the ids of a batch in a step.

        Args:
            features: What `transform_features` returned, or features that the column can compute with in a
                step.

        Raises:
            ValueError: The features have not been transformed, and the column works on the host.
        """
        if self.host_key in features:
            weights = features.get(self.weights_key)
            return PaddedIds(
                jnp.asarray(features[self.host_key]), None if weights is None else jnp.asarray(weights)
            )
        return self.traced_ids(features)

    def traced_ids(self, features: Features) -> PaddedIds:
        """Compute the ids in a step, from features that have not been transformed.

        Raises:
            ValueError: The column works on the host.
        """
        arrays = self.transformed(features)
        weights = arrays.get(self.weights_key)
        return PaddedIds(
            jnp.asarray(arrays[self.host_key]), None if weights is None else jnp.asarray(weights)
        )


class ColumnOfIds(FeatureColumn):
    """A feature column that is made of the ids of a categorical one."""

    categorical_column: CategoricalColumn

    @property
    def parents(self) -> tuple[CategoricalColumn]:
        """The ids."""
        return (self.categorical_column,)

    @property
    def parse_example_spec(self) -> ParseSpec:
        """That of the ids."""
        return self.categorical_column.parse_example_spec
