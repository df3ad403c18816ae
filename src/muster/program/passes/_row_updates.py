"""Tables of which a step changes the rows that it looked up, instead of computing every row anew.

The gradient of a look-up is as large as its table: zeros, to which the gradients of the rows are added. A
step that scales it and subtracts it from the table, as gradient descent does, passes over the table several
times. Scaled and added to the table itself, the rows cost what they cost, and a table that may be
overwritten stays where it is.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster.program.gradients._gradients import run_equations
from muster.program.passes._jaxprs import body_contains, contains, variables_of

Array = Any


def with_row_updates(closed: jex.ClosedJaxpr) -> Callable[..., list[Array]]:
    """A function of flat arguments that computes a jaxpr, and adds rows to tables where it can.

    It can where a sum of scaled rows, and nothing else, is added to an array or subtracted from it. Left as
    they are: gradients that are used otherwise too, or scaled by more than numbers; what is inside of loops
    and branches; floats of 16 bits, which would lose small numbers; more rows than the table has.

    Results differ in the order of additions. If a gradient is scaled by infinity or by what is not a number,
    only the rows that were looked up become so.
    """
    if not contains(closed.jaxpr, lax.scatter_add_p):
        return jex.jaxpr_as_fun(closed)  # type: ignore[no-any-return]
    return lambda *args: _Evaluation(closed, args).arrays()


@dataclasses.dataclass(frozen=True)
class _RowSum:
    """Zeros to which rows are added, not computed yet.

    Attributes:
        additions: scatter equations, each with the indices and the rows to add, arrays.
        equations: how it was written.
    """

    additions: tuple[tuple[Any, Array, Array], ...]
    equations: tuple[Any, ...]

    def scaled(self, scale: Callable[[Array], Array]) -> tuple[tuple[Any, Array, Array], ...]:
        """The additions with other rows."""
        return tuple((scatter, indices, scale(rows)) for scatter, indices, rows in self.additions)

    def has_type(self, aval: Any) -> bool:
        return all(scatter.outvars[0].aval == aval for scatter, _, _ in self.additions)


class _Evaluation:
    """Computes equations in order, but for sums of rows, which wait for the equation that uses them."""

    def __init__(self, closed: jex.ClosedJaxpr, args: Sequence[Array]) -> None:
        self._jaxpr = jaxpr = closed.jaxpr
        self._env = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        self._env.update(zip(jaxpr.invars, args, strict=True))
        self._pending: list[Any] = []
        self._uses = Counter(v for eqn in jaxpr.eqns for v in variables_of(eqn.invars))
        self._uses.update(variables_of(jaxpr.outvars))
        self._broadcasts: dict[Any, Any] = {}  # what one number was spread to -> the number
        self._sums: dict[Any, _RowSum] = {}
        for eqn in jaxpr.eqns:
            if not (self._defer(eqn) or self._update(eqn)):
                self._compute(eqn)

    def arrays(self) -> list[Array]:
        """The results."""
        self._settle(self._jaxpr.outvars)
        self._flush()  # also what has effects and no results
        return [self._read(v) for v in self._jaxpr.outvars]

    def row_sum(self) -> _RowSum | None:
        """The only result, if it is a sum of rows."""
        return self._sum(self._jaxpr.outvars[0])

    def _compute(self, eqn: Any) -> None:
        """Compute an equation as it is written, and the sums of rows that it takes."""
        self._settle(eqn.invars)
        self._pending.append(eqn)
        if eqn.primitive is lax.broadcast_in_dim_p and eqn.invars[0].aval.shape == ():
            self._broadcasts[eqn.outvars[0]] = eqn.invars[0]

    def _defer(self, eqn: Any) -> bool:
        """Keep a sum of rows for the one equation that uses it."""
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

    def _scattered(self, eqn: Any) -> tuple[Any, ...]:
        """Rows added to zeros."""
        operand, indices, rows = eqn.invars
        start = self._broadcasts.get(operand)
        if not isinstance(start, jex.Literal) or start.val != 0:
            return ()
        if not jnp.issubdtype(rows.aval.dtype, jnp.inexact) or rows.aval.dtype.itemsize < 4:
            return ()
        if rows.aval.size > operand.aval.size:
            return ()
        return ((eqn, self._read(indices), self._read(rows)),)

    def _called(self, eqn: Any) -> tuple[Any, ...]:
        """What the body of a jit computes."""
        shardings = (*eqn.params["in_shardings"], *eqn.params["out_shardings"])
        if (
            eqn.effects
            or not body_contains(eqn, lax.scatter_add_p)
            or any(isinstance(sharding, jax.sharding.Sharding) for sharding in shardings)
        ):
            return ()
        self._settle(eqn.invars)
        result = _Evaluation(eqn.params["jaxpr"], [self._read(v) for v in eqn.invars]).row_sum()
        return result.additions if result else ()

    def _combined(self, eqn: Any) -> tuple[Any, ...]:
        """Sums of rows, scaled or added."""
        sums = [self._sum(atom) for atom in eqn.invars]
        match eqn.primitive, sums:
            case lax.neg_p, [_RowSum() as only]:
                return only.scaled(lax.neg)
            case lax.mul_p | lax.div_p, [_RowSum() as rows, None]:
                return self._scaled(rows, eqn.invars[1], by=eqn.primitive)
            case lax.mul_p, [None, _RowSum() as rows]:
                return self._scaled(rows, eqn.invars[0], by=eqn.primitive)
            case lax.add_p | primitives.add_jaxvals_p, [_RowSum() as one, _RowSum() as other]:
                return one.additions + other.additions
            case lax.sub_p, [_RowSum() as one, _RowSum() as other]:
                return one.additions + other.scaled(lax.neg)
        return ()

    def _scaled(self, rows: _RowSum, factor: Any, by: Any) -> tuple[Any, ...]:
        """A sum of rows, multiplied or divided by a number."""
        if not isinstance(factor, jex.Literal):
            factor = self._broadcasts.get(factor, factor)
        if factor.aval.shape != ():
            return ()
        number = self._read(factor)
        operation = lax.mul if by is lax.mul_p else lax.div
        return rows.scaled(lambda values: operation(values, jnp.full_like(values, number)))

    def _update(self, eqn: Any) -> bool:
        """Add a sum of rows to the array that it is to be added to or subtracted from."""
        match eqn.primitive, [self._sum(atom) for atom in eqn.invars]:
            case lax.add_p | primitives.add_jaxvals_p, [None, _RowSum() as rows]:
                table, additions = eqn.invars[0], rows.additions
            case lax.add_p | primitives.add_jaxvals_p, [_RowSum() as rows, None]:
                table, additions = eqn.invars[1], rows.additions
            case lax.sub_p, [None, _RowSum() as rows]:
                table, additions = eqn.invars[0], rows.scaled(lax.neg)
            case _:
                return False
        types = (table.aval, eqn.outvars[0].aval)
        if isinstance(table, jex.Literal) or not all(rows.has_type(aval) for aval in types):
            return False
        self._flush()  # what reads the table is computed before it is overwritten
        value = self._read(table)
        for scatter, indices, updates in additions:
            value = scatter.primitive.bind(value, indices, updates, **scatter.params)
        self._env[eqn.outvars[0]] = value
        for v in variables_of(eqn.invars):
            self._sums.pop(v, None)
        return True

    def _sum(self, atom: Any) -> _RowSum | None:
        return None if isinstance(atom, jex.Literal) else self._sums.get(atom)

    def _settle(self, atoms: Sequence[Any]) -> None:
        """Let the sums of rows among variables be computed as they were written."""
        for v in variables_of(atoms):
            if v in self._sums:
                self._pending += self._sums.pop(v).equations

    def _read(self, atom: Any) -> Array:
        if isinstance(atom, jex.Literal):
            return atom.val
        if atom not in self._env:
            self._flush()
        return self._env[atom]

    def _flush(self) -> None:
        run_equations(self._pending, self._env)
        self._pending = []
