"""Represent values of a step over the global batch as one worker holds them."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

all_reduce_p = jex.Primitive("muster_all_reduce")
all_reduce_p.def_abstract_eval(lambda value: value)


class IndivisibleError(Exception):
    """A step needs rows of other workers where no rule says how. It is caught: XLA partitions that step."""


@dataclass(frozen=True)
class Replicated:
    """A value that every worker has.

    Attributes:
        array: The value, of the global shape.
    """

    array: jax.Array


@dataclass(frozen=True)
class Sharded:
    """A value of which each worker has one shard: equal, contiguous parts of an axis, in workers' order.

    Attributes:
        array: This worker's shard.
        axis: The axis that is sharded.
    """

    array: jax.Array
    axis: int


class Partial:
    """A value that is the sum of one addend per worker. Nothing is computed before it is asked for.

    Args:
        aval: The shape and dtype of the value, global.
        compute: A linear function from the values of the sources to this one.
        sources: The values that it is computed from; none if the addends come from the workers' rows.
    """

    def __init__(
        self, aval: jax.core.ShapedArray, compute: Callable[..., jax.Array], *sources: "Partial"
    ) -> None:
        self.aval = aval
        self._compute = compute
        self._sources = sources
        self._addend: jax.Array | None = None
        self._sum: jax.Array | None = None

    def addend(self) -> jax.Array:
        """Return this worker's addend, of the global shape."""
        if self._addend is None:
            self._addend = self._compute(*[source.addend() for source in self._sources])
        return self._addend

    def all_reduce(self, workers: "WorkerGroup") -> jax.Array:
        """Return the sum over all workers."""
        if self._sum is None:
            if self._follows_from_sources():
                self._sum = self._compute(*[source.all_reduce(workers) for source in self._sources])
            else:
                self._sum = workers.all_reduce(self.addend())
        return self._sum

    def _follows_from_sources(self) -> bool:
        """Return whether to reduce the sources, so that other values made of them need no reduction.

        A gradient is reduced once, not once more for each of an optimizer's multiples of it.
        """
        if not self._sources:
            return False
        if all(source._sum is not None for source in self._sources):
            return True
        source, *others = [source.aval for source in self._sources]
        exact = source.dtype.itemsize >= self.aval.dtype.itemsize or jnp.issubdtype(source.dtype, jnp.integer)
        return not others and source.size <= self.aval.size and exact


Value = Replicated | Sharded | Partial


@dataclass(frozen=True)
class WorkerGroup:
    """The workers that share a global batch, as one of them sees them.

    Attributes:
        count: The number of workers.
        index: The number of this worker, from 0.
        can_reduce: Whether values can be reduced here: not in the body of a loop.
    """

    count: int
    index: jax.Array
    can_reduce: bool = True

    def all_reduce(self, array: jax.Array) -> jax.Array:
        """Add an array over all workers, by a marker."""
        if not self.can_reduce:
            raise IndivisibleError("a sum over the batch is needed in a loop")
        return all_reduce_p.bind(array)  # type: ignore[no-any-return]

    def replicated(self, value: Value) -> jax.Array:
        """Return a value that is not sharded, reduced if it is partial."""
        if isinstance(value, Sharded):
            raise IndivisibleError("the global batch is needed")
        return self.reduced(value).array

    def reduced(self, value: Value) -> Replicated | Sharded:
        """Return a value as it is, or reduced if it is partial."""
        return Replicated(value.all_reduce(self)) if isinstance(value, Partial) else value

    def shard(self, array: jax.Array, axis: int) -> jax.Array:
        """Return this worker's shard of a replicated array."""
        size = self.shard_size(array.shape[axis])
        return lax.dynamic_slice_in_dim(array, jnp.int32(self.index) * size, size, axis)

    def shard_size(self, size: int) -> int:
        """Return the size of a shard of an axis."""
        if size % self.count or not size:
            raise IndivisibleError(f"{self.count} workers cannot share an axis of {size}")
        return size // self.count

    def addend(self, value: Replicated | Partial) -> jax.Array:
        """Return this worker's addend of a value; of a replicated one, only the first worker's is not 0."""
        if isinstance(value, Partial):
            return value.addend()
        return jnp.where(self.index == 0, value.array, jnp.zeros_like(value.array))

    def all_gather(self, array: jax.Array) -> jax.Array:
        """Stack the workers' arrays along a new first axis."""
        if not jnp.issubdtype(array.dtype, jnp.number):
            if array.dtype != jnp.bool_:
                raise IndivisibleError(f"values of type {array.dtype} cannot be added")
            return self.all_gather(array.astype(jnp.int8)).astype(jnp.bool_)
        places = jnp.zeros((self.count, *array.shape), array.dtype)
        return self.all_reduce(lax.dynamic_update_index_in_dim(places, array, jnp.int32(self.index), 0))

    def unsharded(self, value: Sharded) -> jax.Array:
        """Return all shards, concatenated."""
        stacked = jnp.moveaxis(self.all_gather(value.array), 0, value.axis)
        shape = list(value.array.shape)
        shape[value.axis] *= self.count
        return stacked.reshape(shape)
