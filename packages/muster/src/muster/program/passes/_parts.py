"""Cut a step into parts between which the host reduces values over all processes.

Between processes on CPUs, values are added outside of the compiled program. There `all_reduce_on_host` leaves
a marker wherever a step reduces values. `split_at_all_reduces` cuts the finished jaxpr at the markers: each
part is compiled by itself, and in between the host adds the values that one part returns and passes the sums
to the next.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core as jex
from jax.interpreters import ad

from muster._errors import TraceError
from muster.program.passes._jaxprs import (
    Atom,
    body_contains,
    function_of,
    inputs_of,
    levels_of,
    needed_equations,
    outputs_of,
    type_of,
    variables_of,
    with_inlined_jits,
)

_all_reduce_p = jex.Primitive("muster_all_reduce_on_host")
_all_reduce_p.def_abstract_eval(lambda value: value)
ad.deflinear2(_all_reduce_p, lambda cotangent, value: [all_reduce_on_host(cotangent)])


def all_reduce_on_host(value: jax.Array) -> jax.Array:
    """Add a value over all processes, by a marker that `split_at_all_reduces` cuts at.

    Args:
        value: A flat array, of the same length and dtype in all processes.
    """
    return _all_reduce_p.bind(value)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Segment:
    """A part of a step. All values of a step are numbered, its flat arguments first.

    Attributes:
        function: Takes and returns arrays; the last part returns the flat results of the step.
        takes: The numbers of its arguments.
        donates: The positions of the arguments that it may overwrite.
        sums: Its first results are to be added over all processes; these are the numbers of the sums.
        keeps: The numbers of its other results; none in the last part.
        lengths: The lengths of the results that are to be added.
    """

    function: Callable[..., list[jax.Array]]
    takes: tuple[int, ...]
    donates: tuple[int, ...]
    sums: tuple[int, ...]
    keeps: tuple[int, ...]
    lengths: tuple[int, ...]


def split_at_all_reduces(
    function: Callable[..., Any], *args: Any, donated: int
) -> tuple[list[Segment], jax.tree_util.PyTreeDef]:
    """Cut a step at its reductions over all processes.

    Args:
        function: The step; it calls `all_reduce_on_host`.
        args: Arrays or ``jax.ShapeDtypeStruct`` s, in nested structures.
        donated: How many of the flat arguments, from the first on, may be overwritten.

    Returns:
        The parts in order, and the structure of the results.

    Raises:
        TraceError: `all_reduce_on_host` is called inside of a loop or a branch, where a step cannot be cut.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
    closed = with_inlined_jits(closed, _all_reduce_p)
    jaxpr = closed.jaxpr
    inside = next((eqn.primitive.name for eqn in jaxpr.eqns if body_contains(eqn, _all_reduce_p)), None)
    if inside is not None:
        raise TraceError(
            f"Values are reduced over the workers inside of a {inside}, where workers on CPUs cannot do it, "
            "nor replicas with different numbers of rows. Apply gradients and update metrics outside of "
            "loops and branches."
        )
    constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    needed, _ = needed_equations(jaxpr.eqns, jaxpr.outvars, with_effects=True)
    computed, reduced = levels_of(needed, _all_reduce_p)
    wanted = [inputs_of([*before, *markers]) for before, markers in zip(computed, reduced, strict=True)]
    wanted[-1] += variables_of(jaxpr.outvars)
    last_use = {v: level for level, variables in enumerate(wanted) for v in variables}

    numbers = {v: number for number, v in enumerate(jaxpr.invars)}
    overwritable = set(jaxpr.invars[:donated])
    parts = []
    for level, eqns in enumerate(computed):
        made = dict.fromkeys(outputs_of(eqns))
        # In the order of the step's arguments and results: JAX lets the next result of a donated argument's
        # shape have its memory, and copies what another one is made of.
        taken = {v for v in wanted[level] if v not in made and v not in constants}
        takes = sorted(taken, key=numbers.__getitem__)
        sums = [eqn.outvars[0] for eqn in reduced[level]]
        addends = [eqn.invars[0] for eqn in reduced[level]]
        keeps = [v for v in made if last_use.get(v, -1) > level]
        results = [*addends, *keeps] if level < len(computed) - 1 else jaxpr.outvars
        numbers.update({v: len(numbers) + i for i, v in enumerate([*sums, *keeps])})
        parts.append(
            Segment(
                function=function_of(eqns, takes, results, constants),
                takes=tuple(numbers[v] for v in takes),
                donates=_reusable(takes, results, {v for v in overwritable if last_use.get(v) == level}),
                sums=tuple(numbers[v] for v in sums),
                keeps=tuple(numbers[v] for v in keeps),
                lengths=tuple(math.prod(type_of(v).shape) for v in addends),
            )
        )
        overwritable.update(keeps)
    return parts, jax.tree.structure(shapes)


def _reusable(takes: Sequence[Atom], results: Sequence[Atom], overwritable: set[jex.Var]) -> tuple[int, ...]:
    """Return the positions of the arguments whose memory a result can take over."""
    wanted = Counter((type_of(v).shape, type_of(v).dtype) for v in results)
    places = []
    for place, v in enumerate(takes):
        kind = type_of(v).shape, type_of(v).dtype
        if v in overwritable and wanted[kind]:
            wanted[kind] -= 1
            places.append(place)
    return tuple(places)
