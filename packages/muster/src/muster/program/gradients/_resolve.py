"""Differentiate a complete program: the equations between the sources and the target of each marker."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex
from jax.interpreters import batching

from muster._errors import GradientError
from muster.program.passes._jaxprs import (
    AtomValues,
    Equation,
    body_contains,
    contains,
    dependents,
    inputs_of,
    needed_equations,
    outputs_of,
    type_of,
    variables_of,
    without,
)
from muster.program.variables._variable_scope import current_scope

gradient_p = jex.Primitive("muster_gradient")
gradient_p.multiple_results = True
gradient_p.def_abstract_eval(
    lambda target, *rest, opened, stopped, **_: list(rest[: len(rest) - opened - stopped])
)


class BatchedGradientError(GradientError):
    """A gradient was asked for inside of `jax.vmap`."""


def _refuse(*_: Any, where: str, **__: Any) -> Any:
    raise BatchedGradientError(
        "A gradient was asked for inside of jax.vmap. Use tf.vectorized_map, or jax.grad inside of it. It is "
        f"asked for in {where}."
    )


batching.primitive_batchers[gradient_p] = _refuse


def resolve(closed: jex.ClosedJaxpr) -> Callable[..., list[jax.Array]]:
    """Make a function of flat arguments that computes a jaxpr and the gradients that its markers ask for."""
    if not contains(closed, gradient_p):
        return jex.jaxpr_as_fun(closed)  # type: ignore[no-any-return]
    jaxpr = closed.jaxpr
    equations = [_with_resolved_bodies(eqn) for eqn in jaxpr.eqns]

    def compute(*args: jax.Array) -> list[jax.Array]:
        values = AtomValues.of(closed, args)
        _evaluate(equations, values, equations)
        return values.read(jaxpr.outvars)

    return compute


def with_gradients(function: Callable[[Any], Any], example: Any) -> Callable[[Any], Any]:
    """Make a function that computes the gradients which another one asks for, as `jax.vmap` needs it.

    Args:
        function: Takes a structure of arrays, and may read values of the trace around.
        example: An argument of it.
    """
    closed, shape = jax.make_jaxpr(function, return_shape=True)(example)
    scope = current_scope()
    if scope is not None and scope.mode.records:
        scope.mode.has_stand_ins = True
        compute = _of_shapes(closed)
    else:
        compute = resolve(closed)

    def call(value: Any) -> Any:
        return jax.tree.unflatten(jax.tree.structure(shape), compute(*jax.tree.leaves(value)))

    return call


def _of_shapes(closed: jex.ClosedJaxpr) -> Callable[..., list[jax.Array]]:
    """Do as `resolve` for a run that needs the shapes of gradients alone: they are zeros."""

    def compute(*args: jax.Array) -> list[jax.Array]:
        values = AtomValues.of(closed, args)
        for eqn in closed.jaxpr.eqns:
            if eqn.primitive is gradient_p:
                values.update({made: jnp.zeros_like(type_of(made)) for made in eqn.outvars})
            else:
                values.compute([eqn])
        return values.read(closed.jaxpr.outvars)

    return compute


def _evaluate(eqns: Sequence[Equation], values: AtomValues, history: Sequence[Equation]) -> None:
    """Compute equations, markers included, and add their results to `values`.

    A gradient may have to go back through equations that were computed before. Those are computed again
    under differentiation; XLA merges the copies.

    Args:
        eqns: The equations to compute, in order.
        values: The value of each variable so far.
        history: Every equation of the program, in order.
    """
    for i, marker in enumerate(eqns):
        if marker.primitive is not gradient_p:
            continue
        before = eqns[:i]
        past = history[: history.index(marker)]
        stopped = _stopped(marker, past)
        recorded = past
        if opening := _opening(marker, past):  # what is computed before is constant
            known = {id(eqn) for eqn in past[:opening]}
            values.compute([eqn for eqn in before if id(eqn) in known])
            before, recorded = [eqn for eqn in before if id(eqn) not in known], past[opening:]
        path = _path(marker, without(recorded, stopped))
        if marker.params["cut"]:
            values.compute(before)
            grads = _gradients_along(path, marker, values, past)
        else:
            later = dependents(before, _ends(marker)[1])[0]
            values.compute(without(before, later))
            # Constants of the path: computed here, they have derivatives for a tape around.
            made = set(outputs_of(stopped)).intersection(inputs_of(path))
            constants = needed_equations(later, made)[0]
            values.compute(constants)
            grads = _gradients_along(path, marker, values, past)
            values.compute(without(later, [*path, *constants]))
        values.update(zip(marker.outvars, grads, strict=True))
        return _evaluate(eqns[i + 1 :], values, history)
    return values.compute(eqns)


def _gradients_along(
    path: Sequence[Equation], marker: Equation, values: AtomValues, history: Sequence[Equation]
) -> list[jax.Array]:
    """Differentiate along a path, and add to `values` what its equations compute on the way.

    A source that is computed from another one is shifted by zero: the gradient with respect to the shift
    is its own, and the gradient with respect to the other one goes through it.
    """
    target, sources = _ends(marker)
    made = outputs_of(path)
    inner_sources = set(variables_of(sources)).intersection(made)

    def forward(arrays: list[jax.Array]) -> tuple[jax.Array, list[jax.Array]]:
        start = dict(zip(sources, arrays, strict=True))
        given = {s: value for s, value in start.items() if s not in inner_sources}
        inner = _values_around(path, values, given)
        begun = 0
        for end, eqn in enumerate(path, 1):
            shifted = inner_sources.intersection(eqn.outvars)
            if shifted or end == len(path):
                _evaluate(path[begun:end], inner, history)
                inner.update({s: inner[s] + start[s] for s in shifted})
                begun = end
        return inner[target], [inner[v] for v in made]

    arrays = [jnp.zeros_like(type_of(s)) if s in inner_sources else values.read([s])[0] for s in sources]
    (_, results), grads = jax.value_and_grad(forward, has_aux=True)(arrays)
    # What is there stays: it may be constant for a tape around, or shifted.
    values.update({v: result for v, result in zip(made, results, strict=True) if v not in values})
    return list(grads)


def _values_around(path: Sequence[Equation], values: AtomValues, given: dict[Any, jax.Array]) -> AtomValues:
    """Return values without what the equations of a path are about to compute, and with others."""
    made = set(outputs_of(path))
    return AtomValues({v: value for v, value in values.items() if v not in made} | given)


def _path(marker: Equation, recorded: Sequence[Equation]) -> list[Equation]:
    """Return the recorded equations, in order, through which a marker's target depends on its sources.

    Of several versions of a variable none is taken as computed from another.
    """
    target, sources = _ends(marker)
    versions = [sources[place] for place in marker.params["cut"]]
    needed, _ = needed_equations(recorded, [target], versions)
    path = dependents(needed, sources)[0]
    if not path and target not in sources:
        aval = type_of(target)
        raise GradientError(
            f"The value to differentiate ({aval.dtype}{list(aval.shape)}) does not "
            "depend on any of the variables asked for. Was it computed from them, inside of this step, and "
            f"while the tape was open? The gradient is asked for in {marker.params['where']}."
        )
    return path


def _ends(marker: Equation) -> tuple[Any, list[Any]]:
    """Return a marker's target and sources."""
    target, *rest = marker.invars
    return target, rest[: len(rest) - marker.params["opened"] - marker.params["stopped"]]


def _opening(marker: Equation, past: Sequence[Equation]) -> int:
    """Return where among the equations before a marker its tape was opened; 0 for a place outside of them."""
    if not marker.params["opened"]:
        return 0
    mark = marker.invars[-1 - marker.params["stopped"]]
    return next((i for i, eqn in enumerate(past) if mark in eqn.outvars), 0)


def _stopped(marker: Equation, past: Sequence[Equation]) -> list[Equation]:
    """Return the equations before a marker that its tape did not record, as it was stopped."""
    if not marker.params["stopped"]:
        return []
    places: dict[Any, int] = {v: i for i, eqn in enumerate(past) for v in eqn.outvars}
    marks = marker.invars[len(marker.invars) - marker.params["stopped"] :]
    parts = zip(marks[::2], marks[1::2], strict=True)
    # In the body of a loop, those outside of it are not found.
    found = [eqn for start, end in parts if start in places for eqn in past[places[start] : places[end]]]
    asked = [eqn for eqn in past if eqn.primitive is gradient_p and eqn.params["inside"]]
    return found + [eqn for eqn in asked if eqn.invars[-1] in marks]


def _with_resolved_bodies(eqn: Equation) -> Equation:
    """Resolve the markers inside of an equation's bodies (of a loop, a branch, a jit)."""
    if not body_contains(eqn, gradient_p):
        return eqn

    def resolved(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(map(resolved, value))
        if not isinstance(value, jex.Jaxpr | jex.ClosedJaxpr) or not contains(value, gradient_p):
            return value
        if isinstance(value, jex.ClosedJaxpr):
            return jax.make_jaxpr(resolve(value))(*value.in_avals)
        raise GradientError(
            f"A gradient was asked for inside of {eqn.primitive.name}, which is itself about gradients. "
            "Ask for it outside."
        )

    params = {name: resolved(value) for name, value in eqn.params.items()}
    return eqn.replace(params=params)  # type: ignore[no-any-return]
