"""Trace code that may not run, such as one branch of a conditional on a traced value."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import jax

from muster.program.variables._assignments import Branch
from muster.program.variables._variable_scope import ACTIVE, VariableScope
from muster.program.variables.keras_internals import without_scope


@contextmanager
def branch(scope: VariableScope) -> Iterator[Branch]:
    """Trace one of several ways through the code in a ``with`` block, which leaves the variables as they are.

    Args:
        scope: The scope of the step that is traced.

    Yields:
        The way, with what it assigns to variables at the end of the block.
    """
    bindings, assignments = scope.bindings, scope.assignments
    before = dict(bindings.values)
    try:
        with assignments.on_branch() as made:
            yield made
            before = {**scope.values_of_new(), **before}  # what code creates on one way is there on all
            for _, variable in bindings.table.pairs:
                value = bindings.values.get(id(variable))
                if value is not None and value is not before.get(id(variable)):
                    made.assigned[id(variable)] = variable, value
            made.diverged.update(key for key in made.assigned if assignments.diverged.has(key))
    finally:
        bindings.restore(before)


def assign_chosen(scope: VariableScope, variable: Any, value: jax.Array, branches: Iterable[Branch]) -> None:
    """Assign the value that a variable has after one of several ways through the code.

    Args:
        scope: The scope of the step that is traced.
        variable: The variable.
        value: The value that was chosen: what one of the ways has assigned, or the value before.
        branches: The ways.
    """
    key, ways = id(variable), list(branches)
    if any(key in each.unreduced for each in ways):
        if any(each.unreduced.get(key) for each in ways):
            variable.assign_add(value - scope.get_current_value(variable))
        else:
            variable.assign(value)
        return
    scope.bindings.values.setdefault(key, scope.get_current_value(variable))
    is_same = not any(key in each.diverged for each in ways)
    with scope.assignments.in_sync() if is_same else nullcontext():
        scope.assignments.assign(variable, value)


@contextmanager
def outside_of_step() -> Iterator[None]:
    """Run code outside of the step that is traced: it uses variables as eager code does."""
    token = ACTIVE.set(None)
    try:
        with without_scope():
            yield
    finally:
        ACTIVE.reset(token)


@contextmanager
def standing_in(scope: VariableScope, values: Iterable[tuple[Any, jax.Array]]) -> Iterator[None]:
    """Give variables other values in a ``with`` block; what is assigned to them meanwhile is lost.

    Args:
        scope: The scope of the step that is traced.
        values: Variables, each with a value of its shape.
    """
    pairs = list(values)
    before = {id(variable): scope.get_current_value(variable) for variable, _ in pairs}
    try:
        scope.bindings.change((id(variable), value) for variable, value in pairs)
        yield
    finally:
        scope.bindings.change(before)
