"""Represent values and equations of a step over the global batch as one worker holds them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from muster.program._replicas import Shares
from muster.program.passes._jaxprs import Equation, function_of, type_of

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
    """A value of which each worker has one shard: contiguous parts of an axis, in workers' order.

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
        shares: The rows of the batch that each worker has if they differ; None for equal shards.
        can_reduce: Whether values can be reduced here: not in the body of a loop.
    """

    count: int
    index: jax.Array
    shares: Shares | None = None
    can_reduce: bool = True

    def all_reduce(self, array: jax.Array) -> jax.Array:
        """All-reduce an array (a sum over all workers), by a marker in the trace."""
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
        size = array.shape[axis]
        return lax.dynamic_slice_in_dim(array, self._start(size), self.shard_size(size), axis)

    def can_share(self, size: int) -> bool:
        """Return whether the workers can share an axis of this size as they share the rows of the batch."""
        return size > 0 and size % (self.count if self.shares is None else self.shares.total) == 0

    def shard_size(self, size: int) -> int:
        """Return the size of this worker's shard of an axis."""
        if not self.can_share(size):
            raise IndivisibleError(f"{self.count} workers cannot share an axis of {size}")
        return size // self.count if self.shares is None else size // self.shares.total * self.shares.own

    def _start(self, size: int) -> jax.Array:
        """Return where this worker's shard of an axis begins."""
        if self.shares is None:
            start: jax.Array = jnp.int32(self.index) * self.shard_size(size)
        else:
            start = jnp.asarray(self.shares.starts)[self.index] * (size // self.shares.total)
        return start

    def addend(self, value: Replicated | Partial) -> jax.Array:
        """Return this worker's addend of a value; of a replicated one, only the first worker's is not 0."""
        if isinstance(value, Partial):
            return value.addend()
        return jnp.where(self.index == 0, value.array, jnp.zeros_like(value.array))

    def all_gather(self, array: jax.Array) -> jax.Array:
        """Stack the workers' arrays, of one shape, along a new first axis (an all-gather)."""
        return self._placed(array[None], jnp.int32(self.index), self.count, 0)

    def unsharded(self, value: Sharded) -> jax.Array:
        """Return the global array, by an all-gather of the shards."""
        array, axis = value.array, value.axis
        size = array.shape[axis]
        size = size * self.count if self.shares is None else size // self.shares.own * self.shares.total
        return self._placed(array, self._start(size), size, axis)

    def _placed(self, array: jax.Array, start: jax.Array, size: int, axis: int) -> jax.Array:
        """Return an array with the parts of all workers along an axis."""
        if not jnp.issubdtype(array.dtype, jnp.number):
            if array.dtype != jnp.bool_:
                raise IndivisibleError(f"values of type {array.dtype} cannot be added")
            return self._placed(array.astype(jnp.int8), start, size, axis).astype(jnp.bool_)
        places = jnp.zeros((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype)
        return self.all_reduce(lax.dynamic_update_slice_in_dim(places, array, start, axis))


@dataclass(frozen=True)
class ShardedEquation:
    """An equation of global shapes, and its operands as one worker holds them."""

    eqn: Equation
    operands: Sequence[Value]
    workers: WorkerGroup

    @property
    def has_shards(self) -> bool:
        return any(isinstance(value, Sharded) for value in self.operands)

    def param(self, name: str) -> Any:
        return self.eqn.params[name]

    def shape(self, i: int) -> tuple[int, ...]:
        """Return the global shape of an operand."""
        return tuple(type_of(self.eqn.invars[i]).shape)

    def axis(self, i: int) -> int | None:
        """Return the sharded axis of an operand; None if it is not sharded."""
        value = self.operands[i]
        return value.axis if isinstance(value, Sharded) else None

    def common_axis(self) -> int:
        """Return the axis along which all sharded operands are sharded."""
        axes = {value.axis for value in self.operands if isinstance(value, Sharded)}
        self.require(len(axes) == 1)
        return axes.pop()

    def require(self, condition: bool) -> None:
        """Raise IndivisibleError unless the condition holds."""
        if not condition:
            kinds = [
                f"{v.aval.str_short()}{'' if axis is None else f' by axis {axis}'}"
                for v, axis in ((v, self.axis(i)) for i, v in enumerate(self.eqn.invars))
            ]
            raise IndivisibleError(f"{self.eqn.primitive.name} of {', '.join(kinds)}")

    def replicated(self, i: int) -> jax.Array:
        """Return an operand that must not be sharded."""
        self.require(self.axis(i) is None)
        return self.workers.replicated(self.operands[i])

    def shard(self, i: int, axis: int) -> jax.Array:
        """Return this worker's shard of an operand along an axis."""
        value = self.operands[i]
        if isinstance(value, Sharded):
            self.require(value.axis == axis)
            return value.array
        return self.workers.shard(self.workers.replicated(value), axis)

    def shards(self, axis: int) -> list[jax.Array]:
        """Return this worker's shard of each operand along an axis."""
        return [self.shard(i, axis) for i in range(len(self.operands))]

    def shard_shape(self, shape: Sequence[int], axis: int) -> tuple[int, ...]:
        """Return the shape of a shard along an axis."""
        return (*shape[:axis], self.workers.shard_size(shape[axis]), *shape[axis + 1 :])

    def bind(self, *args: jax.Array, **changed: Any) -> list[jax.Array]:
        """Apply the operation to other arrays, with some parameters changed."""
        results = self.eqn.primitive.bind(*args, **{**self.eqn.params, **changed})
        return list(results) if self.eqn.primitive.multiple_results else [results]

    def sharded(self, axis: int, *args: jax.Array, **changed: Any) -> list[Value]:
        """Apply the operation; all results are shards along an axis."""
        return [Sharded(array, axis) for array in self.bind(*args, **changed)]

    def partial(self, *args: jax.Array, **changed: Any) -> list[Value]:
        """Apply the operation; the workers' results add up."""
        aval = type_of(self.eqn.outvars[0])
        return [Partial(aval, lambda: self.bind(*args, **changed)[0])]

    def on_replicated(self) -> list[Value]:
        """Apply the operation to replicated operands."""
        arrays = [self.workers.replicated(value) for value in self.operands]
        pairs = zip(self.eqn.invars, arrays, strict=True)
        unique = {v: array for v, array in pairs if not isinstance(v, jex.Literal)}
        return [Replicated(a) for a in function_of([self.eqn], [*unique], self.eqn.outvars)(*unique.values())]


Rule = Callable[[ShardedEquation], list[Value]]
"""Computes an equation, at least one operand of which is sharded."""


def axis_without(axis: int, removed: Sequence[int]) -> int:
    """Return the index of an axis after other axes are removed."""
    return axis - sum(int(each) < axis for each in removed)
