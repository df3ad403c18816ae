"""The state of a model's steps: which variables it has, and where their values are between calls."""

import contextlib
from typing import Any

import jax

from muster.distribute.fit._fit_step import is_gone
from muster.distribute.fit._own_steps import OwnSteps
from muster.distribute.fit._stateful_step import FUNCTIONS, groups_passed, variables_passed
from muster.distribute.strategies._strategy import Strategy
from muster.program.variables import unshared_values
from muster.program.variables.keras_internals import forget_state, search_no_state, set_values


class ModelState:
    """Gives steps the values of a model's variables, and the variables theirs again.

    Args:
        model: A Keras model.
        strategy: The strategy that runs it.
        own: Knows the variables that Keras does not pass.
    """

    def __init__(self, model: Any, strategy: Strategy, own: OwnSteps) -> None:
        self._model = model
        self._strategy = strategy
        self._own = own
        self._shares_all = False

    def attach(self) -> None:
        """Let Keras find the model's variables faster."""
        search_no_state(self._model)

    def compiling(self) -> contextlib.AbstractContextManager[None]:
        """Return the context in which Keras compiles the model."""
        return contextlib.nullcontext()

    def groups(self, name: str) -> list[list[Any]]:
        """Return the variables that Keras passes for a method's steps, in its lists."""
        return groups_passed(self._model, name)

    def of(self, name: str) -> list[Any]:
        """Return the variables of a method's steps: those that Keras passes, in its order, and others."""
        return [*variables_passed(self._model, name), *self._own.others(name)]

    def variables(self) -> list[Any]:
        """Return all variables of the model, its optimizer and its metrics."""
        optimizer = getattr(self._model, "optimizer", None)  # a model may predict without being compiled
        optimized = [] if optimizer is None else optimizer.variables
        others = [variable for name in FUNCTIONS for variable in self._own.others(name)]
        return [*self._model.variables, *optimized, *self._model.metrics_variables, *others]

    def placed(self, name: str, state: Any) -> Any:
        """Move state that Keras has read from its variables, and that of others, to where a step takes it."""
        placement = self._strategy.placement
        if others := self._own.others(name):
            state = (*state[:-1], [*state[-1], *unshared_values(others)])
        values, structure = jax.tree.flatten(state)
        if self._shares_all:
            values = placement.start(values)
            self._shares_all = False
        values = placement.start_new(self.of(name), values)
        return jax.tree.unflatten(structure, [placement.put(value) for value in values])

    def share_all(self) -> None:
        """Let all workers take the chief's values of all variables before the next step."""
        self._shares_all = True

    def unshare(self) -> None:
        """Copy values that others hold as well: Keras gives the variables' values away to be overwritten."""
        variables = [*{id(variable): variable for variable in self.variables()}.values()]
        set_values(variables, unshared_values(variables))

    def leave(self) -> None:
        """Leave local values to each process, which it may change freely, after the outermost call."""
        forget_state(self._model)
        if self._strategy.workers.size == 1:
            return
        for variable in self.variables():
            if not is_gone(variable) and not variable.value.is_fully_addressable:
                variable.assign(variable.value.addressable_data(0))
