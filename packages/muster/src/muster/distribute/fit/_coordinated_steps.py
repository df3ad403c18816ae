"""The steps of a model's ``fit``, ``evaluate`` and ``predict`` as functions that workers run."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster._errors import OutOfRangeError
from muster.data import GetNext
from muster.distribute.coordinator._cluster_coordinator import ClusterCoordinator
from muster.distribute.coordinator._remote_value import RemoteValue
from muster.distribute.fit._coordinated_input import drawable
from muster.distribute.fit._coordinated_results import PendingArray, Results
from muster.distribute.fit._fit_interrupts import INTERRUPTS
from muster.distribute.fit._fit_step import StepFunction
from muster.distribute.functions._function import Function
from muster.program.passes import mark_pushed
from muster.program.variables import storage_of

# Keras' names of steps, for messages.
_NAMES = {"fit": "train_step", "evaluate": "test_step", "predict": "predict_step"}
# How many calls of each worker may wait or run: one runs, and the others are there when it ends.
_AHEAD = 3


class CoordinatedStep:
    """A few of Keras' stateless steps, one after the other, as one function of variables.

    Takes a list of batches, or of iterators from which to draw them. Returns the results, and the worker's
    seeds after them. It does not keep the model alive, since a coordinator keeps this as long as the function
    exists, which the model has.

    Args:
        step: ``(method, state, batch) -> (state, results)``, of an object that the model has.
        state: Returns the variables of a method's state, in lists as Keras has their values; likewise.
        name: The method: fit, evaluate or predict.
        optimized: The numbers of the lists that an optimizer changes, by gradients.
        concatenates: Whether the results of the steps are concatenated, rather than the last returned.

    Attributes:
        results: The structure of the results, once this was traced.
    """

    def __init__(
        self,
        step: Callable[[str, Any, Any], tuple[Any, Any]],
        state: Callable[[str], list[list[Any]]],
        name: str,
        optimized: Sequence[int],
        *,
        concatenates: bool,
    ) -> None:
        self._step = weakref.WeakMethod(step)
        self._state = weakref.WeakMethod(state)
        self._name = name
        self.__name__ = _NAMES[name]
        self._optimized = optimized
        self._concatenates = concatenates
        self.results: Any = None

    def __call__(self, batches: Sequence[Any]) -> Any:
        take_step, state_of = self._step(), self._state()
        if take_step is None or state_of is None:
            raise RuntimeError("The model of this step is there no more.")
        variables = state_of(self._name)
        before = [[variable.value for variable in each] for each in variables]
        state: Any = tuple(before)
        made = []
        for each in batches:
            batch = next(each) if isinstance(each, GetNext) else each
            state, result = take_step(self._name, state, batch)
            made.append(result)
        for number, (group, old, new) in enumerate(zip(variables, before, state, strict=True)):
            # Servers add what the worker adds, and take what else it assigns.
            values = new if number in self._optimized else mark_pushed(list(new))
            for variable, first, value, last in zip(group, old, new, values, strict=True):
                if value is not first:
                    variable.assign(last)
        seeds = [variable.value for group in variables for variable in kept_by_workers(group)]
        self.results = jax.tree.structure(made[-1])
        if self._concatenates and len(made) > 1:
            return jax.tree.map(lambda *each: jnp.concatenate(each), *made), seeds
        return made[-1], seeds


def kept_by_workers(variables: Sequence[Any]) -> list[Any]:
    """Return the variables that are on no server: the seeds, of which each worker has its own."""
    return [variable for variable in variables if storage_of(variable) is None]


class CoordinatedFunction(StepFunction):
    """Has workers take the steps that Keras' trainer asks for, and returns before they have.

    Args:
        coordinator: Has the workers run them.
        step: What they run.
        draw: Returns the next batch from Keras' iterator, or an iterator of the workers'.
        steps_per_call: The number of steps in a call.
        workers: The number of workers.
        results: Takes what arrives.
        waits: Whether somebody looks at the results of every call, and needs some of the first one.
        trained: What tells the variables apart that the optimizer changes.
        others: Returns the variables of the state that Keras does not pass.
        ended: Called when a call finds that no worker has a batch left.

    Attributes:
        step: What workers run.
        trained: What tells the variables apart that the optimizer changes.
    """

    def __init__(
        self,
        coordinator: ClusterCoordinator,
        step: CoordinatedStep,
        draw: Callable[[Iterator[Any]], Any],
        steps_per_call: int,
        workers: int,
        results: Results,
        waits: Callable[[], bool],
        trained: Sequence[int],
        others: Callable[[], list[Any]],
        ended: Callable[[], None],
    ) -> None:
        super().__init__(steps_per_call, others)
        self.step = step
        self.trained = trained
        self._function = Function(step)
        self._coordinator = coordinator
        self._draw = draw
        self._limit = _AHEAD * workers
        self._results = results
        self._waits = waits
        self._ended = ended

    def __call__(self, state: Any, iterator: Iterator[Any]) -> tuple[Any, Any]:
        if self.skips(iterator):
            return self.skipped_logs, state
        drawn, error = self._drawn(iterator)
        batches = drawable(drawn)
        if not batches:
            raise StopIteration
        try:
            try:
                self._coordinator.closures.wait_for_room(self._limit)
            except OutOfRangeError as exc:  # no worker has a batch left
                self._ended()
                raise StopIteration from exc
            with INTERRUPTS:
                value = self._coordinator.schedule(self._function, args=(list(batches),))
                self._results.expect(value, batches)
            if error is not None:
                raise error
            return self._returned(value), state
        except KeyboardInterrupt:
            self._coordinator.closures.cancel()
            raise

    def _drawn(self, iterator: Iterator[Any]) -> tuple[list[Any], Exception | None]:
        """Draw the batches of a call; return those before an error with the error."""
        batches: list[Any] = []
        for _ in range(self.steps_per_call):
            try:
                batches.append(self._draw(iterator))
            except Exception as exc:
                if not batches:
                    raise
                return batches, None if isinstance(exc, StopIteration) else exc
        return batches, None

    def _returned(self, value: RemoteValue) -> Any:
        self._results.collect()
        if self._waits() and not self._results.logs:
            self._coordinator.closures.wait_for(value)
            self._results.collect()
        return self._results.logs


class CoordinatedPrediction(CoordinatedFunction):
    """Returns arrays that are there when somebody looks at them."""

    def _returned(self, value: RemoteValue) -> Any:
        self._results.collect()
        structure = self.step.results
        return structure.unflatten([PendingArray(value, n) for n in range(structure.num_leaves)])
