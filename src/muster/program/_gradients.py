"""Gradients inside one trace: a marker in the program, resolved before it is compiled.

User code asks for gradients in the middle of a step (``minimize``, ``tape.gradient``), after the forward
computation has been traced. At that point a primitive is recorded that only says "the gradient of this
value with respect to those". ``resolve`` then walks the finished jaxpr and differentiates, for each
marker, the equations between sources and target. So the user's Python runs once, tapes nest, and
gradients of inputs work as those of variables do.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from muster._errors import GradientError
from muster.program._variables import active_scope

Array = Any

_gradient_p = jex.Primitive("muster_gradient")
_gradient_p.multiple_results = True
_gradient_p.def_abstract_eval(lambda target, *sources: list(sources))


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
    values = [scope.read(source) for source in sources]
    for value in values:
        _require_float(value, "source")
    if not values or not leaves:
        return []
    total = sum(jnp.sum(leaf).astype(leaves[0].dtype) for leaf in leaves)
    if scope.eager_gradients is not None:
        return scope.eager_gradients(total, values)
    return list(_gradient_p.bind(total, *values))


def _require_float(value: Array, role: str) -> None:
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        raise GradientError(
            f"A {role} of gradients has dtype {value.dtype} and shape {tuple(value.shape)}; only "
            "floating-point values have gradients. Cast it first, or leave it out."
        )


def resolve(closed: jex.ClosedJaxpr) -> Callable[..., list[Array]]:
    """A function of flat arguments that computes a jaxpr, gradient markers included."""
    if not _has_marker(closed.jaxpr):
        return jex.jaxpr_as_fun(closed)  # type: ignore[no-any-return]
    jaxpr = closed.jaxpr
    equations = [_with_resolved_bodies(eqn) for eqn in jaxpr.eqns]

    def compute(*args: Array) -> list[Array]:
        env = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))
        _evaluate(equations, env, equations)
        return [_read(env, v) for v in jaxpr.outvars]

    return compute


def needed_equations(eqns: Sequence[Any], targets: Sequence[Any]) -> tuple[list[Any], set[Any]]:
    """The equations that compute the targets, in order, and the variables that come from elsewhere."""
    wanted = set(_variables_of(targets))
    kept = []
    for eqn in reversed(eqns):
        if wanted.intersection(eqn.outvars):
            kept.append(eqn)
            wanted.difference_update(eqn.outvars)
            wanted.update(_variables_of(eqn.invars))
    return kept[::-1], wanted


def run_equations(eqns: Sequence[Any], env: dict[Any, Array]) -> None:
    """Compute equations without markers: reads and extends ``env``, which maps variables to values."""
    if not eqns:
        return
    made = [v for eqn in eqns for v in eqn.outvars]
    produced = set(made)
    used = list({v: None for eqn in eqns for v in _variables_of(eqn.invars) if v not in produced})
    effects = set().union(*(eqn.effects for eqn in eqns))
    names = jex.DebugInfo("muster", "part of a step", ("",) * len(used), ("",) * len(made))
    part = jex.Jaxpr([], used, made, list(eqns), effects, names)
    values = jex.jaxpr_as_fun(jex.ClosedJaxpr(part, []))(*[env[v] for v in used])
    env.update(zip(made, values, strict=True))


def _evaluate(eqns: Sequence[Any], env: dict[Any, Array], history: Sequence[Any]) -> None:
    """Compute equations, markers included, in ``env``.

    ``history`` has every equation of the program in order: a gradient may have to go back through some
    that were computed before. Those are computed again under differentiation; XLA merges the copies.
    """
    for i, marker in enumerate(eqns):
        if marker.primitive is not _gradient_p:
            continue
        before = eqns[:i]
        target, *sources = marker.invars
        path = _equations_between(history[: history.index(marker)], sources, target)
        if not path and target not in sources:
            raise GradientError(
                f"The value to differentiate ({target.aval.dtype}{list(target.aval.shape)}) does not "
                "depend on any of the variables asked for. Was it computed from them, inside of this step?"
            )
        later = _dependents(before, sources)
        run_equations(_without(before, later), env)

        made = [v for eqn in path for v in eqn.outvars]

        def forward(values: list[Array]) -> tuple[Array, list[Array]]:
            inner = env | dict(zip(sources, values, strict=True))  # noqa: B023  (called at once)
            _evaluate(path, inner, history)  # noqa: B023
            return inner[target], [inner[v] for v in made]  # noqa: B023

        (_, values), grads = jax.value_and_grad(forward, has_aux=True)([_read(env, s) for s in sources])
        env.update(zip(made, values, strict=True))
        env.update(zip(marker.outvars, grads, strict=True))
        run_equations(_without(later, path), env)
        return _evaluate(eqns[i + 1 :], env, history)
    return run_equations(eqns, env)


def _equations_between(eqns: Sequence[Any], sources: Sequence[Any], target: Any) -> list[Any]:
    """The equations through which the target depends on any source, in order."""
    needed, _ = needed_equations(eqns, [target])
    return _dependents(needed, sources)


def _dependents(eqns: Sequence[Any], sources: Sequence[Any]) -> list[Any]:
    """The equations that depend on any source, in order."""
    reached = set(_variables_of(sources))
    kept = []
    for eqn in eqns:
        if reached.intersection(_variables_of(eqn.invars)) or reached.intersection(eqn.outvars):
            kept.append(eqn)
            reached.update(eqn.outvars)
    return kept


def _without(eqns: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    excluded = set(map(id, others))
    return [eqn for eqn in eqns if id(eqn) not in excluded]


def _variables_of(atoms: Sequence[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, jex.Literal)]


def _read(env: dict[Any, Array], atom: Any) -> Array:
    return atom.val if isinstance(atom, jex.Literal) else env[atom]


def _has_marker(jaxpr: Any) -> bool:
    return any(
        eqn.primitive is _gradient_p or any(map(_has_marker, jex.jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )


def _with_resolved_bodies(eqn: Any) -> Any:
    """The equation with the markers inside of its bodies (of a loop, a branch, a jit) resolved."""
    if not any(map(_has_marker, jex.jaxprs_in_params(eqn.params))):
        return eqn

    def resolved(value: Any) -> Any:
        if isinstance(value, jex.ClosedJaxpr):
            return jax.make_jaxpr(resolve(value))(*value.in_avals) if _has_marker(value.jaxpr) else value
        if isinstance(value, tuple | list):
            return type(value)(map(resolved, value))
        if isinstance(value, jex.Jaxpr) and _has_marker(value):
            raise GradientError(
                f"A gradient was asked for inside of {eqn.primitive.name}, which is itself about gradients. "
                "Ask for it outside."
            )
        return value

    return eqn.replace(params={name: resolved(value) for name, value in eqn.params.items()})
