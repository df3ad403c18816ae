"""Hold updates of variables until the code of a step runs them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import jax


class HeldOperation(ABC):
    """An operation that waits to become part of a step until the step's code runs it."""

    has_run: bool

    @abstractmethod
    def run(self) -> None:
        """Make it part of the step, once."""


class HeldUpdate(HeldOperation):
    """An assignment to a variable that waits until the code of the step runs it.

    Args:
        variable: The variable, such as a moving average.
        value: Its new value.
        assign: Called with both to run it.

    Attributes:
        variable: As given.
        has_run: Whether it is part of the step.
    """

    def __init__(self, variable: Any, value: jax.Array, assign: Callable[[Any, jax.Array], None]) -> None:
        self.variable = variable
        self.has_run = False
        self._value = value
        self._assign = assign

    @property
    def name(self) -> str:
        """The name of the operation, as TensorFlow 1 has it."""
        return f"{self.variable.path}/AssignMovingAvg"

    def run(self) -> None:
        """Assign the value, once."""
        if not self.has_run:
            self.has_run = True
            self._assign(self.variable, self._value)


def run_updates(operations: Iterable[Any]) -> None:
    """Run the updates, and the steps of optimizers, among some operations that are held back."""
    for each in operations:
        if isinstance(each, HeldOperation):
            each.run()
