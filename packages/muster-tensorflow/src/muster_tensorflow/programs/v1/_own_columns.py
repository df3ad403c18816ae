"""Feature columns that programs write themselves, derived from TensorFlow's classes of columns.

A column that reads text, or sparse features, is computed on the host, in the input pipeline; any other one in
steps, where it may have a variable.

Source: tensorflow/python/feature_column/feature_column_v2.py, ``DenseColumn`` and ``CategoricalColumn``;
tensorflow/python/feature_column/feature_column_v2_types.py, ``FeatureColumn``.
"""

import math
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster import feature_column
from muster.data import FixedLenFeature, RaggedTensor, SparseTensor
from muster.extend import IdsAndWeights, Table, column_scopes
from muster.feature_column import FeatureColumn, Features
from muster_tensorflow.library.ops.arrays._tensor_shape import TensorShape
from muster_tensorflow.patches import change


class IdWeightPair(NamedTuple):
    """The ids of a batch and their weights, both sparse; no weights weigh all alike."""

    id_tensor: Any
    weight_tensor: Any


class FeatureTransformationCache:
    """Finds features by their keys, and what columns make of them, once.

    Args:
        features: A batch.
    """

    def __init__(self, features: Features) -> None:
        self.features = features
        self._made: list[tuple[Any, Any]] = []

    def get(self, key: Any, state_manager: Any, training: bool | None = None) -> Any:
        """Return a feature of shape (batch, ...), of two axes at least, or what a column makes of features.

        Args:
            key: The key of a feature, or a column.
            state_manager: Has the variables of columns.
            training: Unused.

        Raises:
            ValueError: There is no such feature.
        """
        if isinstance(key, str):
            return self._feature(key)
        for column, value in self._made:
            if column == key:
                return value
        value = key.transform_feature(self, state_manager)
        self._made.append((key, value))
        return value

    def _feature(self, key: str) -> Any:
        if key not in self.features:
            there = ", ".join(sorted(map(repr, self.features))) or "none"
            raise ValueError(f"Feature {key} is not in features dictionary. There are: {there}.")
        value = self.features[key]
        if isinstance(value, RaggedTensor):
            return value.to_sparse()
        if isinstance(value, SparseTensor):
            return value
        array = value if isinstance(value, jax.Array) else np.asarray(value)
        array = array[:, None] if array.ndim == 1 else array
        return array if array.dtype.kind in "SUO" else jnp.asarray(array)


class StateManager:
    """Has the variables of columns, or notes which they create.

    Args:
        values: The values of variables, by their paths.
    """

    def __init__(self, values: Mapping[tuple[str, ...], Any]) -> None:
        self.created: list[Table] = []
        self._values = values
        self._resources: dict[Any, Any] = {}

    def create_variable(
        self,
        feature_column: FeatureColumn,
        name: str,
        shape: Sequence[int],
        dtype: Any = None,
        trainable: bool = True,
        use_resource: bool = True,
        initializer: Any = None,
    ) -> None:
        """Note a variable of float32 that a column has."""
        table = Table(
            path=(*column_scopes(feature_column.name), name),
            shape=tuple(int(size) for size in shape),
            initializer="glorot_uniform" if initializer is None else initializer,
            trainable=trainable,
        )
        self.created.append(table)

    def get_variable(self, feature_column: FeatureColumn, name: str) -> Any:
        """Return the value of a variable of a column.

        Raises:
            ValueError: The column has not created it.
        """
        path = (*column_scopes(feature_column.name), name)
        if path not in self._values:
            raise ValueError(
                f"The column {feature_column.name} asks for the variable {name!r}, which it has not created: "
                "create it in create_state. A column that reads text or sparse features has none."
            )
        return self._values[path]

    def add_resource(self, feature_column: FeatureColumn, name: str, resource: Any) -> None:
        """Keep an object for a column, while it computes a batch."""
        self._resources[feature_column.name, name] = resource

    def has_resource(self, feature_column: FeatureColumn, name: str) -> bool:
        """Return whether an object has been kept."""
        return (feature_column.name, name) in self._resources

    def get_resource(self, feature_column: FeatureColumn, name: str) -> Any:
        """Return an object that has been kept.

        Raises:
            KeyError: There is none.
        """
        return self._resources[feature_column.name, name]


class _OfColumns(ABCMeta):
    """Lets muster's own columns be instances of the classes that programs derive from."""

    def __instancecheck__(cls, instance: Any) -> bool:
        known = {
            "DenseColumn": feature_column.DenseColumn,
            "CategoricalColumn": feature_column.CategoricalColumn,
        }
        is_base = cls.__module__ == __name__
        return isinstance(instance, known[cls.__name__]) if is_base else super().__instancecheck__(instance)


class DenseColumn(feature_column.DenseColumn, metaclass=_OfColumns):
    """A column of numbers that a program defines: it has a name, parents, specs and a shape, and computes.

    It may create one variable in ``create_state``, and reads it by ``state_manager.get_variable``.
    """

    _is_v2_column = True

    @property
    @abstractmethod
    def variable_shape(self) -> Any:
        """The shape of the values of an example."""

    @abstractmethod
    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Return the values of a batch, of shape (batch, ...)."""

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Return what others get of the column from the cache; it is the values."""
        return self.get_dense_tensor(transformation_cache, state_manager)

    def create_state(self, state_manager: Any) -> None:
        """Create variables: none."""

    @property
    def num_elements(self) -> int:
        """The number of values for each example."""
        return math.prod(_sizes_of(self))

    @cached_property
    def table(self) -> Table | None:
        """The variable of the column, if it creates one.

        Raises:
            ValueError: It creates several.
        """
        created = StateManager({})
        self.create_state(created)
        if len(created.created) > 1:
            names = ", ".join(each.path[-1] for each in created.created)
            raise ValueError(
                f"The column {self.name} creates the variables {names}, and a column has one at most: put "
                "them into one array, or into several columns."
            )
        return created.created[0] if created.created else None

    @property
    def host_column(self) -> FeatureColumn | None:
        """The column itself if it reads text or sparse features; else that of a column that it is made of."""
        hosts = {each.host_key: each for each in map(_host_of, self.parents) if each is not None}
        if _reads_text(self) or len(hosts) > 1:
            return self
        return next(iter(hosts.values()), None)

    @property
    def host_key(self) -> str:
        """The key of the values among features that have been transformed, if the host computes them."""
        return f"{self.name}.{type(self).__name__}"

    def transformed(self, features: Features) -> dict[str, np.ndarray[Any, Any]]:
        """Return the values, computed on the host."""
        values = self.get_dense_tensor(FeatureTransformationCache(features), StateManager({}))
        return {self.host_key: np.asarray(self._by_rows(values), np.float32)}

    def dense_values(self, features: Features, table: jax.Array | None = None) -> jax.Array:
        """Return the values of a batch: float32 of shape (batch, num_elements).

        Raises:
            ValueError: A feature is absent, or the values have another shape.
        """
        if self.host_key in features:
            return jnp.asarray(features[self.host_key])
        own = self.table
        state = StateManager({} if own is None else {own.path: table})
        return self._by_rows(self.get_dense_tensor(FeatureTransformationCache(features), state))

    def _by_rows(self, values: Any) -> jax.Array:
        array = jnp.asarray(values)
        if array.ndim == 0 or math.prod(array.shape[1:]) != self.num_elements:
            raise ValueError(
                f"The column {self.name} returns values of shape {array.shape}, and its variable_shape says "
                f"{_sizes_of(self)} for each example: return (batch, …)."
            )
        return array.reshape(array.shape[0], -1).astype(jnp.float32)


class CategoricalColumn(feature_column.CategoricalColumn, metaclass=_OfColumns):
    """A column of ids that a program defines, which the host computes: indicators and embeddings take it."""

    _is_v2_column = True
    IdWeightPair = IdWeightPair

    @abstractmethod
    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> tuple[Any, Any]:
        """Return the ids of a batch, and weights or None, as an ``IdWeightPair`` of sparse tensors."""

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Return what others get of the column from the cache; it is the ids."""
        return self.get_sparse_tensors(transformation_cache, state_manager)[0]

    def create_state(self, state_manager: Any) -> None:
        """Create variables: none."""

    def sparse_ids(self, features: Features) -> IdsAndWeights:
        """Return the ids of a batch, on the host.

        Raises:
            TypeError: They are no sparse tensor.
        """
        pair = self.get_sparse_tensors(FeatureTransformationCache(features), StateManager({}))
        ids, weights = pair
        if not isinstance(ids, SparseTensor):
            raise TypeError(
                f"The column {self.name} returns {type(ids).__name__} as ids: return an IdWeightPair of "
                "tf.SparseTensor, such as tf.sparse.from_dense makes."
            )
        on_host = SparseTensor(
            np.asarray(ids.indices), np.asarray(ids.values).astype(np.int64), np.asarray(ids.dense_shape)
        )
        return IdsAndWeights(on_host, None if weights is None else np.asarray(weights.values, np.float32))


def _sizes_of(column: Any) -> tuple[int, ...]:
    """Return the sizes of a column's values for an example, all of which are known."""
    return tuple(int(size) for size in TensorShape(column.variable_shape).as_list() if size is not None)


def _host_of(parent: Any) -> FeatureColumn | None:
    return None if isinstance(parent, str) else parent.host_column


def _reads_text(column: DenseColumn) -> bool:
    """Return whether a column itself reads features with which a step cannot compute."""
    keys = [each for each in column.parents if isinstance(each, str)]
    specs = [column.parse_example_spec[key] for key in keys if key in column.parse_example_spec]
    return any(not isinstance(spec, FixedLenFeature) or np.dtype(spec.dtype).kind in "SUO" for spec in specs)


# What a program's own column calls of muster's, which it is made of.


def _shape_of_numeric(self: Any) -> TensorShape:
    """The shape of the values of an example."""
    return TensorShape(getattr(self, "shape", (self.num_elements,)))


def _get_dense_tensor(self: Any, transformation_cache: FeatureTransformationCache, state_manager: Any) -> Any:
    """Return the values of a batch, of shape (batch, ...).

    Raises:
        ValueError: The column has a variable.
    """
    if self.table is not None:
        raise ValueError(
            f"The column {self.name} has a variable: give it to the model beside the other column."
        )
    values = self.dense_values(transformation_cache.features)
    return values.reshape(-1, *_sizes_of(self))


def _get_sparse_tensors(
    self: Any, transformation_cache: FeatureTransformationCache, state_manager: Any
) -> Any:
    """Return the ids of a batch, and weights or None."""
    ids, weights = self.sparse_ids(transformation_cache.features)
    return IdWeightPair(ids, None if weights is None else ids.with_values(weights))


def _transformed_dense(self: Any, transformation_cache: Any, state_manager: Any) -> Any:
    """Return the values of a batch."""
    return self.get_dense_tensor(transformation_cache, state_manager)


def _transformed_ids(self: Any, transformation_cache: Any, state_manager: Any) -> Any:
    """Return the ids of a batch."""
    return self.get_sparse_tensors(transformation_cache, state_manager).id_tensor


def _create_no_state(self: Any, state_manager: Any) -> None:
    """Create no variables: muster creates those of its columns."""


_OF_DENSE: dict[str, Callable[..., Any] | property] = {
    "variable_shape": property(_shape_of_numeric),
    "get_dense_tensor": _get_dense_tensor,
    "transform_feature": _transformed_dense,
    "create_state": _create_no_state,
}
_OF_IDS: dict[str, Callable[..., Any] | property] = {
    "get_sparse_tensors": _get_sparse_tensors,
    "transform_feature": _transformed_ids,
    "create_state": _create_no_state,
}


def patch() -> None:
    """Give muster's columns the methods of TensorFlow's that columns of programs call."""
    for owner, methods in (
        (feature_column.DenseColumn, _OF_DENSE),
        (feature_column.CategoricalColumn, _OF_IDS),
    ):
        for name, method in methods.items():
            change(owner, name, method)
