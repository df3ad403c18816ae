"""Compute gradients inside a trace: a marker stands for each until the program is complete.

User code asks for gradients in the middle of a step (``minimize``, ``tape.gradient``), after the forward
computation has been traced. That records a marker: "the gradient of this value with respect to those".
``resolve`` walks the finished jaxpr and differentiates, for each marker, the equations between sources and
target. So the user's Python runs once, tapes nest, and inputs have gradients as variables do.
"""

import functools
import itertools
import operator
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from muster._errors import GradientError
from muster._keras import keras
from muster.program.passes._jaxprs import (
    Atom,
    Equation,
    Values,
    body_contains,
    contains,
    needed_equations,
    outputs_of,
    type_of,
    variables_of,
    without,
)
from muster.program.variables._variable_scope import active_scope

_gradient_p = jex.Primitive("muster_gradient")
_gradient_p.multiple_results = True
_gradient_p.def_abstract_eval(lambda target, *sources, **_: list(sources))


def gradients(target: Any, sources: Sequence[Any]) -> list[jax.Array]:
    """Compute the gradients of the sum of a target's elements.

    Args:
        target: An array, a variable, or a nested structure of them.
        sources: Variables or arrays of floating-point dtypes; arrays per replica.

    Returns:
        One array per source, of its shape and dtype; zeros where the target does not depend on it.

    Raises:
        TraceError: Called outside of a step.
        GradientError: A dtype has no gradients. If the target depends on no source at all, this is raised
            when the step is compiled.
    """
    scope = active_scope("gradients")
    leaves = [scope.read(leaf) for leaf in jax.tree.leaves(target)]
    for leaf in leaves:
        _require_float(leaf, "target")
    versions = [scope.versions(source) for source in sources]
    values = [value for each in versions for value in each]
    for value in values:
        _require_float(value, "source")
    if not values or not leaves:
        return []
    total = functools.reduce(operator.add, (jnp.sum(leaf).astype(leaves[0].dtype) for leaf in leaves))
    if scope.eager_gradients is not None:
        grads = scope.eager_gradients(total, values)
    else:
        cut = any(len(each) > 1 for each in versions)
        grads = _gradient_p.bind(total, *values, cut=cut, where=_line_of_user())
    parts = iter(grads)
    return [functools.reduce(operator.add, itertools.islice(parts, len(each))) for each in versions]


def _line_of_user() -> str:
    """Return the innermost file and line outside of muster and Keras."""
    ours = (os.path.dirname(os.path.dirname(__file__)), os.path.dirname(keras.__file__))
    frames = [f for f in traceback.extract_stack() if not f.filename.startswith(ours)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown line"


def _require_float(value: jax.Array, role: str) -> None:
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        raise GradientError(
            f"A {role} of gradients has dtype {value.dtype} and shape {tuple(value.shape)}; only "
            "floating-point values have gradients. Cast it first, or leave it out."
        )


def resolve(closed: jex.ClosedJaxpr) -> Callable[..., list[jax.Array]]:
    """Make a function of flat arguments that computes a jaxpr and the gradients that its markers ask for."""
    if not contains(closed.jaxpr, _gradient_p):
        return jex.jaxpr_as_fun(closed)  # type: ignore[no-any-return]
    jaxpr = closed.jaxpr
    equations = [_with_resolved_bodies(eqn) for eqn in jaxpr.eqns]

    def compute(*args: jax.Array) -> list[jax.Array]:
        values = Values.of(closed, args)
        _evaluate(equations, values, equations)
        return values.read(jaxpr.outvars)

    return compute


def _evaluate(eqns: Sequence[Equation], values: Values, history: Sequence[Equation]) -> None:
    """Compute equations, markers included, and add their results to `values`.

    A gradient may have to go back through equations that were computed before. Those are computed again
    under differentiation; XLA merges the copies.

    Args:
        eqns: The equations to compute, in order.
        values: The value of each variable so far.
        history: Every equation of the program, in order.
    """
    for i, marker in enumerate(eqns):
        if marker.primitive is not _gradient_p:
            continue
        before = eqns[:i]
        past = history[: history.index(marker)]
        if marker.params["cut"]:
            values.compute(before)
            grads = _cut_gradients(marker, values, past)
        else:
            path = _path(marker, past)
            later = _dependents(before, marker.invars[1:])
            values.compute(without(before, later))
            grads = _gradients_along(path, marker, values, past)
            values.compute(without(later, path))
        values.update(zip(marker.outvars, grads, strict=True))
        return _evaluate(eqns[i + 1 :], values, history)
    return values.compute(eqns)


def _gradients_along(
    path: Sequence[Equation], marker: Equation, values: Values, history: Sequence[Equation]
) -> list[jax.Array]:
    """Differentiate along a path, and add to `values` what its equations compute on the way.

    A source that is computed from another one is shifted by zero: the gradient with respect to the shift
    is its own, and the gradient with respect to the other one goes through it.
    """
    target, *sources = marker.invars
    made = outputs_of(path)
    inner_sources = set(variables_of(sources)).intersection(made)

    def forward(arrays: list[jax.Array]) -> tuple[jax.Array, list[jax.Array]]:
        start = dict(zip(sources, arrays, strict=True))
        inner = Values(values | {s: value for s, value in start.items() if s not in inner_sources})
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
    values.update(zip(made, results, strict=True))
    return list(grads)


def _cut_gradients(marker: Equation, values: Values, history: Sequence[Equation]) -> list[jax.Array]:
    """Differentiate with respect to several versions of a variable, taking none as computed from another.

    Everything before the marker has been computed; the path is computed again, and XLA merges the copies.
    """
    target, *sources = marker.invars
    path = _path(marker, history)

    def forward(arrays: list[jax.Array]) -> jax.Array:
        inner = Values(values | dict(zip(sources, arrays, strict=True)))
        _evaluate(path, inner, history)
        return inner[target]

    return list(jax.grad(forward)(values.read(sources)))


def _path(marker: Equation, history: Sequence[Equation]) -> list[Equation]:
    """Return the equations through which a marker's target depends on any of its sources, in order."""
    target, *sources = marker.invars
    needed, _ = needed_equations(history, [target], sources if marker.params["cut"] else ())
    path = _dependents(needed, sources)
    if not path and target not in sources:
        aval = type_of(target)
        raise GradientError(
            f"The value to differentiate ({aval.dtype}{list(aval.shape)}) does not "
            "depend on any of the variables asked for. Was it computed from them, inside of this step? "
            f"The gradient is asked for in {marker.params['where']}."
        )
    return path


def _dependents(eqns: Iterable[Equation], sources: Iterable[Atom]) -> list[Equation]:
    """Return the equations that depend on any source, in order."""
    reached = set(variables_of(sources))
    kept = []
    for eqn in eqns:
        if reached.intersection(variables_of(eqn.invars)):
            kept.append(eqn)
            reached.update(eqn.outvars)
    return kept


def _with_resolved_bodies(eqn: Equation) -> Equation:
    """Resolve the markers inside of an equation's bodies (of a loop, a branch, a jit)."""
    if not body_contains(eqn, _gradient_p):
        return eqn

    def resolved(value: Any) -> Any:
        if isinstance(value, jex.ClosedJaxpr):
            return (
                jax.make_jaxpr(resolve(value))(*value.in_avals)
                if contains(value.jaxpr, _gradient_p)
                else value
            )
        if isinstance(value, tuple | list):
            return type(value)(map(resolved, value))
        if isinstance(value, jex.Jaxpr) and contains(value, _gradient_p):
            raise GradientError(
                f"A gradient was asked for inside of {eqn.primitive.name}, which is itself about gradients. "
                "Ask for it outside."
            )
        return value

    params = {name: resolved(value) for name, value in eqn.params.items()}
    return eqn.replace(params=params)  # type: ignore[no-any-return]
