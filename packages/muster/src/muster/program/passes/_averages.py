"""Find moving averages: assignments that are linear in the variable's old value."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from muster.program.passes._jaxprs import Atom, Equation, function_of, named, type_of, variables_of

_SUMS = named("add sub neg convert_element_type copy")
_MUL, _DIV = named("mul div")


@dataclass(frozen=True)
class Average:
    """The computation of a variable's new value from its old one.

    Attributes:
        operands: What goes into it besides.
        function: Takes the old value, and those of ``operands``; returns a list of the new value.
    """

    operands: Sequence[jex.Var]
    function: Callable[..., list[jax.Array]]


class Averages:
    """Finds new values of variables that are linear functions of the old ones, element by element.

    What a batch decides is added, and nothing else: so the mean of what several workers put into a new value
    gives the mean of what they would make of it.

    Args:
        eqns: The equations of the step.
        constants: The values of constants.
        of_batch: Returns whether a value depends on the batch, or on gradients.
    """

    def __init__(
        self,
        eqns: Sequence[Equation],
        constants: Mapping[jex.Var, jax.Array],
        of_batch: Callable[[Atom], bool],
    ) -> None:
        self._eqns = eqns
        self._constants = constants
        self._of_batch = of_batch
        self._makers = {v: eqn for eqn in eqns for v in eqn.outvars}
        self._users: dict[jex.Var, list[Equation]] = {}
        for eqn in eqns:
            for v in variables_of(eqn.invars):
                self._users.setdefault(v, []).append(eqn)

    def find(self, variable: jex.Var, value: Atom) -> Average | None:
        """Return how a variable's new value is computed of its old one; None if it is no average."""
        dependent = self._dependent_on(variable)
        made: set[jex.Var] = set()
        operands: dict[jex.Var, None] = {}
        left = variables_of([value])
        while left:
            v = left.pop()
            if v not in dependent:
                operands[v] = None
            elif v is not variable and v not in made:
                eqn = self._makers[v]
                if not self._is_linear(eqn, dependent):
                    return None
                made.add(v)
                left += variables_of(eqn.invars)
        if not made:
            return None
        eqns = [eqn for eqn in self._eqns if made.intersection(eqn.outvars)]
        return Average([*operands], function_of(eqns, [variable, *operands], [value], self._constants))

    def _is_linear(self, eqn: Equation, dependent: set[jex.Var]) -> bool:
        """Return whether an equation is linear in what depends on the old value, by factors of no batch."""
        if not jnp.issubdtype(type_of(eqn.outvars[0]).dtype, jnp.inexact):
            return False
        if eqn.primitive in _SUMS:
            return True
        others = [v for v in eqn.invars if isinstance(v, jex.Literal) or v not in dependent]
        if len(others) != 1 or self._of_batch(others[0]):
            return False
        return eqn.primitive is _MUL or (eqn.primitive is _DIV and others[0] is eqn.invars[1])

    def _dependent_on(self, variable: jex.Var) -> set[jex.Var]:
        found = {variable}
        left = [variable]
        while left:
            for eqn in self._users.get(left.pop(), ()):
                new = [v for v in eqn.outvars if v not in found]
                found.update(new)
                left += new
        return found
