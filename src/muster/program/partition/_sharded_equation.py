"""Describe an equation of a step over the global batch, and how one worker computes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core as jex

from muster.program.partition._sharding import (
    IndivisibleError,
    Partial,
    Replicated,
    Sharded,
    Value,
    WorkerGroup,
)
from muster.program.passes._jaxprs import Equation, function_of, type_of


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
