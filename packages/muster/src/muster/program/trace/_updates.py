"""TensorFlow 1's deferred updates: part of the step only if the model_fn runs them."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from muster.program.gradients._optimize import HeldStep
from muster.program.trace._program import ProgramScope
from muster.program.variables._held_updates import HeldUpdate, run_updates
from muster.program.variables._variable_scope import active_scope, current_scope


def updates_held_back() -> contextlib.AbstractContextManager[None]:
    """Hold back what is assigned in a ``with`` block of a model_fn; elsewhere, do nothing."""
    scope = current_scope()
    return scope.assignments.holding() if isinstance(scope, ProgramScope) else contextlib.nullcontext()


def held_updates() -> Sequence[HeldUpdate]:
    """Return the updates that the model_fn being traced has held back so far; none elsewhere."""
    scope = current_scope()
    return [] if scope is None else list(scope.assignments.held)


def run_held_updates() -> None:
    """Run all updates that were held back so far."""
    run_updates(held_updates())


def left_out() -> Sequence[HeldUpdate]:
    """Return the updates that the code has not run, if it is being recorded: so once of several calls."""
    scope = current_scope()
    if not isinstance(scope, ProgramScope) or not scope.records:
        return []
    return [each for each in scope.assignments.held if not each.has_run]


@contextlib.contextmanager
def steps_held_back() -> Iterator[Callable[[Any], Sequence[HeldStep]]]:
    """Hold back steps of optimizers that code in a ``with`` block asks for, but for those that it runs.

    Gives a function that runs those among what the code returns, and all if the code has run none at all, and
    returns the others.
    """
    scope = active_scope("steps_held_back")
    steps: list[HeldStep] = []
    scope.steps = steps

    def settle(returned: Any) -> Sequence[HeldStep]:
        run_updates([returned])
        if not any(each.has_run for each in steps):
            run_updates(steps)
        return [each for each in steps if not each.has_run]

    try:
        yield settle
    finally:
        scope.steps = None
