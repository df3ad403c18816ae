"""Combine a step's increments of a variable into one, to distinguish them from assignments."""

from collections.abc import Sequence

import jax
from jax import lax
from jax.extend import core as jex

from muster.program.passes._jaxprs import Atom, AtomValues, Equation


def with_single_sums(closed: jex.ClosedJaxpr, count: int, marker: jex.Primitive) -> jex.ClosedJaxpr:
    """Let each variable that a step adds to again and again, such as a metric's total, become one sum.

    Args:
        closed: A step; its first results are the new values of its first arguments.
        count: How many arguments these are.
        marker: A primitive that new values may be marked by.

    Returns:
        A step where ``(variable + a) + b`` is ``variable + (a + b)``.
    """
    jaxpr = closed.jaxpr
    makers = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    found: dict[int, tuple[Sequence[Atom], Equation | None]] = {}
    for number, (variable, value) in enumerate(zip(jaxpr.invars[:count], jaxpr.outvars, strict=False)):
        mark = None if isinstance(value, jex.Literal) else makers.get(value)
        if mark is None or mark.primitive is not marker:
            mark = None
        terms = _terms(value if mark is None else mark.invars[0], variable, makers, set())
        if terms is not None and len(terms) > 1:
            found[number] = terms, mark
    if not found:
        return closed

    def compute(*args: jax.Array) -> list[jax.Array]:
        values = AtomValues.of(closed, args)
        values.compute(jaxpr.eqns)
        results = values.read(jaxpr.outvars)
        for number, (terms, mark) in found.items():
            first, *others = values.read(terms)
            for other in others:
                first = lax.add(first, other)
            results[number] = lax.add(args[number], first)
            if mark is not None:
                results[number] = marker.bind(results[number], **mark.params)
        return results

    return jax.make_jaxpr(compute)(*closed.in_avals)


def _terms(
    value: Atom, variable: jex.Var, makers: dict[jex.Var, Equation], others: set[jex.Var]
) -> list[Atom] | None:
    """Return what is added to a variable in turn; None if the value is something else.

    Args:
        value: The value.
        variable: The variable.
        makers: What computes each variable of the step.
        others: What is known not to be such a sum; more are added.
    """
    if value is variable:
        return []
    if isinstance(value, jex.Literal) or value in others:
        return None
    maker = makers.get(value)
    if maker is not None and maker.primitive is lax.add_p:
        first, second = maker.invars
        for inner, added in ((first, second), (second, first)):
            if (terms := _terms(inner, variable, makers, others)) is not None:
                return [*terms, added]
    others.add(value)
    return None
