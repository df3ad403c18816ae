"""Mark values of a trace: assigned ones, where gradients stop, and those that are computed again at the end.

TensorFlow evaluates the value of a metric by itself, once all updates have run: it reads variables then,
wherever the code that computes it stands. `reread` leaves a marker in the trace, and `with_rereads` computes
the equations between the variables and the value once more.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex
from jax.interpreters import ad, batching, mlir

from muster.program.passes._jaxprs import Atom, AtomValues, Equation, contains, dependents, needed_equations

_reread_p = jex.Primitive("muster_reread")
_reread_p.def_abstract_eval(lambda value, *_: value)


def reread(value: jax.Array, versions: Sequence[tuple[jax.Array, jax.Array]]) -> jax.Array:
    """Return a value as it is if variables hold something else.

    Args:
        value: A value of the step that is being traced.
        versions: What a variable has held somewhere before, and what it is taken to hold; of one shape and
            dtype.
    """
    pairs = [array for pair in versions for array in pair]
    return _reread_p.bind(value, *pairs)  # type: ignore[no-any-return]


def with_rereads(closed: jex.ClosedJaxpr) -> jex.ClosedJaxpr:
    """Compute what `reread` was asked for; gradients are equations by now, and assignments are marked."""
    if not contains(closed, _reread_p):
        return closed
    jaxpr = closed.jaxpr

    def compute(*args: jax.Array) -> list[jax.Array]:
        values = AtomValues.of(closed, args)
        begun = 0
        for number, eqn in enumerate([*jaxpr.eqns, None]):
            if eqn is None or eqn.primitive is _reread_p:
                values.compute(jaxpr.eqns[begun:number])
                begun = number + 1
            if eqn is not None and eqn.primitive is _reread_p:
                values.update({eqn.outvars[0]: _again(eqn, jaxpr.eqns[:number], values)})
        return values.read(jaxpr.outvars)

    return jax.make_jaxpr(compute)(*closed.in_avals)


def _again(marker: Equation, past: Sequence[Equation], values: AtomValues) -> jax.Array:
    value, *pairs = marker.invars
    replaced: dict[Atom, Atom] = {
        version: new
        for version, new in zip(pairs[::2], pairs[1::2], strict=True)
        if isinstance(version, jex.Var)
    }
    given: dict[Atom, jax.Array] = dict(zip(replaced, values.read(replaced.values()), strict=True))
    needed, _ = needed_equations(past, [value], replaced)
    inner = AtomValues(values)
    inner.update(given)
    inner.compute(dependents(needed, replaced)[0])
    return inner.read([value])[0]


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
