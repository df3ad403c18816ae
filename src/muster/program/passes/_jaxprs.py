"""Small questions about jaxprs, and functions made of parts of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax.extend import core as jex

Array = Any


def variables_of(atoms: Sequence[Any]) -> list[Any]:
    """The atoms without literals."""
    return [atom for atom in atoms if not isinstance(atom, jex.Literal)]


def inputs_of(eqns: Sequence[Any]) -> list[Any]:
    """The variables that equations take, each once, in order; also those that they make themselves."""
    return list(dict.fromkeys(v for eqn in eqns for v in variables_of(eqn.invars)))


def contains(jaxpr: Any, primitive: Any) -> bool:
    """Whether a jaxpr has an equation of this primitive, also in the bodies of its loops and branches."""
    return any(eqn.primitive is primitive or body_contains(eqn, primitive) for eqn in jaxpr.eqns)


def body_contains(eqn: Any, primitive: Any) -> bool:
    """Whether a body of the equation (of a loop, a branch, a jit) contains the primitive."""
    return any(contains(jaxpr, primitive) for jaxpr in jex.jaxprs_in_params(eqn.params))


def function_of(
    eqns: Sequence[Any],
    arguments: Sequence[Any],
    results: Sequence[Any],
    constants: Mapping[Any, Array] | None = None,
) -> Callable[..., list[Array]]:
    """A function that computes equations.

    Args:
        eqns: in order.
        arguments: the variables whose values the function takes.
        results: the variables or literals whose values it returns.
        constants: the values of the other variables that are not made by the equations.
    """
    constants = constants or {}
    used = [v for v in dict.fromkeys([*inputs_of(eqns), *variables_of(results)]) if v in constants]
    effects = set().union(*(eqn.effects for eqn in eqns))
    names = jex.DebugInfo("muster", "part of a step", ("",) * len(arguments), ("",) * len(results))
    jaxpr = jex.Jaxpr(used, list(arguments), list(results), list(eqns), effects, names)
    return jex.jaxpr_as_fun(jex.ClosedJaxpr(jaxpr, [constants[v] for v in used]))  # type: ignore[no-any-return]


def levels_of(eqns: Sequence[Any], marker: Any) -> tuple[list[list[Any]], list[list[Any]]]:
    """Equations, and those of a marker apart, by how many markers the values that they take went through."""
    computed: list[list[Any]] = [[]]
    marked: list[list[Any]] = [[]]
    level: dict[Any, int] = {}
    for eqn in eqns:
        at = max((level.get(v, 0) for v in variables_of(eqn.invars)), default=0)
        if eqn.primitive is marker:
            marked[at].append(eqn)
            at += 1
            if at == len(marked):
                marked.append([])
                computed.append([])
        else:
            computed[at].append(eqn)
        level.update(dict.fromkeys(eqn.outvars, at))
    return computed, marked
