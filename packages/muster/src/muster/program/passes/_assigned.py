"""Mark assigned values, so that gradients stop there until they are resolved into equations."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex
from jax.interpreters import ad, batching, mlir

from muster.program.passes._jaxprs import Atom, contains

_assigned_p = jex.Primitive("muster_assigned")
_assigned_p.def_impl(lambda value: value)
_assigned_p.def_abstract_eval(lambda value: value)
mlir.register_lowering(_assigned_p, lambda _, value: [value])
batching.defvectorized(_assigned_p)


def assigned(value: jax.Array) -> jax.Array:
    """Return a value that counts as computed from nothing, where gradients are asked for."""
    return _assigned_p.bind(value) if jnp.issubdtype(value.dtype, jnp.inexact) else value


def without_assigned(closed: jex.ClosedJaxpr) -> jex.ClosedJaxpr:
    """Leave out the marks of `assigned`, so that other passes see updates as they are computed."""
    if not contains(closed, _assigned_p):
        return closed
    sources: dict[Atom, Atom] = {}

    def sources_of(atoms: Sequence[Atom]) -> list[Atom]:
        return [atom if isinstance(atom, jex.Literal) else sources.get(atom, atom) for atom in atoms]

    eqns = []
    for eqn in closed.jaxpr.eqns:
        invars = sources_of(eqn.invars)
        if eqn.primitive is _assigned_p:
            sources[eqn.outvars[0]] = invars[0]
        else:
            eqns.append(eqn.replace(invars=invars))
    jaxpr = closed.jaxpr.replace(eqns=eqns, outvars=sources_of(closed.jaxpr.outvars))
    return jex.ClosedJaxpr(jaxpr, closed.consts)


def _jvp(primals: Sequence[jax.Array], _: Sequence[Any]) -> tuple[jax.Array, jax.Array]:
    return assigned(primals[0]), jnp.zeros_like(primals[0])


ad.primitive_jvps[_assigned_p] = _jvp
