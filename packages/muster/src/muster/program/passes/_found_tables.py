"""Find the variables of a step of which a worker needs only some rows."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend import core as jex

from muster.program.passes._jaxprs import ELEMENTWISE, Atom, Equation, variables_of
from muster.program.passes._lookups import LookupStep
from muster.program.passes._row_values import NotByRowsError
from muster.program.passes._served import WorkerServerSplit


def find_lookups(
    step: WorkerServerSplit, candidates: Collection[str], state: Mapping[str, Any], batch: Any
) -> tuple[LookupStep | None, dict[str, NotByRowsError]]:
    """Divide a step at its look-ups in variables of which it needs some rows alone.

    Args:
        step: The step.
        candidates: The paths of variables that may be tables.
        state: Path -> shape and dtype of each variable of the step.
        batch: The batch, or the shapes and dtypes of its arrays.

    Returns:
        The divided step, or None if there is no such variable; and path -> error of each candidate that is
        looked up in, and of which the step needs all rows.
    """
    refused: dict[str, NotByRowsError] = {}
    tables = _looked_up(step, candidates, state, batch) if candidates else []
    while tables:
        try:
            return LookupStep(step, tables, state, batch), refused
        except NotByRowsError as exc:
            refused[exc.table] = exc
            tables.remove(exc.table)
    return None, refused


def _looked_up(
    step: WorkerServerSplit, candidates: Collection[str], state: Mapping[str, Any], batch: Any
) -> list[str]:
    """Return the candidates whose rows the worker's part of a step takes by their ids."""
    inputs = [[state[path] for path in paths] for paths in (step.takes, step.local)]
    shapes = [[jax.ShapeDtypeStruct(each.shape, each.dtype) for each in paths] for paths in inputs]
    jaxpr = jax.make_jaxpr(step.work)(*shapes, batch).jaxpr
    read = zip(step.takes, jaxpr.invars, strict=False)
    return [path for path, v in read if path in candidates and _gathers(jaxpr, v)[0]]


def _gathers(jaxpr: jex.Jaxpr, table: jex.Var) -> tuple[bool, set[Atom]]:
    """Return whether rows of a table are gathered, and the values that have its rows: it, and casts of it."""
    rows: set[Atom] = {table}
    found = False
    for eqn in jaxpr.eqns:
        taken = rows.intersection(variables_of(eqn.invars))
        if not taken:
            continue
        if eqn.primitive is lax.gather_p:
            found |= eqn.invars[0] in taken
        elif eqn.primitive in ELEMENTWISE:
            rows.update(eqn.outvars)
        elif (inner := _body(eqn)) is not None:
            for v in taken:
                inside, made = _gathers(inner, inner.invars[list(eqn.invars).index(v)])
                found |= inside
                rows.update(out for out, of in _results(eqn, inner) if of in made)
    return found, rows


def _body(eqn: Equation) -> jex.Jaxpr | None:
    """Return the body of a call or a loop that takes what the equation takes."""
    inner = [getattr(each, "jaxpr", each) for each in jex.jaxprs_in_params(eqn.params)]
    return next((each for each in inner if len(each.invars) == len(eqn.invars)), None)


def _results(eqn: Equation, inner: jex.Jaxpr) -> Sequence[tuple[jex.Var, Atom]]:
    """Return the results of an equation, each with that of its body."""
    made = [v for v in inner.outvars if not isinstance(v, jex.Literal)]
    alike = len(made) == len(inner.outvars) == len(eqn.outvars)
    return list(zip(eqn.outvars, made, strict=True)) if alike else []
