"""Gradients inside one trace: a marker in the program, resolved before it is compiled.

User code asks for gradients in the middle of a step (``minimize``, ``tape.gradient``), after the forward
computation has been traced. At that point a primitive is recorded that only says "the gradient of this
value with respect to those". ``resolve`` then walks the finished jaxpr and differentiates, for each
marker, the equations between sources and target. So the user's Python runs once, tapes nest, and
gradients of inputs work as those of variables do.
"""

import functools
import itertools
import operator
import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from muster._errors import GradientError
from muster._keras import keras
from muster.program.passes._jaxprs import body_contains, contains, function_of, inputs_of, variables_of
from muster.program.variables._variables import active_scope

Array = Any

_gradient_p = jex.Primitive("muster_gradient")
_gradient_p.multiple_results = True
_gradient_p.def_abstract_eval(lambda target, *sources, **_: list(sources))


def gradients(target: Any, sources: Sequence[Any]) -> list[Array]:
    """The gradients of a sum of values with respect to variables or arrays.

    Args:
        target: an array, a variable, or a nested structure of them; sums over all elements.
        sources: variables or arrays, each of a floating dtype; arrays per replica.

    Returns:
        An array for each source, of its shape and dtype; zeros where the target does not depend on it.

    Raises:
        TraceError: outside of a step.
        GradientError: if a dtype has no gradients. If the target depends on no source at all, the error
            comes when the step is compiled.
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
    total = sum(jnp.sum(leaf).astype(leaves[0].dtype) for leaf in leaves)
    if scope.eager_gradients is not None:
        grads = scope.eager_gradients(total, values)
    else:
        cut = any(len(each) > 1 for each in versions)
        grads = _gradient_p.bind(total, *values, cut=cut, where=_line_of_user())
    parts = iter(grads)
    return [functools.reduce(operator.add, itertools.islice(parts, len(each))) for each in versions]


def _line_of_user() -> str:
    """The file and line that asked, outside of muster and of Keras."""
    ours = (os.path.dirname(os.path.dirname(__file__)), os.path.dirname(keras.__file__))
    frames = [f for f in traceback.extract_stack() if not f.filename.startswith(ours)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown line"


def _require_float(value: Array, role: str) -> None:
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        raise GradientError(
            f"A {role} of gradients has dtype {value.dtype} and shape {tuple(value.shape)}; only "
            "floating-point values have gradients. Cast it first, or leave it out."
        )


def resolve(closed: jex.ClosedJaxpr) -> Callable[..., list[Array]]:
    """A function of flat arguments that computes a jaxpr, gradient markers included."""
    if not contains(closed.jaxpr, _gradient_p):
        return jex.jaxpr_as_fun(closed)  # type: ignore[no-any-return]
    jaxpr = closed.jaxpr
    equations = [_with_resolved_bodies(eqn) for eqn in jaxpr.eqns]

    def compute(*args: Array) -> list[Array]:
        env = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))
        _evaluate(equations, env, equations)
        return [_read(env, v) for v in jaxpr.outvars]

    return compute


def needed_equations(
    eqns: Sequence[Any], targets: Sequence[Any], given: Sequence[Any] = ()
) -> tuple[list[Any], set[Any]]:
    """The equations that compute the targets, in order, and the variables that come from elsewhere.

    How the variables in ``given`` are computed is left out.
    """
    wanted = set(variables_of(targets))
    known = set(variables_of(given))
    kept = []
    for eqn in reversed(eqns):
        if (wanted - known).intersection(eqn.outvars):
            kept.append(eqn)
            wanted.difference_update(eqn.outvars)
            wanted.update(variables_of(eqn.invars))
    return kept[::-1], wanted


def run_equations(eqns: Sequence[Any], env: dict[Any, Array]) -> None:
    """Compute equations without markers: reads and extends ``env``, which maps variables to values."""
    if not eqns:
        return
    made = dict.fromkeys(v for eqn in eqns for v in eqn.outvars)
    used = [v for v in inputs_of(eqns) if v not in made]
    values = function_of(eqns, used, [*made])(*[env[v] for v in used])
    env.update(zip(made, values, strict=True))


def _evaluate(eqns: Sequence[Any], env: dict[Any, Array], history: Sequence[Any]) -> None:
    """Compute equations, markers included, in ``env``.

    ``history`` has every equation of the program in order: a gradient may have to go back through some
    that were computed before. Those are computed again under differentiation; XLA merges the copies.
    """
    for i, marker in enumerate(eqns):
        if marker.primitive is not _gradient_p:
            continue
        before, sources = eqns[:i], marker.invars[1:]
        past = history[: history.index(marker)]
        if marker.params["cut"]:
            run_equations(before, env)
            grads = _cut_gradients(marker, env, past)
        else:
            path = _path(marker, past)
            later = _dependents(before, sources)
            run_equations(_without(before, later), env)
            grads = _gradients_along(path, marker, env, past)
            run_equations(_without(later, path), env)
        env.update(zip(marker.outvars, grads, strict=True))
        return _evaluate(eqns[i + 1 :], env, history)
    return run_equations(eqns, env)


def _gradients_along(
    path: Sequence[Any], marker: Any, env: dict[Any, Array], history: Sequence[Any]
) -> list[Array]:
    """Differentiate, and leave in ``env`` what the equations of the path compute on the way.

    A source that is computed from another one is shifted by zero: the gradient with respect to the shift
    is its own, and the gradient with respect to the other one goes through it.
    """
    target, *sources = marker.invars
    made = [v for eqn in path for v in eqn.outvars]
    inner_sources = set(variables_of(sources)).intersection(made)

    def forward(given: list[Array]) -> tuple[Array, list[Array]]:
        values = dict(zip(sources, given, strict=True))
        inner = env | {s: value for s, value in values.items() if s not in inner_sources}
        begun = 0
        for end, eqn in enumerate(path, 1):
            shifted = inner_sources.intersection(eqn.outvars)
            if shifted or end == len(path):
                _evaluate(path[begun:end], inner, history)
                inner.update({s: inner[s] + values[s] for s in shifted})
                begun = end
        return inner[target], [inner[v] for v in made]

    start = [jnp.zeros_like(s.aval) if s in inner_sources else _read(env, s) for s in sources]
    (_, values), grads = jax.value_and_grad(forward, has_aux=True)(start)
    env.update(zip(made, values, strict=True))
    return list(grads)


def _cut_gradients(marker: Any, env: dict[Any, Array], history: Sequence[Any]) -> list[Array]:
    """Differentiate with respect to several versions of a variable, none of which counts as made of another.

    Everything before the marker has been computed; the path is computed again, and XLA merges the copies.
    """
    target, *sources = marker.invars
    path = _path(marker, history)

    def forward(values: list[Array]) -> Array:
        inner = env | dict(zip(sources, values, strict=True))
        _evaluate(path, inner, history)
        return inner[target]

    return list(jax.grad(forward)([_read(env, s) for s in sources]))


def _path(marker: Any, history: Sequence[Any]) -> list[Any]:
    """The equations through which a marker's target depends on any of its sources, in order."""
    target, *sources = marker.invars
    needed, _ = needed_equations(history, [target], sources if marker.params["cut"] else ())
    path = _dependents(needed, sources)
    if not path and target not in sources:
        raise GradientError(
            f"The value to differentiate ({target.aval.dtype}{list(target.aval.shape)}) does not "
            "depend on any of the variables asked for. Was it computed from them, inside of this step? "
            f"The gradient is asked for in {marker.params['where']}."
        )
    return path


def _dependents(eqns: Sequence[Any], sources: Sequence[Any]) -> list[Any]:
    """The equations that depend on any source, in order."""
    reached = set(variables_of(sources))
    kept = []
    for eqn in eqns:
        if reached.intersection(variables_of(eqn.invars)):
            kept.append(eqn)
            reached.update(eqn.outvars)
    return kept


def _without(eqns: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    excluded = set(map(id, others))
    return [eqn for eqn in eqns if id(eqn) not in excluded]


def _read(env: dict[Any, Array], atom: Any) -> Array:
    return atom.val if isinstance(atom, jex.Literal) else env[atom]


def _with_resolved_bodies(eqn: Any) -> Any:
    """The equation with the markers inside of its bodies (of a loop, a branch, a jit) resolved."""
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

    return eqn.replace(params={name: resolved(value) for name, value in eqn.params.items()})
