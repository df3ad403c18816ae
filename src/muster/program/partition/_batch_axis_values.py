"""What a worker that computes for its own rows has of the values of a step on the whole batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

Array = Any
Aval = Any
"""Shape and dtype of a value, global."""

total_p = jex.Primitive("muster_total")
total_p.def_abstract_eval(lambda value: value)


class IndivisibleError(Exception):
    """A step needs rows of other workers where no rule says how. It is caught: XLA divides that step."""


@dataclass(frozen=True)
class Full:
    """A value that every worker has.

    Attributes:
        array: of the global shape.
    """

    array: Array


@dataclass(frozen=True)
class Rows:
    """A value of which each worker has one part of an axis: equal, contiguous parts, in their order.

    Attributes:
        array: this worker's part.
        axis: which is divided.
    """

    array: Array
    axis: int


class Partial:
    """A value to which those that the workers have add up. Nothing is computed before it is asked for.

    Args:
        aval: of the value.
        compute: linear, from the values of the sources to this one.
        sources: what it is made of; none where the workers' own values come from their rows.
    """

    def __init__(self, aval: Aval, compute: Callable[..., Array], *sources: "Partial") -> None:
        self.aval = aval
        self._compute = compute
        self._sources = sources
        self._own: Array = None
        self._total: Array = None

    def own(self) -> Array:
        """This worker's value, of the global shape."""
        if self._own is None:
            self._own = self._compute(*[source.own() for source in self._sources])
        return self._own

    def total(self, workers: "Workers") -> Array:
        """The sum over all workers."""
        if self._total is None:
            if self._follows_from_sources():
                self._total = self._compute(*[source.total(workers) for source in self._sources])
            else:
                self._total = workers.total(self.own())
        return self._total

    def _follows_from_sources(self) -> bool:
        """Whether to add the sources, so that what else is made of them needs no sum of its own.

        A gradient is added once, not once more for each of an optimizer's multiples of it.
        """
        if not self._sources:
            return False
        if all(source._total is not None for source in self._sources):
            return True
        source, *others = [source.aval for source in self._sources]
        exact = source.dtype.itemsize >= self.aval.dtype.itemsize or jnp.issubdtype(source.dtype, jnp.integer)
        return not others and source.size <= self.aval.size and exact


Value = Full | Rows | Partial


@dataclass(frozen=True)
class Workers:
    """The workers that divide a batch, as one of them sees them.

    Attributes:
        count: how many there are.
        index: which of them this is, an integer from 0.
        meet: whether their values can meet here: not in the body of a loop.
    """

    count: int
    index: Array
    meet: bool = True

    def total(self, array: Array) -> Array:
        """The sum of an array over all workers, by a marker."""
        if not self.meet:
            raise IndivisibleError("a sum over the batch is needed in a loop")
        return total_p.bind(array)

    def full(self, value: Value) -> Array:
        """A value that has no rows, whole."""
        match value:
            case Full(array):
                return array
            case Partial():
                return value.total(self)
        raise IndivisibleError("the whole batch is needed")

    def own(self, array: Array, axis: int) -> Array:
        """This worker's part of an axis of an array that all have."""
        size = self.part(array.shape[axis])
        return lax.dynamic_slice_in_dim(array, jnp.int32(self.index) * size, size, axis)

    def part(self, size: int) -> int:
        """How much of an axis of this size a worker has."""
        if size % self.count or not size:
            raise IndivisibleError(f"{self.count} workers cannot share an axis of {size}")
        return size // self.count

    def share(self, value: Full | Partial) -> Array:
        """What this worker adds to a value."""
        if isinstance(value, Partial):
            return value.own()
        return jnp.where(self.index == 0, value.array, jnp.zeros_like(value.array))

    def stack(self, array: Array) -> Array:
        """What each worker has, along a new first axis, on all of them."""
        if not jnp.issubdtype(array.dtype, jnp.number):
            if array.dtype != jnp.bool_:
                raise IndivisibleError(f"values of type {array.dtype} cannot be added")
            return self.stack(array.astype(jnp.int8)).astype(jnp.bool_)
        places = jnp.zeros((self.count, *array.shape), array.dtype)
        return self.total(lax.dynamic_update_index_in_dim(places, array, jnp.int32(self.index), 0))

    def gather(self, value: Rows) -> Array:
        """All rows, on each worker."""
        stacked = jnp.moveaxis(self.stack(value.array), 0, value.axis)
        shape = list(value.array.shape)
        shape[value.axis] *= self.count
        return stacked.reshape(shape)
