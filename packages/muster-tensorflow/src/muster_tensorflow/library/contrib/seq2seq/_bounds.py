"""Compute bounds of traced values, to choose static sizes such as the largest length in a batch.

It follows the operations that have computed the value, as far as the bounds of their results follow from
those of their arguments. What is used of JAX here is private; ``tests/v1/test_bounds.py`` fails when it
changes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax._src.interpreters.partial_eval import DynamicJaxprTracer


class Bounds(NamedTuple):
    """The smallest and the largest number that a value may have; infinite where that is not known."""

    low: float
    high: float


_Rule: TypeAlias = Callable[[Any, Any, Sequence[Bounds]], list[Bounds]]
_UNKNOWN = Bounds(-math.inf, math.inf)
# Longer computations are of a model, and not of sizes.
_MOST_STEPS = 100


def bounds_of(value: Any) -> Bounds:
    """Return between which numbers all elements of an array lie, maybe a traced one."""
    return _of(value, _MOST_STEPS)


def _of(value: Any, steps: int) -> Bounds:
    if not isinstance(value, jax.core.Tracer):
        array = np.asarray(value)
        return Bounds(float(array.min()), float(array.max())) if array.size else _UNKNOWN
    if not isinstance(value, DynamicJaxprTracer) or steps == 0:
        return _of_dtype(value.aval)
    step: Any = value.parent
    if step is None:
        lowered = value.full_lower()
        return _of_dtype(value.aval) if lowered is value else _of(lowered, steps - 1)
    if step.primitive.name not in _RULES:
        return _of_dtype(value.aval)
    place = next((at for at, each in enumerate(step.outvars) if each is value.val), 0)
    given = [_of(each, steps - 1) for each in step.in_tracers]
    avals = [jax.typeof(each) for each in step.in_tracers]
    return _results(step.primitive.name, step.params, avals, given, [value.aval] * (place + 1))[place]


def _results(
    name: str, params: Mapping[str, Any], avals: Sequence[Any], given: Sequence[Bounds], made: Sequence[Any]
) -> list[Bounds]:
    """Return the bounds of an operation's results: no more than what their dtypes hold.

    Args:
        name: The operation.
        params: Its parameters.
        avals: The types of its arguments.
        given: The bounds of its arguments.
        made: The types of its results.
    """
    rule = _RULES.get(name)
    found = [_UNKNOWN] * len(made) if rule is None else rule(params, avals, given)
    return [_both(each, _of_dtype(aval)) for each, aval in zip(found, made, strict=False)]


def _of_dtype(aval: Any) -> Bounds:
    dtype = np.dtype(aval.dtype)
    if dtype.kind == "b":
        return Bounds(0, 1)
    if dtype.kind in "iu" and dtype.itemsize < 4:
        return Bounds(float(np.iinfo(dtype).min), float(np.iinfo(dtype).max))
    return _UNKNOWN


def _both(one: Bounds, other: Bounds) -> Bounds:
    return Bounds(max(one.low, other.low), min(one.high, other.high))


def _either(*bounds: Bounds) -> Bounds:
    return Bounds(min(each.low for each in bounds), max(each.high for each in bounds))


def _corners(operation: Callable[[float, float], float]) -> _Rule:
    """Return the rule of an operation whose extremes are at those of its two arguments."""

    def rule(params: Any, avals: Any, given: Sequence[Bounds]) -> list[Bounds]:
        found = [operation(one, other) for one in given[0] for other in given[1]]
        return [_UNKNOWN if any(map(math.isnan, found)) else Bounds(min(found), max(found))]

    return rule


def _times(one: float, other: float) -> float:
    return 0.0 if 0 in (one, other) else one * other


def _divide(params: Any, avals: Any, given: Sequence[Bounds]) -> list[Bounds]:
    if given[1].low <= 0:
        return [_UNKNOWN]
    return _corners(lambda one, other: one / other)(params, avals, given)


def _sum(params: Any, avals: Any, given: Sequence[Bounds]) -> list[Bounds]:
    count = math.prod(avals[0].shape[axis] for axis in params["axes"])
    return [Bounds(_times(given[0].low, count), _times(given[0].high, count))]


def _cumulative(params: Any, avals: Any, given: Sequence[Bounds]) -> list[Bounds]:
    (bounds,), count = given, avals[0].shape[params["axis"]]
    return [Bounds(min(bounds.low, bounds.low * count), max(bounds.high, bounds.high * count))]


def _place(params: Any, avals: Any, given: Sequence[Bounds]) -> list[Bounds]:
    return [Bounds(0, max(math.prod(avals[0].shape[axis] for axis in params["axes"]) - 1, 0))]


def _clamp(params: Any, avals: Any, given: Sequence[Bounds]) -> list[Bounds]:
    low, value, high = given
    return [Bounds(min(max(value.low, low.low), high.low), min(max(value.high, low.high), high.high))]


def _inner(params: Any, avals: Any, given: Sequence[Bounds]) -> list[Bounds]:
    """Return the bounds of what a function within the traced one returns."""
    closed = params["jaxpr"]
    known = dict(zip(closed.jaxpr.constvars, map(bounds_of, closed.consts), strict=True))
    known |= dict(zip(closed.jaxpr.invars, given, strict=True))

    def of(each: Any) -> Bounds:
        return bounds_of(each.val) if hasattr(each, "val") else known[each]

    for eqn in closed.jaxpr.eqns:
        types = [each.aval for each in eqn.invars]
        results = _results(
            eqn.primitive.name,
            eqn.params,
            types,
            [of(each) for each in eqn.invars],
            [each.aval for each in eqn.outvars],
        )
        known |= dict(zip(eqn.outvars, results, strict=True))
    return [of(each) for each in closed.jaxpr.outvars]


_AS_FIRST = (
    *("broadcast_in_dim", "ceil", "convert_element_type", "copy", "cummax", "cummin", "floor"),
    *(
        "reduce_max",
        "reduce_min",
        "reshape",
        "rev",
        "round",
        "slice",
        "squeeze",
        "stop_gradient",
        "transpose",
    ),
)
_RULES: dict[str, _Rule] = {
    **{name: lambda params, avals, given: [given[0]] for name in _AS_FIRST},
    "add": lambda params, avals, given: [Bounds(given[0].low + given[1].low, given[0].high + given[1].high)],
    "argmax": _place,
    "argmin": _place,
    "clamp": _clamp,
    "concatenate": lambda params, avals, given: [_either(*given)],
    "cumsum": _cumulative,
    "div": _divide,
    "iota": lambda params, avals, given: [Bounds(0, max(params["shape"][params["dimension"]] - 1, 0))],
    "jit": _inner,
    "max": _corners(max),
    "min": _corners(min),
    "mul": _corners(_times),
    "neg": lambda params, avals, given: [Bounds(-given[0].high, -given[0].low)],
    "pad": lambda params, avals, given: [_either(*given)],
    "pjit": _inner,
    "reduce_sum": _sum,
    "select_n": lambda params, avals, given: [_either(*given[1:])],
    "sub": lambda params, avals, given: [Bounds(given[0].low - given[1].high, given[0].high - given[1].low)],
}
