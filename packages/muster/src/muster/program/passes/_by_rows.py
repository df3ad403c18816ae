"""Apply an elementwise update to some rows of its variables; find out what it leaves as it is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex
from jax.extend.core import primitives

from muster.program.passes._jaxprs import ELEMENTWISE, Atom, AtomValues, Equation, is_number, named, type_of

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


class CoupledRowsError(ValueError):
    """An update computes a row from others. The text is a clause about the operation that does."""


def by_rows(
    function: Callable[..., list[jax.Array]], args: Sequence[jax.ShapeDtypeStruct], rows: Any
) -> Callable[..., list[jax.Array]]:
    """Return an elementwise function for arrays of another number of rows.

    Args:
        function: Takes and returns arrays, each of which is a scalar or has as many rows as all others.
        args: The shapes and dtypes of its arguments.
        rows: The number of rows that the returned function is for, or a symbol of ``jax.export``.

    Raises:
        CoupledRowsError: An element of a result depends on more than the same elements of arguments.
    """
    closed = jax.make_jaxpr(function)(*args)
    _require_elementwise(closed.jaxpr)

    def compute(*arrays: jax.Array) -> list[jax.Array]:
        return _computed(closed, arrays, rows)

    return compute


def _require_elementwise(jaxpr: jex.Jaxpr) -> None:
    if not all(map(is_number, jaxpr.constvars)):
        raise CoupledRowsError("a constant has rows of its own")
    made_of_rows = {v for v in jaxpr.invars if not is_number(v)}
    for eqn in jaxpr.eqns:
        takes_rows = any(not isinstance(v, jex.Literal) and v in made_of_rows for v in eqn.invars)
        shapes = {type_of(v).shape for v in (*eqn.invars, *eqn.outvars) if not is_number(v)}
        if eqn.primitive is primitives.jit_p:
            _require_elementwise(eqn.params["jaxpr"].jaxpr)
        elif takes_rows and (eqn.primitive not in ELEMENTWISE or len(shapes) > 1):
            raise CoupledRowsError(f"{eqn.primitive.name} computes rows from others")
        elif not takes_rows and shapes and eqn.primitive not in (lax.broadcast_in_dim_p, *ELEMENTWISE):
            raise CoupledRowsError(f"{eqn.primitive.name} makes rows that are not all the same")
        made_of_rows.update(v for v in eqn.outvars if not is_number(v))


def _computed(closed: jex.ClosedJaxpr, args: Sequence[jax.Array], rows: Any) -> list[jax.Array]:
    values = AtomValues.of(closed, args)
    for eqn in closed.jaxpr.eqns:
        operands = values.read(eqn.invars)
        if eqn.primitive is primitives.jit_p:
            made = _computed(eqn.params["jaxpr"], operands, rows)
        elif eqn.primitive is lax.broadcast_in_dim_p:
            made = [_broadcast(eqn, operands[0], rows)]
        else:
            bound = eqn.primitive.bind(*operands, **eqn.params)
            made = bound if eqn.primitive.multiple_results else [bound]
        values.update(zip(eqn.outvars, made, strict=True))
    return values.read(closed.jaxpr.outvars)


def _broadcast(eqn: Equation, operand: jax.Array, rows: Any) -> jax.Array:
    shape = eqn.params["shape"]
    return jnp.broadcast_to(operand, shape if is_number(eqn.outvars[0]) else (rows, *shape[1:]))
