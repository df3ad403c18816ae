"""Find out what an update leaves as it is where a gradient is zero."""

from collections.abc import Mapping, Sequence
from typing import Any

from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster.program.passes._elementwise import named
from muster.program.passes._jaxprs import Atom, Equation

ZERO = object()
"""Stands for zeros."""

# Of zero these make zero.
_KEEPZERO = named("abs convert_element_type copy neg reduce_precision sign sqrt square stop_gradient")


def values_without(update: Sequence[Equation], given: Mapping[Atom, Any]) -> dict[Atom, Any]:
    """Return what each result of an update is where nothing is to be applied.

    Args:
        update: The equations of the update.
        given: What some of its inputs are there: `ZERO` of a gradient, a truth value of a mask.

    Returns:
        The result -> `ZERO`, a truth value, the variable that it equals, or None where that is not known.
    """
    found: dict[Atom, Any] = dict(given)

    for eqn in update:
        known = [v.val if isinstance(v, jex.Literal) else found.get(v, v) for v in eqn.invars]
        value: Any = None
        match eqn.primitive:
            case lax.mul_p if any(each is ZERO for each in known):
                value = ZERO
            case lax.div_p if known[0] is ZERO:
                value = ZERO
            case lax.integer_pow_p if known[0] is ZERO and eqn.params["y"] > 0:
                value = ZERO
            case lax.add_p | primitives.add_jaxvals_p if any(each is ZERO for each in known):
                value = known[0] if known[1] is ZERO else known[1]
            case lax.sub_p if known[1] is ZERO:
                value = known[0]
            case lax.select_n_p if isinstance(known[0], bool):
                value = known[1 + known[0]]
            case lax.broadcast_in_dim_p | lax.reshape_p if known[0] is ZERO or isinstance(known[0], bool):
                value = known[0]
            case lax.select_n_p if all(each is known[1] for each in known[1:]):
                value = known[1]
            case primitive if primitive in _KEEPZERO and known[0] is ZERO:
                value = ZERO
        found.update(dict.fromkeys(eqn.outvars, value))
    return found
