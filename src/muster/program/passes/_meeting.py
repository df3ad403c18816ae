"""A step in parts: what is computed before its replicas' values meet, and what afterwards.

Between processes on CPUs, values are added outside of the compiled program. There a step has a marker
wherever values meet. ``parts_of`` cuts the finished jaxpr at the markers: each part is compiled by itself,
and in between the host adds what one part hands over and gives the sums to the next.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core as jex
from jax.interpreters import ad

from muster._errors import TraceError
from muster.program.passes._jaxprs import body_contains, function_of, inputs_of, levels_of, variables_of

Array = Any

_meet_p = jex.Primitive("muster_meet")
_meet_p.def_abstract_eval(lambda value: value)
ad.deflinear2(_meet_p, lambda cotangent, value: [meet(cotangent)])


def meet(value: Array) -> Array:
    """The sum of a value over all processes: a marker that ``parts_of`` cuts at.

    Args:
        value: flat, of the same length and dtype in all processes.
    """
    return _meet_p.bind(value)


@dataclass(frozen=True)
class Part:
    """A part of a step. The values of a step are numbered; its flat arguments come first.

    Attributes:
        function: from arrays to arrays; of the last part, to the flat results of the step.
        takes: the numbers of its arguments.
        donates: which of its arguments may be overwritten, by their place.
        sums: the numbers of the sums over all processes of the first of its results.
        keeps: the numbers of its other results; of the last part, none.
    """

    function: Callable[..., list[Array]]
    takes: tuple[int, ...]
    donates: tuple[int, ...]
    sums: tuple[int, ...]
    keeps: tuple[int, ...]


def parts_of(
    function: Callable[..., Any], *args: Any, donated: int
) -> tuple[list[Part], jax.tree_util.PyTreeDef]:
    """Cut a step where its replicas' values meet.

    Args:
        function: the step; it calls ``meet``.
        args: arrays or ``jax.ShapeDtypeStruct`` s, in nested structures.
        donated: how many of the flat arguments, from the first on, may be overwritten.

    Returns:
        The parts in order, and the structure of the results.

    Raises:
        TraceError: Values meet inside of a loop or a branch, where a step cannot be cut.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
    jaxpr = closed.jaxpr
    inside = next((eqn.primitive.name for eqn in jaxpr.eqns if body_contains(eqn, _meet_p)), None)
    if inside is not None:
        raise TraceError(
            f"Values of the replicas meet inside of a {inside}, where the step of a worker on CPU cannot be "
            "cut. Let gradients and metrics meet outside of loops and branches."
        )
    constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    computed, met = levels_of(jaxpr.eqns, _meet_p)
    wanted = [inputs_of([*before, *markers]) for before, markers in zip(computed, met, strict=True)]
    wanted[-1] += variables_of(jaxpr.outvars)
    last_use = {v: level for level, variables in enumerate(wanted) for v in variables}

    numbers = {v: number for number, v in enumerate(jaxpr.invars)}
    overwritable = set(jaxpr.invars[:donated])
    parts = []
    for level, eqns in enumerate(computed):
        made = dict.fromkeys(v for eqn in eqns for v in eqn.outvars)
        takes = [v for v in dict.fromkeys(wanted[level]) if v not in made and v not in constants]
        sums = [eqn.outvars[0] for eqn in met[level]]
        handed_over = [eqn.invars[0] for eqn in met[level]]
        keeps = [v for v in made if last_use.get(v, -1) > level]
        results = [*handed_over, *keeps] if level < len(computed) - 1 else jaxpr.outvars
        numbers.update({v: len(numbers) + i for i, v in enumerate([*sums, *keeps])})
        parts.append(
            Part(
                function=function_of(eqns, takes, results, constants),
                takes=tuple(numbers[v] for v in takes),
                donates=_reusable(takes, results, {v for v in overwritable if last_use.get(v) == level}),
                sums=tuple(numbers[v] for v in sums),
                keeps=tuple(numbers[v] for v in keeps),
            )
        )
        overwritable.update(keeps)
    return parts, jax.tree.structure(shapes)


def _reusable(takes: Sequence[Any], results: Sequence[Any], overwritable: set[Any]) -> tuple[int, ...]:
    """The places of the arguments whose memory a result can take over."""
    wanted = Counter((v.aval.shape, v.aval.dtype) for v in results)
    places = []
    for place, v in enumerate(takes):
        kind = v.aval.shape, v.aval.dtype
        if v in overwritable and wanted[kind]:
            wanted[kind] -= 1
            places.append(place)
    return tuple(places)
