"""Evaluate traced values that depend on constants alone, such as the size of an array that a layer holds.

JAX traces operations on constants like all others, and has no public way to ask for their values. What is
used of JAX here is private, tried with JAX 0.10.2: a test of muster-tensorflow fails when it
changes.
"""

from typing import Any

import jax
from jax._src.core import eval_context
from jax._src.interpreters.partial_eval import DynamicJaxprTracer

from muster.data import replaced


def known_constants(arguments: Any) -> Any:
    """Return a structure with the values of those of its tracers that depend on no input of the trace.

    Returns:
        None if each tracer in it does.
    """
    values: list[Any] = []

    def valued(tracer: Any) -> Any:
        value = _value(tracer)
        if value is None:
            return tracer
        values.append(value)
        return value

    known = replaced(arguments, jax.core.Tracer, valued)
    return known if values else None


def _value(tracer: Any) -> Any:
    """Return the value of a tracer; None if an input is needed for it, or other traces than of a program."""
    steps = _steps(tracer)
    if steps is None:
        return None
    values: dict[int, Any] = {}
    for made, needed in steps:
        given = [values.get(id(each), each) for each in needed]
        try:
            values[id(made)] = given[0] if made.parent is None else _computed(made, given)
        except NotImplementedError:  # it stands for a variable's value, or a gradient
            return None
    return values[id(tracer)]


def _steps(tracer: Any) -> list[tuple[DynamicJaxprTracer, list[Any]]] | None:
    """Return which tracers and constants a tracer is made of, and those of them, in the order to compute."""
    steps: dict[int, tuple[DynamicJaxprTracer, list[Any]]] = {}
    missing = [tracer]
    while missing:
        last = missing[-1]
        if id(last) in steps:
            missing.pop()
            continue
        if not isinstance(last, DynamicJaxprTracer) or (last.parent is not None and last.parent.effects):
            return None
        # Without a step that makes it, it stands for a constant, or a tracer of the trace around this one.
        needed = [last.full_lower()] if last.parent is None else last.parent.in_tracers
        if any(each is last for each in needed):
            return None
        todo = [each for each in needed if isinstance(each, jax.core.Tracer) and id(each) not in steps]
        missing += todo
        if not todo:
            steps[id(last)] = last, needed
    return list(steps.values())


def _computed(tracer: DynamicJaxprTracer, values: list[Any]) -> Any:
    step: Any = tracer.parent
    with eval_context():
        results = step.primitive.bind(*values, **step.primitive.get_bind_params(step.params))
    if not step.primitive.multiple_results:
        return results
    return next(result for result, place in zip(results, step.outvars, strict=True) if place is tracer.val)
