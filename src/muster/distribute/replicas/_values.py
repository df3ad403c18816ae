"""Values of replicas; random keys among them, whose dtype NumPy does not know."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, eq=False)
class PerReplica:
    """A value per replica, of one shape and dtype on all replicas.

    Attributes:
        data: In a step, this replica's array; outside, the arrays of this process' replicas, stacked along
            a new first axis.
        replicated: Whether all replicas have the same value, which counts once.

    Source: tensorflow/python/distribute/values.py, ``PerReplica``.
    """

    data: AnyArray
    replicated: bool = False

    @property
    def values(self) -> tuple[AnyArray, ...]:
        """The values of this process' replicas, in the order of the replicas."""
        shards = getattr(self.data, "addressable_shards", None)
        if shards is None or len(shards) == 1:
            return tuple(self.data)
        return tuple(shard.data[0] for shard in sorted(shards, key=lambda shard: shard.index[0].start))

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
    """Whether a value is a leaf of a nested structure although JAX would look into it, or not see it.

    Those are None, ``PerReplica``, variables and iterators.
    """
    return value is None or isinstance(value, _VALUES) or hasattr(value, "__next__")


def is_array(value: Any) -> bool:
    """Whether a value is a NumPy or JAX array, or a NumPy scalar."""
    return isinstance(value, _ARRAYS)


def map_values(function: Callable[[Any], Any], structure: Any) -> Any:
    """Apply a function to the values of a nested structure."""
    return jax.tree.map(function, structure, is_leaf=is_leaf)


def is_key(value: Any) -> bool:
    """Whether a value is one or more random keys."""
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


def stacked(values: list[Any]) -> PerReplica:
    """Stack the values of this process' replicas.

    Raises:
        ValueError: They differ in shape or dtype.
    """
    arrays = [value if is_key(value) else np.asarray(value) for value in values]
    kinds = {(array.shape, array.dtype) for array in arrays}
    if len(kinds) > 1:
        shapes = ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays)
        raise ValueError(
            f"The values of the replicas differ in shape or type: {shapes}. Pad them to one shape."
        )
    return PerReplica(jnp.stack(arrays) if is_key(arrays[0]) else np.stack(arrays))


def replicated(value: Any, replicas: int) -> PerReplica:
    """Replicate a value on this process' replicas; it counts once."""
    array = np.asarray(value)
    return PerReplica(np.broadcast_to(array[None], (replicas, *array.shape)), replicated=True)


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
