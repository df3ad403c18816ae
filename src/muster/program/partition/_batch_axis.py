"""A step on a batch that workers divide: each computes for its own rows, and sums of theirs meet.

The step is traced on the whole batch. Equation by equation, a worker computes what it has of each value: all
of it, its rows of one axis, or a number to which those of the others are added where the sum is first needed.
So the step does what it does on one device, up to the order of additions.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster.program.partition._batch_axis_rules import Equation, derived
from muster.program.partition._batch_axis_values import (
    Full,
    IndivisibleError,
    Partial,
    Rows,
    Value,
    Workers,
    total_p,
)
from muster.program.passes._jaxprs import levels_of, needed_equations, run_equations
from muster.program.passes._loops import with_wide_products
from muster.program.variables._replicas import Replicas

Array = Any

# Calls of a function, which may as well stand where they are called.
_BODIES: Mapping[jex.Primitive, str] = {
    primitives.jit_p: "jaxpr",
    primitives.closed_call_p: "call_jaxpr",
    primitives.remat_p: "jaxpr",
    primitives.custom_jvp_call_p: "call_jaxpr",
    primitives.custom_vjp_call_p: "call_jaxpr",
}


def divided(function: Callable[[Any, Any], Any], state: Any, batch: Any, replicas: Replicas) -> Any:
    """Compute a function of the whole batch on several workers, from the rows of each.

    Args:
        function: ``(state, batch) -> results``, pure; its batch has the rows of all workers.
        state: a nested structure of arrays, the same on all workers.
        batch: a nested structure of arrays, whose rows are this worker's; scalars are the same everywhere.
        replicas: the workers; what meets there does so in as few exchanges as the step allows.

    Returns:
        The results, the same on all workers.

    Raises:
        IndivisibleError: The step does something with the batch for which there is no rule.
    """
    workers = Workers(replicas.count, replicas.index)
    leaves = jax.tree.leaves((state, batch))
    of_state = len(jax.tree.leaves(state))
    whole = jax.tree.map(lambda leaf: _shape_for(leaf, replicas.count), batch)
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(state, whole)
    if closed.effects:
        raise IndivisibleError(f"it has effects, {sorted(map(str, closed.effects))}")

    def on_own_rows(*leaves: Array) -> list[Array]:
        values: list[Value] = [
            Rows(leaf, 0) if place >= of_state and leaf.ndim else Full(leaf)
            for place, leaf in enumerate(leaves)
        ]
        results = _run(closed.jaxpr, closed.consts, values, workers)
        return [workers.gather(r) if isinstance(r, Rows) else workers.full(r) for r in results]

    marked = jax.make_jaxpr(on_own_rows)(*leaves)
    marked = jax.make_jaxpr(with_wide_products(marked))(*leaves)
    return jax.tree.unflatten(jax.tree.structure(shapes), _with_sums(marked, leaves, replicas))


def _shape_for(leaf: Array, count: int) -> jax.ShapeDtypeStruct:
    """That of all workers' rows together."""
    shape = (leaf.shape[0] * count, *leaf.shape[1:]) if leaf.ndim else ()
    return jax.ShapeDtypeStruct(shape, leaf.dtype)


def _with_sums(marked: jex.ClosedJaxpr, leaves: Sequence[Array], replicas: Replicas) -> list[Array]:
    """Compute a jaxpr; what can meet at the same time does so together."""
    jaxpr = marked.jaxpr
    env = dict(zip(jaxpr.constvars, marked.consts, strict=True))
    env.update(zip(jaxpr.invars, leaves, strict=True))
    needed, _ = needed_equations(jaxpr.eqns, jaxpr.outvars)
    for computed, markers in zip(*levels_of(needed, total_p), strict=True):
        run_equations(computed, env)
        sums = replicas.sum([env[marker.invars[0]] for marker in markers])
        env.update(zip((marker.outvars[0] for marker in markers), sums, strict=True))
    return [v.val if isinstance(v, jex.Literal) else env[v] for v in jaxpr.outvars]


def _run(jaxpr: jex.Jaxpr, consts: Sequence[Array], args: Sequence[Value], workers: Workers) -> list[Value]:
    """Compute what this worker has of the results of a jaxpr."""
    env: dict[Any, Value] = dict(zip(jaxpr.constvars, map(Full, consts), strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(v: Any) -> Value:
        return Full(v.val) if isinstance(v, jex.Literal) else env[v]

    needed, _ = needed_equations(jaxpr.eqns, jaxpr.outvars)
    for eqn in needed:
        results = _equation(eqn, [read(v) for v in eqn.invars], workers)
        for v, value in zip(eqn.outvars, results, strict=True):
            _check(eqn, v.aval, value, workers)
            env[v] = value
    return [read(v) for v in jaxpr.outvars]


def _equation(eqn: Any, operands: list[Value], workers: Workers) -> list[Value]:
    equation = Equation(eqn, operands, workers)
    if all(isinstance(value, Full) for value in operands):
        return equation.on_full()
    if eqn.primitive in _BODIES:
        body = eqn.params[_BODIES[eqn.primitive]]
        closed = body if isinstance(body, jex.ClosedJaxpr) else jex.ClosedJaxpr(body, ())
        return _run(closed.jaxpr, closed.consts, operands, workers)
    if eqn.primitive is lax.scan_p and equation.has_rows:
        return _scan(eqn, operands, workers)
    return derived(equation)


def _check(eqn: Any, aval: Any, value: Value, workers: Workers) -> None:
    """Refuse what a rule has made if it is not of the shape and dtype that it says."""
    array = value.aval if isinstance(value, Partial) else value.array
    shape = list(aval.shape)
    if isinstance(value, Rows):
        shape[value.axis] = workers.part(shape[value.axis])
    if tuple(shape) != jax.numpy.shape(array) or aval.dtype != jax.numpy.result_type(array):
        raise IndivisibleError(f"{eqn.primitive.name} of {[v.aval for v in eqn.invars]}")


_Kind = int | str
"""What a loop keeps of a value between rounds: "full", "partial", or the axis of its rows."""


def _scan(eqn: Any, operands: Sequence[Value], workers: Workers) -> list[Value]:
    """A loop, each round of which does what it does with this worker's rows."""
    params = eqn.params
    consts, start = operands[: params["num_consts"]], params["num_consts"]
    init, xs = operands[start : start + params["num_carry"]], operands[start + params["num_carry"] :]
    if any(isinstance(x, Rows) and x.axis == 0 for x in xs):
        raise IndivisibleError("a loop over the batch")
    closed = params["jaxpr"]
    fixed = [value if isinstance(value, Rows) else Full(workers.full(value)) for value in consts]
    stacked = [value.array if isinstance(value, Rows) else workers.full(value) for value in xs]
    of_rounds = [value.axis - 1 if isinstance(value, Rows) else "full" for value in xs]
    kinds = [_kind_of(value) for value in init]
    inside = Workers(workers.count, workers.index, meet=False)

    def in_round(kinds: Sequence[_Kind], carried: Sequence[Array], x: Sequence[Array]) -> list[Value]:
        arrays = zip([*kinds, *of_rounds], [*carried, *x], strict=True)
        return _run(closed.jaxpr, closed.consts, [*fixed, *(_as(*pair) for pair in arrays)], inside)

    def one_round(
        kinds: Sequence[_Kind], carried: Sequence[Array], x: Sequence[Array]
    ) -> tuple[list[Array], list[Array]]:
        results = in_round(kinds, carried, x)
        made[:] = [_kind_of(value) for value in results]
        kept = [_held(*pair, inside) for pair in zip(kinds, results[: len(kinds)], strict=True)]
        return kept, [_held(_kind_of(value), value, inside) for value in results[len(kinds) :]]

    made: list[_Kind] = []
    while True:
        carried = [_held(*pair, workers) for pair in zip(kinds, init, strict=True)]
        wider = _kinds_after(in_round, kinds, carried, stacked)
        if wider == kinds:
            break
        kinds = wider
    last, each = lax.scan(
        functools.partial(one_round, kinds), carried, stacked,
        length=params["length"], reverse=params["reverse"], unroll=params["unroll"],
    )  # fmt: skip
    moved = [kind + 1 if isinstance(kind, int) else kind for kind in made[len(kinds) :]]
    return [_as(*pair) for pair in zip([*kinds, *moved], [*last, *each], strict=True)]


def _kinds_after(
    in_round: Callable[..., list[Value]], kinds: Sequence[_Kind], carried: Any, stacked: Any
) -> list[_Kind]:
    """What has to be kept of the carries, by what a round makes of them."""
    found: list[_Kind] = []

    def record(carried: Sequence[Array], x: Sequence[Array]) -> None:
        found[:] = map(_kind_of, in_round(kinds, carried, x)[: len(kinds)])

    first = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in stacked]
    jax.eval_shape(record, carried, first)
    return [_join(*pair) for pair in zip(kinds, found, strict=True)]


def _join(before: _Kind, after: _Kind) -> _Kind:
    if before == after or after == "full":
        return before
    if before == "full":
        return after
    raise IndivisibleError("a loop changes what it keeps of the batch")


def _kind_of(value: Value) -> _Kind:
    match value:
        case Rows(_, axis):
            return axis
        case Partial():
            return "partial"
    return "full"


def _as(kind: _Kind, array: Array) -> Value:
    """An array that is held as a kind."""
    if isinstance(kind, int):
        return Rows(array, kind)
    if kind == "full":
        return Full(array)
    return Partial(jax.typeof(array), lambda: array)


def _held(kind: _Kind, value: Value, workers: Workers) -> Array:
    """A value as an array of a kind."""
    if isinstance(value, Rows):
        if value.axis != kind:
            raise IndivisibleError("a loop changes what it keeps of the batch")
        return value.array
    if kind == "partial":
        return workers.share(value)
    full = workers.full(value)
    return full if kind == "full" else workers.own(full, int(kind))
