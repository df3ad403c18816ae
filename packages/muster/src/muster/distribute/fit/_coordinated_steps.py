"""``fit``, ``evaluate`` and ``predict`` under a coordinator: workers compute, servers hold the variables.

Keras' trainer runs in the coordinator. Its steps are closures of Keras' own stateless steps: the coordinator
draws batches and sends them along, workers compute, and servers hold and update weights, the optimizer's
state and metrics. The train function returns before the step is taken, with the newest results that have
arrived. Before anybody looks at the model, all steps that were scheduled have ended.
"""

import functools
import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster._errors import OutOfRangeError
from muster.cluster.roster import TaskState
from muster.data import GetNext
from muster.distribute.coordinator._cluster_coordinator import ClusterCoordinator
from muster.distribute.coordinator._remote_value import RemoteValue
from muster.distribute.fit._coordinated_input import WorkerBatches, drawable, number_of_workers
from muster.distribute.fit._coordinated_results import PendingArray, Results
from muster.distribute.fit._fit_step import StepFunction
from muster.distribute.fit._stateful_step import FUNCTIONS, PREDICTS, STEPS, TRAINS
from muster.distribute.fit._trainer_steps import TrainerSteps
from muster.distribute.functions._function import Function
from muster.lifecycle import INTERRUPTS
from muster.program.passes import mark_pushed
from muster.program.variables import like_value_of, storage_of
from muster.program.variables.keras_internals import note_synced

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
        self.__name__ = STEPS[name]
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
        for number, each in enumerate(batches):
            batch = each
            if isinstance(each, GetNext) and number:  # the data of a worker may end among the steps of a call
                found = each.get_next_as_optional()
                if not found.has_value():
                    break
                batch = found.get_value()
            elif isinstance(each, GetNext):
                batch = next(each)
            state, result = take_step(self._name, state, batch)
            made.append(result)
        for place, (group, old, new) in enumerate(zip(variables, before, state, strict=True)):
            # Servers add what the worker adds, and take what else it assigns.
            values = new if place in self._optimized else mark_pushed(list(new))
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
        after: Called after each call with the number of steps that have ended since the last one, and the
            last results; None for nothing.

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
        after: Callable[[int, Any], None] | None,
    ) -> None:
        super().__init__(steps_per_call, others)
        self._after = after
        self._told = results.arrived
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
        self.tell()
        return self._results.logs

    def tell(self) -> None:
        """Tell of the steps that have ended."""
        new, self._told = self._results.arrived - self._told, self._results.arrived
        if self._after is not None:
            self._after(new * self.steps_per_call, self._results.logs)


class CoordinatedPrediction(CoordinatedFunction):
    """Returns arrays that are there when somebody looks at them."""

    def _returned(self, value: RemoteValue) -> Any:
        self._results.collect()
        structure = self.step.results
        return structure.unflatten([PendingArray(value, n) for n in range(structure.num_leaves)])


_log = logging.getLogger(__name__)


class CoordinatedSteps(TrainerSteps):
    """Has the workers of a ``ParameterServerStrategy`` take the steps of a model.

    Source: tensorflow/python/keras/engine/training.py, ``Model.fit`` and its ``_cluster_coordinator``.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._results = {name: Results(functools.partial(self._explain_batch, name)) for name in FUNCTIONS}

    def make(self, name: str, force: bool = False) -> None:
        self._callbacks.attach()
        model = self._model
        if model.run_eagerly:
            raise ValueError(
                f"run_eagerly=True debugs one process; under {self._strategy} workers run steps, and have "
                "none of this program's code. Leave it out, or the strategy."
            )
        trained = [id(variable) for variable in model.trainable_variables]
        made = getattr(model, FUNCTIONS[name])
        if made is not None and made.trained == trained and not force:
            return
        step = CoordinatedStep(
            self.take,
            self._state.groups,
            name,
            (0, 2) if name == TRAINS else (),
            concatenates=name == PREDICTS,
        )
        kind = CoordinatedPrediction if name == PREDICTS else CoordinatedFunction
        function = kind(
            ClusterCoordinator(self._strategy),
            step,
            functools.partial(self._batches.next, name),
            model.steps_per_execution,
            number_of_workers(self._strategy),
            self._results[name],
            lambda: self._callbacks.at_epochs is None,
            trained,
            functools.partial(self._own.others, name),
            self._end_pass,
            functools.partial(self._report.after_step, TaskState.TRAINING)
            if self._report is not None and name == TRAINS
            else None,
        )
        setattr(model, FUNCTIONS[name], function)

    def take(self, name: str, state: Any, batch: Any) -> tuple[Any, Any]:
        own = self._own.step(name)
        if own is not None:  # it changes the variables of the function that a worker runs
            return state, own.run(batch)
        return super().take(name, state, batch)

    def _explain_batch(self, name: str, batch: Any) -> None:
        """Raise the error for which a step returned NaN, if it has one when it is run here."""
        groups = self._state.groups(name)
        self.explain(name, tuple([like_value_of(variable) for variable in group] for group in groups), batch)

    def sync(self) -> None:
        """Wait until all steps have ended, as Keras does before anybody reads variables."""
        if any(results.begun for results in self._results.values()):
            try:
                ClusterCoordinator(self._strategy).join()
            except OutOfRangeError:
                self._end_pass()  # no worker has a batch left: steps beyond were not taken
            finally:
                self._end_results()
            if (trains := self._model.train_function) is not None:
                trains.tell()
            seeds = kept_by_workers(self._model.non_trainable_variables)
            for variable, value in zip(seeds, self._results[TRAINS].seeds, strict=False):
                variable.assign(value)  # to be saved: another coordinator gives it to its workers
        note_synced(self._model)

    def give_back(self, name: str) -> None:
        """Cancel what has not begun when a call fails, and wait for the rest."""
        if any(results.begun for results in self._results.values()):
            ClusterCoordinator(self._strategy).closures.cancel()
            self._end_results()

    def _end_pass(self) -> None:
        """Warn that the workers' data has ended before an epoch, as Keras does, and begin the next anew."""
        batches = self._batches.of(TRAINS)
        if isinstance(batches, WorkerBatches) and not batches.has_ended:
            batches.has_ended = True
            _log.warning(
                "The data of all workers ran out in an epoch, which ends with it; the next epoch begins a "
                "new pass. Let the dataset repeat, or give fewer steps_per_epoch."
            )

    def _end_results(self) -> None:
        for results in self._results.values():
            results.end()
