"""Values of replicas; random keys among them, whose dtype NumPy does not know."""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from muster._arrays import AnyArray
from muster._keras import keras
from muster.data import Optional

# An Optional is a nested structure, as in TensorFlow, so that functions can return it.
jax.tree_util.register_pytree_node(
    Optional, lambda optional: (optional.values, None), lambda _, values: Optional(tuple(values))
)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["data"], meta_fields=["shapes", "sizes"])
@dataclass
class Padded:
    """Values of replicas that have different numbers of rows; if shapes differ, padded to the largest.

    Attributes:
        data: Shape (replicas of this process, or in a step 1, ...).
        shapes: The shape of each replica's value, over all processes.
        sizes: The number of rows of a batch from which each replica has computed its value; None if unknown.
    """

    data: AnyArray
    shapes: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...] | None = None

    def of_replica(self, number: int) -> AnyArray:
        """Return the only value, without its padding: that of a replica with this number; shape (1, ...)."""
        own: AnyArray = self.data[(slice(None), *map(slice, self.shapes[number]))]
        return own


class ReplicaKind(NamedTuple):
    """Describes the layout of a ``PerReplica`` value beside its arrays.

    Attributes:
        replicated: Whether all replicas have the same value, which counts once.
        sizes: The number of rows of a batch from which each replica has computed the value, if they differ.
        shapes: The shape of each replica's value, if they differ.
        first: The number of the first replica of this process.
    """

    replicated: bool = False
    sizes: tuple[int, ...] | None = None
    shapes: tuple[tuple[int, ...], ...] | None = None
    first: int = 0

    @property
    def is_uneven(self) -> bool:
        """True if the value was computed from an uneven batch, or its shapes differ."""
        return self.sizes is not None or self.shapes is not None

    @property
    def has_rows(self) -> bool:
        """True if the value has the rows of an uneven batch along its first axis."""
        if self.sizes is None or self.shapes is None:
            return False
        rest = self.shapes[0][1:]
        return self.shapes == tuple((size, *rest) for size in self.sizes)


@dataclass(frozen=True, eq=False)
class PerReplica:
    """A value per replica, of one dtype on all replicas.

    Attributes:
        data: In a step, this replica's array; outside, the arrays of this process' replicas, stacked along
            a new first axis; padded to the largest if their shapes differ.
        kind: What else is to be said of it.

    Source: tensorflow/python/distribute/values.py, ``PerReplica``.
    """

    data: AnyArray
    kind: ReplicaKind = ReplicaKind()

    @property
    def replicated(self) -> bool:
        """True if all replicas have the same value, which counts once."""
        return self.kind.replicated

    @property
    def arrays(self) -> Any:
        """The data for a step: ``Padded`` if replicas have different numbers of rows."""
        if not self.kind.is_uneven:
            return self.data
        shapes = self.kind.shapes or (tuple(self.data.shape[1:]),) * len(self.kind.sizes or ())
        return Padded(self.data, shapes, self.kind.sizes)

    @classmethod
    def of(cls, arrays: Any, kind: ReplicaKind) -> "PerReplica":
        """Make values of the data that a step has returned."""
        if isinstance(arrays, Padded):
            return cls(arrays.data, kind._replace(shapes=arrays.shapes))
        return cls(arrays, kind)

    @property
    def values(self) -> tuple[AnyArray, ...]:
        """The values of this process' replicas, in the order of the replicas."""
        shards = getattr(self.data, "addressable_shards", None)
        if shards is None or (len(shards) == 1 and getattr(self.data, "is_fully_addressable", True)):
            numbered = list(enumerate(self.data, start=self.kind.first))
        else:
            numbered = [(shard.index[0].start, shard.data[0]) for shard in shards]
        return tuple(
            self._cut(number, value) for number, value in sorted(numbered, key=operator.itemgetter(0))
        )

    def _cut(self, number: int, value: AnyArray) -> AnyArray:
        """Return the value of a replica without its padding."""
        return value if self.kind.shapes is None else value[tuple(map(slice, self.kind.shapes[number]))]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Refuse the conversion to one array.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "It looks like you are using a PerReplica object while not inside a replica context, which is "
            "not supported. Use it in strategy.run, reduce it, or take its values."
        )

    def __repr__(self) -> str:
        values = "".join(f"\n  {i}: {value}" for i, value in enumerate(self.values))
        return f"PerReplica:{{{values}\n}}"


# Built once, since they are used for every argument of every step.
_VALUES = (PerReplica, keras.Variable)
_ARRAYS = (np.ndarray, np.generic, jax.Array)


def is_leaf(value: Any) -> bool:
    """Return whether a value is a leaf although JAX would flatten it, or drop it.

    Those are None, ``PerReplica``, variables and iterators.
    """
    return value is None or isinstance(value, _VALUES) or hasattr(value, "__next__")


def is_array(value: Any) -> bool:
    """Return whether a value is a NumPy or JAX array, or a NumPy scalar."""
    return isinstance(value, _ARRAYS)


def map_values(function: Callable[[Any], Any], structure: Any) -> Any:
    """Apply a function to the values of a nested structure."""
    return jax.tree.map(function, structure, is_leaf=is_leaf)


def is_key(value: Any) -> bool:
    """Return whether a value is one or more random keys."""
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def by_numbers(move: Callable[[Any], Any], array: Any) -> Any:
    """Apply a function to an array, or to the numbers (``jax.random.key_data``) of random keys.

    Args:
        move: Copies an array, or concatenates arrays along an axis counted from the first.
        array: An array or random keys.
    """
    if not is_key(array):
        return move(array)
    return jax.random.wrap_key_data(move(jax.random.key_data(array)), impl=jax.random.key_impl(array))


Exchange = Callable[[list[Any]], list[list[Any]]]
"""Returns the lists of all processes, in their order, of which each gives one."""


def stacked(values: list[Any], exchange: Exchange = lambda own: [own], rank: int = 0) -> PerReplica:
    """Stack the values of this process' replicas; those whose sizes differ, padded to the largest.

    Args:
        values: One for each of this process' replicas.
        exchange: Tells the processes of each other's shapes.
        rank: The number of this process.

    Raises:
        ValueError: The values of two replicas differ in dtype or rank, or random keys in shape.
    """
    arrays = [value if is_key(value) else np.asarray(value) for value in values]
    told = exchange([[str(array.dtype), list(array.shape)] for array in arrays])
    kinds = [(dtype, tuple(shape)) for own in told for dtype, shape in own]
    if len(set(kinds)) == 1:
        return PerReplica(jnp.stack(arrays) if is_key(arrays[0]) else np.stack(arrays))
    shapes = tuple(shape for _, shape in kinds)
    if is_key(arrays[0]) or len({(dtype, len(shape)) for dtype, shape in kinds}) > 1:
        found = ", ".join(f"{dtype}{list(shape)}" for dtype, shape in kinds)
        raise ValueError(
            f"The values of the replicas differ in type or rank: {found}. Give them one dtype, and equally "
            "many axes: only the sizes of these may differ, and of random keys not even they."
        )
    largest = tuple(map(max, zip(*shapes, strict=True)))
    data = np.zeros((len(arrays), *largest), arrays[0].dtype)
    for place, array in zip(data, arrays, strict=True):
        place[tuple(map(slice, array.shape))] = array
    return PerReplica(data, ReplicaKind(shapes=shapes, first=rank * len(arrays)))


def replicated(value: Any, replicas: int) -> PerReplica:
    """Replicate a value on this process' replicas; it counts once."""
    array = np.asarray(value)
    return PerReplica(np.broadcast_to(array[None], (replicas, *array.shape)), ReplicaKind(replicated=True))


@dataclass(frozen=True)
class ValueContext:
    """Tells the function of ``experimental_distribute_values_from_function`` for which replica it is called.

    Attributes:
        replica_id_in_sync_group: The number of the replica, from 0.
        num_replicas_in_sync: The number of replicas over all workers.

    Source: tensorflow/python/distribute/distribute_lib.py, ``ValueContext``.
    """

    replica_id_in_sync_group: int = 0
    num_replicas_in_sync: int = 1

    def __str__(self) -> str:
        return (
            f"tf.distribute.ValueContext(replica id {self.replica_id_in_sync_group}, "
            f" total replicas in sync: {self.num_replicas_in_sync})"
        )
