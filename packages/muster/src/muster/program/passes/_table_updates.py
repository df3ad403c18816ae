"""Update only the rows of a table that a step looked up, where the optimizer leaves the others as they are.

The gradient of a look-up is as large as its table: zeros, to which the gradients of rows are added. Gradient
descent, Adagrad and others compute each element of a table and of its slots from the same element of the
gradient, and leave it as it is where that is zero. There only the rows that were looked up are computed:
neither the time of a step nor what replicas send each other depends on the table's size.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster.program.passes._by_rows import ZERO, CoupledRowsError, by_rows, values_without
from muster.program.passes._gradient_markers import has_gradient_markers
from muster.program.passes._jaxprs import (
    Atom,
    AtomValues,
    Equation,
    contains,
    dependents,
    function_of,
    inputs_of,
    is_number,
    needed_equations,
    outputs_of,
    type_of,
    variables_of,
    with_inlined_calls,
)
from muster.program.passes._rows import adds_rows, part_of, rows_added, updated_rows, whole_step
from muster.program.passes._sparse_gradients import with_sparse_gradients

_log = logging.getLogger(__name__)

# Tables of fewer rows cost little as a whole.
_FEWEST_ROWS = 1024


def with_table_updates(
    step: Callable[[Any, Any], tuple[Any, Any]], state: Any, batch: Any
) -> tuple[Any, Any]:
    """Compute ``step(state, batch)``, and update by rows each table for which that gives the same.

    Where a step size or a slot is infinite or NaN, rows that were not looked up stay as they are; dense
    updates make NaN of them.

    Args:
        step: Takes a state and a batch, and returns the next state and results.
        state: Arrays in nested structures.
        batch: Arrays in nested structures.
    """
    with part_of(replace(whole_step(), takes_markers=True)):
        closed, shapes = jax.make_jaxpr(step, return_shape=True)(state, batch)
    leaves = jax.tree.leaves((state, batch))
    gradients: Collection[jex.Var] = ()
    if _has_tables(closed):
        closed = with_inlined_calls(closed)
        gradients = _gradients(closed.jaxpr.eqns).keys()
    if gradients or has_gradient_markers(closed):
        closed = jax.make_jaxpr(with_sparse_gradients(closed, gradients))(*leaves)
    flat = jex.jaxpr_as_fun(with_updates_by_rows(closed))(*leaves)
    return jax.tree.unflatten(jax.tree.structure(shapes), flat)  # type: ignore[no-any-return]


def with_updates_by_rows(closed: jex.ClosedJaxpr) -> jex.ClosedJaxpr:
    """Rewrite a step so that it updates by rows each table for which that gives the same."""
    if not _has_tables(closed):
        return closed
    closed = with_inlined_calls(closed)
    return jax.make_jaxpr(lambda *leaves: _computed(closed, leaves))(*closed.in_avals)


def _has_tables(closed: jex.ClosedJaxpr) -> bool:
    shapes = [type_of(v).shape for v in closed.jaxpr.invars]
    rows = [
        shape[0] for shape in shapes if len(shape) > 1 and isinstance(shape[0], int)
    ]  # symbols are others'
    return max(rows, default=0) >= _FEWEST_ROWS and contains(closed, lax.scatter_add_p)


@dataclass(frozen=True)
class _Table:
    """A table and its slots, which change in the rows of a gradient alone.

    Attributes:
        scatters: The equations that add rows to the gradient.
        before: The values before the update.
        after: The values after it.
        others: What the update takes beside them and the gradient.
        rule: Takes a gradient, the values before the update, and the others, all of some rows.
    """

    scatters: tuple[Equation, ...]
    before: tuple[Atom, ...]
    after: tuple[Atom, ...]
    others: tuple[Atom, ...]
    rule: Callable[..., list[jax.Array]]

    @property
    def inputs(self) -> list[jex.Var]:
        """All that is to be computed before."""
        taken = [v for eqn in self.scatters for v in eqn.invars[1:]]
        return variables_of([*taken, *self.before, *self.others])

    def updated(self, values: AtomValues) -> list[jax.Array]:
        """Return the values after the update."""
        rows, *others = [rows_added(eqn, *values.read(eqn.invars[1:])) for eqn in self.scatters]
        for more in others:
            rows += more
        return updated_rows(rows, self.rule, values.read([*self.before, *self.others]), len(self.before))


def _computed(closed: jex.ClosedJaxpr, leaves: Sequence[jax.Array]) -> list[jax.Array]:
    """Compute a jaxpr, the updates of tables by rows."""
    jaxpr = closed.jaxpr
    gradients = _gradients(jaxpr.eqns)
    tables = []
    for gradient, scatters in gradients.items():
        table = _table(jaxpr, gradient, scatters)
        how = "as a whole, since the step changes other rows, too" if table is None else "by rows"
        _log.debug("The gradient of a table of shape %s is applied %s.", list(type_of(gradient).shape), how)
        if table is not None:
            tables.append(table)
    after = {v for table in tables for v in table.after}
    wanted = [v for v in jaxpr.outvars if v not in after]
    wanted += [v for table in tables for v in table.inputs]
    values = AtomValues.of(closed, leaves)
    values.compute(needed_equations(jaxpr.eqns, wanted, with_effects=True)[0])
    for table in tables:
        values.update(zip(table.after, table.updated(values), strict=True))
    return values.read(jaxpr.outvars)


def _gradients(eqns: Sequence[Equation]) -> dict[jex.Var, tuple[Equation, ...]]:
    """Return the gradients that are sums of few rows, with the equations that add those."""
    zeros: set[Atom] = set()
    found: dict[Atom, tuple[Equation, ...]] = {}
    for eqn in eqns:
        if len(eqn.outvars) != 1:
            continue
        (made,) = eqn.outvars
        if eqn.primitive is lax.broadcast_in_dim_p:
            start = eqn.invars[0]
            if isinstance(start, jex.Literal) and start.val == 0:
                zeros.add(made)
        elif eqn.primitive is lax.scatter_add_p and adds_rows(eqn):
            operand, indices, updates = eqn.invars
            few = type_of(indices).size + type_of(updates).size < type_of(operand).size
            if few and isinstance(operand, jex.Var) and (operand in zeros or operand in found):
                found[made] = (*found.pop(operand, ()), eqn)
        elif eqn.primitive in (lax.add_p, primitives.add_jaxvals_p):
            terms = [v for v in eqn.invars if isinstance(v, jex.Literal) or v not in zeros]
            if terms and all(isinstance(v, jex.Var) and v in found for v in terms):
                found[made] = tuple(scatter for v in terms for scatter in found[v])
                for v in set(terms):
                    del found[v]
    return found  # type: ignore[return-value]  # no literal is one


def _table(jaxpr: jex.Jaxpr, gradient: jex.Var, scatters: tuple[Equation, ...]) -> _Table | None:
    """Return the table that a gradient changes; None if it changes more than the rows that it has."""
    update, _ = dependents(jaxpr.eqns, [gradient])
    made = set(outputs_of(update))
    after = [v for v in dict.fromkeys(variables_of(jaxpr.outvars)) if v in made]
    unchanged = values_without(update, {gradient: ZERO})
    before = [unchanged[v] for v in after]
    if not after or any(not isinstance(v, jex.Var) or v in made for v in before):
        return None
    if len(set(before)) < len(before) or any(map(_differ, before, after)):
        return None
    filled = {v for eqn in jaxpr.eqns if eqn.primitive is lax.broadcast_in_dim_p for v in eqn.outvars}
    used = filled.intersection(inputs_of(update)) - made
    update = [*(eqn for eqn in jaxpr.eqns if used.intersection(eqn.outvars)), *update]
    made.update(used)
    others = [v for v in inputs_of(update) if v not in made and v is not gradient and v not in before]
    given = [gradient, *before, *others]
    if any(type_of(v).shape != type_of(gradient).shape and not is_number(v) for v in given):
        return None
    rows = sum(type_of(eqn.invars[1]).size for eqn in scatters)
    shapes = [jax.ShapeDtypeStruct(type_of(v).shape, type_of(v).dtype) for v in given]
    try:
        rule = by_rows(function_of(update, given, after), shapes, rows)
    except CoupledRowsError:
        return None
    return _Table(scatters, tuple(before), tuple(after), tuple(others), rule)


def _differ(one: Atom, other: Atom) -> bool:
    """Return whether two variables differ in shape or dtype."""
    return (type_of(one).shape, type_of(one).dtype) != (type_of(other).shape, type_of(other).dtype)
