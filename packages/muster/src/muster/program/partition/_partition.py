"""Partition a step over the global batch: each worker computes for its rows, and sums are all-reduced.

The step is traced on the global batch. For each equation, a worker computes what it holds of the results:
replicated values, shards along one axis, or addends that are all-reduced where their sum is first needed.
So the step computes the same as on one device, up to the order of additions.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster import cpu
from muster.program._replicas import Replicas
from muster.program.partition._rules import apply_rule
from muster.program.partition._sharding import (
    IndivisibleError,
    Partial,
    Replicated,
    Sharded,
    ShardedEquation,
    Value,
    WorkerGroup,
    all_reduce_p,
)
from muster.program.passes._jaxprs import (
    Atom,
    AtomValues,
    Equation,
    levels_of,
    needed_equations,
    scan_counts,
    type_of,
)
from muster.program.passes._loops import with_wide_products
from muster.program.passes._rows import exchanged_by_marker, exchanging_rows
from muster.program.passes._sparse_gradients import by_masks

# Primitives that call a function, whose equations can be computed in place.
_BODIES: Mapping[jex.Primitive, str] = {
    primitives.jit_p: "jaxpr",
    primitives.closed_call_p: "call_jaxpr",
    primitives.remat_p: "jaxpr",
    primitives.custom_jvp_call_p: "call_jaxpr",
    primitives.custom_vjp_call_p: "call_jaxpr",
}

Arrays = Sequence[jax.Array]


def partitioned(function: Callable[[Any, Any], Any], state: Any, batch: Any, replicas: Replicas) -> Any:
    """Compute a function of the global batch on several workers, each of which has some rows.

    Args:
        function: ``(state, batch) -> results``, pure; its batch has the rows of all workers.
        state: A nested structure of arrays, the same on all workers.
        batch: A nested structure of arrays with this worker's rows; scalars are the same on all workers.
        replicas: The workers; values are reduced over them in as few collectives as the step allows.

    Returns:
        The results, the same on all workers.

    Raises:
        IndivisibleError: The step does something with the batch for which there is no rule.
    """
    workers = WorkerGroup(replicas.count, replicas.index, replicas.shares)
    leaves = jax.tree.leaves((state, batch))
    of_state = len(jax.tree.leaves(state))
    global_batch = jax.tree.map(lambda leaf: _global_shape(leaf, replicas), batch)
    # Rows that are gathered and sorted cannot be divided, but for those that all workers have.
    with by_masks(), exchanging_rows(exchanged_by_marker):
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(state, global_batch)
    if closed.effects:
        raise IndivisibleError(f"it has effects, {sorted(map(str, closed.effects))}")

    def on_rows_of_worker(*leaves: jax.Array) -> list[jax.Array]:
        values: list[Value] = [
            Sharded(leaf, 0) if place >= of_state and leaf.ndim else Replicated(leaf)
            for place, leaf in enumerate(leaves)
        ]
        results = _run(closed.jaxpr, closed.consts, values, workers)
        return [workers.unsharded(r) if isinstance(r, Sharded) else workers.replicated(r) for r in results]

    marked = jax.make_jaxpr(on_rows_of_worker)(*leaves)
    marked = jax.make_jaxpr(with_wide_products(marked))(*leaves)
    return jax.tree.unflatten(jax.tree.structure(shapes), _with_all_reduces(marked, leaves, replicas))


def _global_shape(leaf: jax.Array, replicas: Replicas) -> jax.ShapeDtypeStruct:
    """Return the shape of an array with the rows of all workers."""
    if not leaf.ndim:
        return jax.ShapeDtypeStruct((), leaf.dtype)
    rows = leaf.shape[0] * replicas.count if replicas.shares is None else replicas.shares.total
    return jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), leaf.dtype)


def _with_all_reduces(marked: jex.ClosedJaxpr, leaves: Arrays, replicas: Replicas) -> list[jax.Array]:
    """Compute a jaxpr; values that can be reduced at the same time are reduced together."""
    jaxpr = marked.jaxpr
    values = AtomValues.of(marked, leaves)
    needed, _ = needed_equations(jaxpr.eqns, jaxpr.outvars)
    for computed, markers in zip(*levels_of(needed, all_reduce_p), strict=True):
        values.compute(computed)
        sums = replicas.sum(values.read(marker.invars[0] for marker in markers))
        values.update(zip((marker.outvars[0] for marker in markers), sums, strict=True))
    return values.read(jaxpr.outvars)


def _run(jaxpr: jex.Jaxpr, consts: Arrays, args: Sequence[Value], workers: WorkerGroup) -> list[Value]:
    """Compute the results of a jaxpr as this worker holds them."""
    env: dict[Atom, Value] = dict(zip(jaxpr.constvars, map(Replicated, consts), strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def value_of(v: Atom) -> Value:
        return Replicated(v.val) if isinstance(v, jex.Literal) else env[v]

    needed, _ = needed_equations(jaxpr.eqns, jaxpr.outvars)
    for eqn in needed:
        results = _equation(eqn, [value_of(v) for v in eqn.invars], workers)
        for v, value in zip(eqn.outvars, results, strict=True):
            _check(eqn, type_of(v), value, workers)
            env[v] = value
    return [value_of(v) for v in jaxpr.outvars]


def _equation(eqn: Equation, operands: list[Value], workers: WorkerGroup) -> list[Value]:
    equation = ShardedEquation(eqn, operands, workers)
    if all(isinstance(value, Replicated) for value in operands):
        return equation.on_replicated()
    if eqn.primitive in _BODIES:
        body = eqn.params[_BODIES[eqn.primitive]]
        closed = body if isinstance(body, jex.ClosedJaxpr) else jex.ClosedJaxpr(body, ())
        return _run(closed.jaxpr, closed.consts, operands, workers)
    if eqn.primitive is cpu.kernel_p and eqn.params["batch_axes"] is None:
        plain = jax.make_jaxpr(eqn.params["plain"])(*map(type_of, eqn.invars))
        return _run(plain.jaxpr, plain.consts, operands, workers)
    if eqn.primitive is lax.scan_p and equation.has_shards:
        return _Scan(equation).results()
    return apply_rule(equation)


def _check(eqn: Equation, aval: jax.core.ShapedArray, value: Value, workers: WorkerGroup) -> None:
    """Raise IndivisibleError unless a result of a rule has the expected shape and dtype."""
    array = value.aval if isinstance(value, Partial) else value.array
    shape = list(aval.shape)
    if isinstance(value, Sharded):
        shape[value.axis] = workers.shard_size(shape[value.axis])
    if tuple(shape) != jax.numpy.shape(array) or aval.dtype != jax.numpy.result_type(array):
        raise IndivisibleError(f"{eqn.primitive.name} of {[v.aval for v in eqn.invars]}")


_Kind = int | str
"""The layout of a value carried by a loop: "replicated", "partial", or its sharded axis."""


class _Scan:
    """A ``scan`` equation, each iteration of which computes with this worker's shards.

    Args:
        equation: The equation; some of its operands are sharded.
    """

    def __init__(self, equation: ShardedEquation) -> None:
        self._params = equation.eqn.params
        self._workers = workers = equation.workers
        self._in_loop = dataclasses.replace(workers, can_reduce=False)
        consts, carries = scan_counts(equation.eqn.params)
        operands, xs = equation.operands, equation.operands[consts + carries :]
        if any(isinstance(x, Sharded) and x.axis == 0 for x in xs):
            raise IndivisibleError("a loop over the batch")
        self._consts = [workers.reduced(value) for value in operands[:consts]]
        self._init = operands[consts : consts + carries]
        self._stacks = [workers.reduced(value).array for value in xs]
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
        results = _run(closed.jaxpr, closed.consts, arguments, self._in_loop)
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
