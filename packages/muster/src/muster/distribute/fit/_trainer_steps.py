"""The steps of a trainer: makes the functions that Keras calls for the steps of each method."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from muster._errors import TraceError
from muster._user_code import no_stop_iteration
from muster.cluster.roster import TaskState
from muster.distribute.engine._split import unwrapped
from muster.distribute.engine._traced import Executables, Step, Traced, View
from muster.distribute.fit._agreement import Agreement
from muster.distribute.fit._fit_callbacks import Report
from muster.distribute.fit._fit_step import CountedSteps, KerasFunction, is_gone
from muster.distribute.fit._keras_loop import KerasLoop
from muster.distribute.fit._model_state import ModelState
from muster.distribute.fit._own_steps import OwnSteps
from muster.distribute.fit._stateful_step import FUNCTIONS, PREDICTS, TESTS, TRAINS, compiled_by_lengths
from muster.distribute.fit._trainer_callbacks import TrainerCallbacks
from muster.distribute.fit._trainer_input import TrainerInput
from muster.distribute.strategies._strategy import Strategy
from muster.distribute.workers import ElasticWorkers
from muster.lifecycle import INTERRUPTS, PREEMPTION
from muster.program import only_data_errors
from muster.program.passes import with_table_updates
from muster.program.variables import patched_keras
from muster.program.variables.keras_internals import slice_fast, value_of

_STATES = {TRAINS: TaskState.TRAINING, TESTS: TaskState.EVALUATING, PREDICTS: TaskState.EVALUATING}

# The hooks by which a progress bar is told of steps that are taken in one call of Keras'.
_TELLS = {TRAINS: "on_train_batch_end", TESTS: "on_test_batch_end"}


class TrainerSteps:
    """Takes a model's steps, compiled for all devices in the global view.

    Args:
        model: The model.
        strategy: The strategy that runs it.
        agreement: The agreement of the workers.
        own: The steps that the model defines itself.
        state: The variables of its steps.
        batches: What steps draw from.
        callbacks: Whom Keras tells of steps.
        report: Reports the progress of this task; None if there are no other tasks.

    Attributes:
        counted: Counts the steps, where workers come and go.
    """

    def __init__(
        self,
        model: Any,
        strategy: Strategy,
        agreement: Agreement,
        own: OwnSteps,
        state: ModelState,
        batches: TrainerInput,
        callbacks: TrainerCallbacks,
        report: Report | None,
    ) -> None:
        self._model = model
        self._strategy = strategy
        self._agreement = agreement
        self._own = own
        self._state = state
        self._batches = batches
        self._callbacks = callbacks
        self._report = report
        workers = strategy.workers
        self.counted = CountedSteps(workers if isinstance(workers, ElasticWorkers) else None)
        self._executables: Executables = {}
        self._epochs: Any = None
        self._loops: dict[str, KerasLoop] = {}

    def attach(self) -> None:
        """Let Keras call what is made here."""
        model = self._model
        for name, attribute in FUNCTIONS.items():
            setattr(model, attribute, None)  # what Keras made before, for arrays, does not fit
            setattr(model, f"make_{attribute}", functools.partial(self.make, name))
        model.jax_state_sync = self.sync

    def build(self, keras_build: Callable[..., None], iterator: Any = None, data_batch: Any = None) -> None:
        """Build the model, where Keras does so before the steps of an iterator's batches, or of a batch."""
        self._epochs = iterator
        if iterator is not None:
            slice_fast(iterator)
        self._own.build(keras_build, iterator, data_batch)

    def make(self, name: str, force: bool = False) -> None:
        """Make the function that Keras calls for steps of a method, unless there is one."""
        self._callbacks.attach()
        callbacks = self._callbacks.at_epochs
        model, own, agreement = self._model, self._own.step(name), self._agreement
        # Only compiled programs reduce over processes, so layers without jit_compile are compiled, too.
        compiles = model.jit_compile or own is not None or not agreement.single
        jit = not model.run_eagerly and compiles
        self._loops.pop(name, None)
        if jit and name in _TELLS and self._epochs is not None and callbacks is not None:
            self._loops[name] = KerasLoop(model, self._epochs, callbacks, _TELLS[name])
        if getattr(model, FUNCTIONS[name]) is not None and not force:
            return
        if model.run_eagerly and not agreement.single:
            raise ValueError(
                f"run_eagerly=True debugs one process; {self._strategy} has several. Leave it out, or the "
                "strategy."
            )
        eager = functools.partial(self._eager_step, name)
        function = KerasFunction(
            functools.partial(self._state.of, name),
            functools.partial(self._batches.next, name),
            self._compiled(name) if jit else lambda state, reads, batch: eager(state, unwrapped(batch)),
            functools.partial(self._state.placed, name),
            self._strategy.placement,
            model.steps_per_execution,
            functools.partial(self._report.after_step, _STATES[name]) if self._report is not None else None,
            functools.partial(self.explain, name),
            INTERRUPTS if jit and agreement.single else PREEMPTION,
            concatenates=name == PREDICTS,
            others=functools.partial(self._own.others, name),
            loop=functools.partial(self._loops.get, name),
            again=functools.partial(self._batches.take_again, name) if agreement.elastic else None,
            counted=self.counted,
        )
        setattr(model, FUNCTIONS[name], function)

    def sync(self) -> None:
        """Give the variables what steps have made of them, as Keras does before anybody reads them."""
        for function in self._functions():
            function.check()
            function.catch_up()
        type(self._model).jax_state_sync(self._model)
        for function in self._functions():
            function.give_others()

    def take(self, name: str, state: Any, batch: Any) -> tuple[Any, Any]:
        """Take the step of a method, the model's own or Keras': return the new state and the results."""
        own = self._own.step(name)
        if own is not None:
            return own(state, batch)
        if name == PREDICTS:
            outputs, rest = self._model.predict_step(state, batch)
            return (state[0], rest), outputs
        step = self._model.train_step if name == TRAINS else self._model.test_step
        logs, state = step(state, batch)
        return state, logs

    def explain(self, name: str, state: Any, batch: Any) -> None:
        """Raise the error for which a step of a method returned NaN, if it has one when it is run eagerly.

        Args:
            name: The method.
            state: What has the shapes and dtypes of the state.
            batch: The worker batch.
        """
        own = self._own.step(name)
        if own is not None:
            own.explain(batch)
            return
        zeros = jax.tree.map(lambda value: jnp.zeros(value.shape, value.dtype), state)
        with only_data_errors(), patched_keras():
            self.take(name, zeros, unwrapped(batch))

    def give_back(self, name: str) -> None:
        """Let the model keep what it has learned when a call of its methods fails."""
        model = self._model
        known = [(each, each.value) for each in self._state.variables() if not is_gone(each)]
        type(model).jax_state_sync(model)  # drops Keras' copy of the state, which may be outdated
        for variable, value in known:
            if variable.value is not value:
                variable.assign(value)
        for function in self._functions():
            failed = function.give_back()
            if failed and name == TRAINS and function is model.train_function:
                model.optimizer.finalize_variable_values(model.trainable_weights)  # Keras did it too early

    @contextlib.contextmanager
    def one_batch(self, name: str) -> Iterator[None]:
        """Let a single step of a method be taken, outside of the loop that may be running."""
        loop = self._loops.get(name)
        with self._batches.one_batch(name):
            try:
                yield
            finally:
                if loop is not None:
                    self._loops[name] = loop

    def leave(self) -> None:
        """Let go of what belongs to the outermost call, at its end."""
        self._epochs = None
        self._loops.clear()
        for function in self._functions():
            function.forget()

    def _eager_step(self, name: str, state: Any, batch: Any) -> tuple[Any, Any]:
        """Take the step of a method on numbers."""
        own = self._own.step(name)
        if own is None:
            return self.take(name, state, batch)
        results = own.eagerly(state, batch)
        return tuple(list(map(value_of, group)) for group in self._state.groups(name)), results

    def _compiled(self, name: str) -> Step:
        def step(state: Any, batch: Any) -> tuple[Any, Any]:
            returned: tuple[Any, Any] = jax.tree.map(jnp.asarray, self.take(name, state, batch))
            return returned

        def run(state: Any, reads: Any, batch: Any, replicas: Any) -> tuple[Any, Any]:
            with no_stop_iteration("A step of the model", TraceError), patched_keras():
                return with_table_updates(step, state, batch) if name == TRAINS else step(state, batch)

        def compiled() -> Step:
            return self._strategy.engine.compile(Traced(run=run, view=View.GLOBAL), self._executables)

        return compiled() if self._own.step(name) is None else compiled_by_lengths(compiled)

    def _functions(self) -> list[KerasFunction]:
        """Return the functions that were made for Keras so far."""
        made = (getattr(self._model, attribute) for attribute in FUNCTIONS.values())
        return [function for function in made if function is not None]
