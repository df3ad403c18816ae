"""Find moving averages: new values that are computed of a variable's old one by sums and products."""

from collections.abc import Collection, Sequence

import jax.numpy as jnp
from jax.extend import core as jex

from muster.program.passes._elementwise import named
from muster.program.passes._jaxprs import Atom, Equation, type_of, variables_of

_SUMS = named("add sub neg convert_element_type copy")
_MUL, _DIV = named("mul div")


class Averages:
    """Finds new values of variables that are linear functions of the old ones, element by element.

    So the mean of what several workers put into one gives the mean of what they would make of it.

    Args:
        eqns: The equations of the step.

    Attributes:
        made: What is computed of old values on the way to such new ones.
        operands: What is computed of other values, and goes into them.
    """

    def __init__(self, eqns: Sequence[Equation]) -> None:
        self.made: set[Atom] = set()
        self.operands: set[Atom] = set()
        self._makers = {v: eqn for eqn in eqns for v in eqn.outvars}
        self._users: dict[jex.Var, list[Equation]] = {}
        for eqn in eqns:
            for v in variables_of(eqn.invars):
                self._users.setdefault(v, []).append(eqn)

    def find(self, variable: jex.Var, value: Atom) -> bool:
        """Return whether a variable's new value is one."""
        dependent = self._dependent_on(variable)
        made: set[Atom] = set()
        operands: set[Atom] = set()
        left = variables_of([value])
        while left:
            v = left.pop()
            if v not in dependent:
                operands.add(v)
            elif v is not variable and v not in made:
                eqn = self._makers[v]
                if not _is_linear(eqn, dependent):
                    return False
                made.add(v)
                left += variables_of(eqn.invars)
        self.made |= made
        self.operands |= operands
        return bool(made)

    def _dependent_on(self, variable: jex.Var) -> set[Atom]:
        found: set[Atom] = {variable}
        left = [variable]
        while left:
            for eqn in self._users.get(left.pop(), ()):
                new = [v for v in eqn.outvars if v not in found]
                found.update(new)
                left += new
        return found


def _is_linear(eqn: Equation, dependent: Collection[Atom]) -> bool:
    """Return whether an equation is linear in those of its operands that depend on an old value."""
    if not jnp.issubdtype(type_of(eqn.outvars[0]).dtype, jnp.inexact):
        return False
    of_old = [not isinstance(v, jex.Literal) and v in dependent for v in eqn.invars]
    if eqn.primitive is _MUL:
        return not all(of_old)
    return eqn.primitive in _SUMS or (eqn.primitive is _DIV and not of_old[1])
