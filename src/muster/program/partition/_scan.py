"""Partition loops: each iteration computes with one worker's shards."""

import functools
from collections.abc import Callable, Sequence

import jax
from jax import lax
from jax.extend import core as jex

from muster.program.partition._sharding import (
    IndivisibleError,
    Partial,
    Replicated,
    Sharded,
    Value,
    WorkerGroup,
)
from muster.program.passes._jaxprs import Equation

Arrays = Sequence[jax.Array]
Run = Callable[[jex.Jaxpr, Arrays, Sequence[Value], WorkerGroup], list[Value]]
"""Computes a jaxpr from its constants and arguments."""

_Kind = int | str
"""How a loop carries a value: "replicated", "partial", or the axis along which it is sharded."""


class ShardedScan:
    """A ``scan`` equation, each iteration of which computes with this worker's shards.

    Args:
        eqn: The equation.
        operands: Its operands, as this worker holds them.
        workers: The workers.
        run: Computes the body.
    """

    def __init__(self, eqn: Equation, operands: Sequence[Value], workers: WorkerGroup, run: Run) -> None:
        self._params = eqn.params
        self._workers = workers
        self._in_loop = WorkerGroup(workers.count, workers.index, can_reduce=False)
        self._run = run
        consts, carries = self._params["num_consts"], self._params["num_carry"]
        xs = operands[consts + carries :]
        if any(isinstance(x, Sharded) and x.axis == 0 for x in xs):
            raise IndivisibleError("a loop over the batch")
        self._consts = [self._not_partial(value) for value in operands[:consts]]
        self._init = operands[consts : consts + carries]
        self._stacks = [self._not_partial(value).array for value in xs]
        self._slices = [value.axis - 1 if isinstance(value, Sharded) else "replicated" for value in xs]
        self._made: list[_Kind] = []  # the kinds of the results of an iteration

    def results(self) -> list[Value]:
        """Compute the loop; return its last carries and its stacks."""
        kinds, carries = self._first_carries()
        last, stacks = lax.scan(
            functools.partial(self._iteration, kinds), carries, self._stacks,
            length=self._params["length"], reverse=self._params["reverse"], unroll=self._params["unroll"],
        )  # fmt: skip
        of_stacks = [kind + 1 if isinstance(kind, int) else kind for kind in self._made[len(kinds) :]]
        return [_value_of(*pair) for pair in zip([*kinds, *of_stacks], [*last, *stacks], strict=True)]

    def _not_partial(self, value: Value) -> Replicated | Sharded:
        return value if isinstance(value, Sharded) else Replicated(self._workers.replicated(value))

    def _first_carries(self) -> tuple[list[_Kind], list[jax.Array]]:
        """Return kinds of the carries that fit the results of an iteration, and the first carries."""
        kinds = [_kind_of(value) for value in self._init]
        slices = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in self._stacks]

        def record(carries: Arrays, slices: Arrays) -> None:
            self._body(kinds, carries, slices)

        while True:
            carries = [_array_of(*pair, self._workers) for pair in zip(kinds, self._init, strict=True)]
            jax.eval_shape(record, carries, slices)
            joined = [_join(*pair) for pair in zip(kinds, self._made[: len(kinds)], strict=True)]
            if joined == kinds:
                return kinds, carries
            kinds = joined

    def _body(self, kinds: Sequence[_Kind], carries: Arrays, slices: Arrays) -> list[Value]:
        """Compute an iteration, and note the kinds of its results."""
        closed = self._params["jaxpr"]
        pairs = zip([*kinds, *self._slices], [*carries, *slices], strict=True)
        arguments = [*self._consts, *(_value_of(*pair) for pair in pairs)]
        results = self._run(closed.jaxpr, closed.consts, arguments, self._in_loop)
        self._made = [_kind_of(value) for value in results]
        return results

    def _iteration(
        self, kinds: Sequence[_Kind], carries: Arrays, slices: Arrays
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        results = self._body(kinds, carries, slices)
        wanted = [*kinds, *self._made[len(kinds) :]]
        arrays = [_array_of(*pair, self._in_loop) for pair in zip(wanted, results, strict=True)]
        return arrays[: len(kinds)], arrays[len(kinds) :]


def _join(before: _Kind, after: _Kind) -> _Kind:
    """Return the kind of a carry that starts as one kind and comes out of an iteration as another."""
    if before == after or after == "replicated":
        return before
    if before == "replicated":
        return after
    raise IndivisibleError("a loop changes how it carries a value")


def _kind_of(value: Value) -> _Kind:
    match value:
        case Sharded(_, axis):
            return axis
        case Partial():
            return "partial"
    return "replicated"


def _value_of(kind: _Kind, array: jax.Array) -> Value:
    """Return the value that an array of a kind stands for."""
    if isinstance(kind, int):
        return Sharded(array, kind)
    if kind == "replicated":
        return Replicated(array)
    return Partial(jax.typeof(array), lambda: array)


def _array_of(kind: _Kind, value: Value, workers: WorkerGroup) -> jax.Array:
    """Return the array that stands for a value of a kind."""
    if isinstance(value, Sharded):
        if value.axis != kind:
            raise IndivisibleError("a loop changes how it carries a value")
        return value.array
    if kind == "partial":
        return workers.addend(value)
    array = workers.replicated(value)
    return array if kind == "replicated" else workers.shard(array, int(kind))
