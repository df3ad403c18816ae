"""Update only the rows of an embedding table that a step looked up, instead of the whole table.

The gradient of a look-up is as large as its table: zeros, to which the gradients of rows are added. Gradient
descent scales that and subtracts it from the table, which passes over the table several times. Instead, the
rows are scaled and added to the table itself: the cost does not depend on the table's size, and a donated
table is updated in place.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster.program.passes._jaxprs import (
    Atom,
    AtomValues,
    Equation,
    body_contains,
    contains,
    has_shardings,
    type_of,
    variables_of,
)

Addition = tuple[Equation, jax.Array, jax.Array]
"""A scatter equation, the indices of its rows, and the rows to add."""


def with_row_updates(closed: jex.ClosedJaxpr) -> Callable[..., list[jax.Array]]:
    """Make a function of flat arguments that computes a jaxpr, and updates tables by rows where possible.

    That is possible where a sum of scaled rows, and nothing else, is added to an array or subtracted from it.
    Left unchanged: gradients that are also used elsewhere, or scaled by other than scalars; loops and
    branches; 16-bit floats, which would lose small numbers; more rows than the table has, or an unknown
    number of them.

    Results differ in the order of additions. If a gradient is scaled by infinity or NaN, only the rows that
    were looked up become so.
    """
    if not contains(closed, lax.scatter_add_p):
        return jex.jaxpr_as_fun(closed)  # type: ignore[no-any-return]
    return lambda *args: _DeferredEvaluation(closed, args).arrays()


@dataclasses.dataclass(frozen=True)
class _RowSum:
    """A sum of rows added to zeros, not computed yet.

    Attributes:
        additions: The rows to add.
        equations: The original equations, to fall back on.
    """

    additions: tuple[Addition, ...]
    equations: tuple[Equation, ...]

    def scaled(self, scale: Callable[[jax.Array], jax.Array]) -> tuple[Addition, ...]:
        """Return the additions with scaled rows."""
        return tuple((scatter, indices, scale(rows)) for scatter, indices, rows in self.additions)


class _DeferredEvaluation:
    """Computes equations in order, except sums of rows, which wait for the equation that uses them."""

    def __init__(self, closed: jex.ClosedJaxpr, args: Sequence[jax.Array]) -> None:
        self._jaxpr = jaxpr = closed.jaxpr
        self._values = AtomValues.of(closed, args)
        self._pending: list[Equation] = []
        self._uses = Counter(v for eqn in jaxpr.eqns for v in variables_of(eqn.invars))
        self._uses.update(variables_of(jaxpr.outvars))
        self._broadcasts: dict[Atom, Atom] = {}  # array -> the scalar that it was broadcast from
        self._sums: dict[Atom, _RowSum] = {}
        for eqn in jaxpr.eqns:
            if not (self._defer(eqn) or self._update(eqn)):
                self._compute(eqn)

    def arrays(self) -> list[jax.Array]:
        """Return the results."""
        self._settle(self._jaxpr.outvars)
        self._flush()  # includes equations with effects and no results
        return self._values.read(self._jaxpr.outvars)

    def row_sum(self) -> _RowSum | None:
        """Return the only result, if it is a sum of rows."""
        return self._sum(self._jaxpr.outvars[0])

    def _compute(self, eqn: Equation) -> None:
        """Queue an equation, after the sums of rows that it takes."""
        self._settle(eqn.invars)
        self._pending.append(eqn)
        if eqn.primitive is lax.broadcast_in_dim_p and type_of(eqn.invars[0]).shape == ():
            self._broadcasts[eqn.outvars[0]] = eqn.invars[0]

    def _defer(self, eqn: Equation) -> bool:
        """Hold back a sum of rows that one equation uses; return whether `eqn` is one."""
        if len(eqn.outvars) != 1 or self._uses[eqn.outvars[0]] != 1:
            return False
        if eqn.primitive is lax.scatter_add_p:
            additions = self._scattered(eqn)
        elif eqn.primitive is primitives.jit_p:
            additions = self._called(eqn)
        else:
            additions = self._combined(eqn)
        if not additions:
            return False
        taken = [self._sums.pop(v) for v in variables_of(eqn.invars) if v in self._sums]
        self._sums[eqn.outvars[0]] = _RowSum(additions, (*(e for s in taken for e in s.equations), eqn))
        return True

    def _scattered(self, eqn: Equation) -> tuple[Addition, ...]:
        """Return the rows that a scatter adds to zeros; none if it does something else."""
        operand, indices, rows = eqn.invars
        start = self._broadcasts.get(operand)
        if not isinstance(start, jex.Literal) or start.val != 0:
            return ()
        dtype = type_of(rows).dtype
        if not jnp.issubdtype(dtype, jnp.inexact) or dtype.itemsize < 4:
            return ()
        size, own = type_of(operand).size, type_of(rows).size
        if not (isinstance(size, int) and isinstance(own, int)) or own > size:
            return ()
        return ((eqn, self._read(indices), self._read(rows)),)

    def _called(self, eqn: Equation) -> tuple[Addition, ...]:
        """Return the rows that the body of a jit adds, if that is all that it computes."""
        if eqn.effects or not body_contains(eqn, lax.scatter_add_p) or has_shardings(eqn):
            return ()
        self._settle(eqn.invars)
        result = _DeferredEvaluation(eqn.params["jaxpr"], [self._read(v) for v in eqn.invars]).row_sum()
        return result.additions if result else ()

    def _combined(self, eqn: Equation) -> tuple[Addition, ...]:
        """Scale or add sums of rows, if that is what an equation does."""
        sums = [self._sum(atom) for atom in eqn.invars]
        match eqn.primitive, sums:
            case lax.neg_p, [_RowSum() as only]:
                return only.scaled(lax.neg)
            case (lax.mul_p | lax.div_p, [_RowSum() as rows, None]) | (lax.mul_p, [None, _RowSum() as rows]):
                return self._scaled(rows, eqn.invars[sums.index(None)], eqn.primitive)
            case lax.add_p | primitives.add_jaxvals_p, [_RowSum() as one, _RowSum() as other]:
                return one.additions + other.additions
            case lax.sub_p, [_RowSum() as one, _RowSum() as other]:
                return one.additions + other.scaled(lax.neg)
        return ()

    def _scaled(self, rows: _RowSum, factor: Atom, operation: jex.Primitive) -> tuple[Addition, ...]:
        """Multiply or divide a sum of rows, if the factor is a scalar."""
        if not isinstance(factor, jex.Literal):
            factor = self._broadcasts.get(factor, factor)
        if type_of(factor).shape != ():
            return ()
        number = self._read(factor)
        return rows.scaled(lambda values: operation.bind(values, jnp.full_like(values, number)))

    def _update(self, eqn: Equation) -> bool:
        """Add a sum of rows to a table, in place of an equation; return whether that is what `eqn` does."""
        sums = [self._sum(atom) for atom in eqn.invars]
        match eqn.primitive, sums:
            case lax.add_p | primitives.add_jaxvals_p, [None, _RowSum() as rows] | [_RowSum() as rows, None]:
                additions = rows.additions
            case lax.sub_p, [None, _RowSum() as rows]:
                additions = rows.scaled(lax.neg)
            case _:
                return False
        table = eqn.invars[sums.index(None)]
        types = {v.aval for v in (table, *eqn.outvars, *(scatter.outvars[0] for scatter, _, _ in additions))}
        if isinstance(table, jex.Literal) or len(types) > 1:
            return False
        self._flush()  # all reads of the table come before it is overwritten
        value = self._read(table)
        for scatter, indices, updates in additions:
            value = scatter.primitive.bind(value, indices, updates, **scatter.params)
        self._values[eqn.outvars[0]] = value
        for v in variables_of(eqn.invars):
            self._sums.pop(v, None)
        return True

    def _sum(self, atom: Atom) -> _RowSum | None:
        return None if isinstance(atom, jex.Literal) else self._sums.get(atom)

    def _settle(self, atoms: Sequence[Atom]) -> None:
        """Queue the original equations of the sums of rows among some variables."""
        for v in variables_of(atoms):
            if v in self._sums:
                self._pending += self._sums.pop(v).equations

    def _read(self, atom: Atom) -> jax.Array:
        if not isinstance(atom, jex.Literal) and atom not in self._values:
            self._flush()
        return self._values.read([atom])[0]

    def _flush(self) -> None:
        self._values.compute(self._pending)
        self._pending = []
