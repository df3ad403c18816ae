"""``fit``, ``evaluate`` and ``predict`` of Keras models that are built in a strategy's scope.

Keras' trainer runs, and calls a train function that is made here: it draws the batch that the workers share,
and runs Keras' ``train_step`` compiled for all devices in the global view. So the results are those of one
device, also with batch normalization, dropout and short last batches.
"""

import contextlib
import functools
import inspect
import itertools
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from muster._errors import TraceError
from muster._user_code import no_stop_iteration
from muster.cluster.roster import TaskState
from muster.data import UNKNOWN_CARDINALITY, Dataset
from muster.distribute.engine._split import Split, unwrapped
from muster.distribute.engine._traced import Executables, Step, Traced, View
from muster.distribute.fit._agreement import Agreement
from muster.distribute.fit._first_batch import SingleBatch
from muster.distribute.fit._fit_callbacks import Report
from muster.distribute.fit._fit_data import adapt
from muster.distribute.fit._fit_input import (
    DatasetBatches,
    FitInput,
    InputWait,
    KerasBatches,
    check_data,
)
from muster.distribute.fit._fit_step import CountedSteps, KerasFunction, is_gone
from muster.distribute.fit._keras_loop import KerasLoop
from muster.distribute.fit._own_steps import OwnSteps
from muster.distribute.fit._stateful_step import FUNCTIONS, compiled_by_lengths
from muster.distribute.fit._trainer_callbacks import TrainerCallbacks
from muster.distribute.input._dataset_creator import DatasetCreator
from muster.distribute.input._distributed_dataset import DistributedDataset
from muster.distribute.strategies._strategy import Strategy
from muster.distribute.workers import ElasticWorkers
from muster.lifecycle import INTERRUPTS
from muster.program import only_data_errors
from muster.program.passes import with_table_updates
from muster.program.variables import patched_keras, unshared_values
from muster.program.variables.keras_internals import (
    forget_state,
    replace_build,
    search_no_state,
    set_values,
    slice_fast,
    value_of,
)

TRAINS, TESTS, PREDICTS = "fit", "evaluate", "predict"

_STATES = {TRAINS: TaskState.TRAINING, TESTS: TaskState.EVALUATING, PREDICTS: TaskState.EVALUATING}

ON_BATCH = {"train_on_batch": TRAINS, "test_on_batch": TESTS, "predict_on_batch": PREDICTS}

# The hooks by which a progress bar is told of steps that are taken in one call of Keras'.
TELLS = {TRAINS: "on_train_batch_end", TESTS: "on_test_batch_end"}

# What has steps draw batches from datasets.
DATASETS = (Dataset, DistributedDataset, DatasetCreator)


class DistributedTrainer:
    """Runs a model's ``fit``, ``evaluate`` and ``predict`` on the devices of a strategy.

    The model was built in the strategy's scope.

    Args:
        model: A Keras model.
        strategy: The strategy.

    Attributes:
        strategy: The strategy.
        agreement: The agreement of the workers.
        wait: The time that steps of training wait for input.
        datasets: The types of what has steps draw batches from datasets.

    Source: tensorflow/python/keras/engine/training.py, ``Model.fit`` and its ``distribute_strategy``.
    """

    datasets: tuple[type, ...] = DATASETS

    def __init__(self, model: Any, strategy: Strategy) -> None:
        workers = strategy.workers
        self.agreement = Agreement(workers, model)
        self._split = Split(workers.share_of(strategy.local_replicas))
        self.wait = InputWait(workers.exchanged)
        self.strategy = strategy
        self._model = model
        reporter = workers.reporter
        self._report = None if reporter is None else Report(reporter, self.wait, workers.exchanged)
        self._counted = CountedSteps(workers if isinstance(workers, ElasticWorkers) else None)
        self._batches: dict[str, FitInput] = {}
        self._executables: Executables = {}
        self.own = OwnSteps(model, strategy, self._keras_state)
        self._running = self._shares_all = False
        self._callbacks = TrainerCallbacks(model, self.agreement, self._report, self._share_all)
        self._epochs: Any = None
        self._loops: dict[str, KerasLoop] = {}

    def attach(self) -> None:
        """Replace the model's methods by those of this trainer."""
        model = self._model
        for name in (*FUNCTIONS, *ON_BATCH):
            method = functools.partial(self._call, name)
            setattr(model, name, functools.wraps(getattr(type(model), name))(method))
        for name, attribute in FUNCTIONS.items():
            setattr(model, attribute, None)  # what Keras made before, for arrays, does not fit
            setattr(model, f"make_{attribute}", functools.partial(self._make_function, name))
        model.jax_state_sync = self._sync
        search_no_state(model)
        replace_build(model, self._build)
        self.own.attach()

    def compiling(self) -> contextlib.AbstractContextManager[None]:
        """Return the context in which Keras compiles the model."""
        return contextlib.nullcontext()

    def run(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run Keras' own ``fit``, ``evaluate`` or ``predict``, with data and callbacks for this strategy."""
        arguments = inspect.signature(method).bind(self._model, *args, **kwargs)
        name = method.__name__
        self._prepare_data(name, arguments.arguments)
        self.own.look_at(name, arguments.arguments)
        self._callbacks.prepare(arguments.arguments, self._batches[name], trains=name == TRAINS)
        with warnings.catch_warnings():
            batches = self._batches[name]
            ends = not isinstance(batches, KerasBatches) and (batches.ends_epochs or batches.says_end)
            if ends or not self.agreement.single:
                # The end of a pass is that of an epoch, or another worker has stopped: Keras cannot know.
                warnings.filterwarnings("ignore", message="Your input ran out of data")
            try:
                with no_stop_iteration("A step of the model", TraceError):
                    return method(*arguments.args, **arguments.kwargs)
            except BaseException:
                self._give_back(name)
                raise

    def _build(self, keras_build: Callable[..., None], iterator: Any = None, data_batch: Any = None) -> None:
        """Build the model, where Keras does so before the steps of an iterator's batches, or of a batch."""
        self._epochs = iterator
        if iterator is not None:
            slice_fast(iterator)
        self.own.build(keras_build, iterator, data_batch)

    def _make_function(self, name: str, force: bool = False) -> None:
        """Make the function that Keras calls for steps of a method, unless there is one."""
        self._callbacks.attach()
        callbacks = self._callbacks.at_epochs
        model, own = self._model, self.own.step(name)
        # Only compiled programs reduce over processes, so layers without jit_compile are compiled, too.
        compiles = model.jit_compile or own is not None or not self.agreement.single
        jit = not model.run_eagerly and compiles
        self._loops.pop(name, None)
        if jit and name in TELLS and self._epochs is not None and callbacks is not None:
            self._loops[name] = KerasLoop(model, self._epochs, callbacks, TELLS[name])
        if getattr(model, FUNCTIONS[name]) is not None and not force:
            return
        if model.run_eagerly and not self.agreement.single:
            raise ValueError(
                f"run_eagerly=True debugs one process; {self.strategy} has several. Leave it out, or the "
                "strategy."
            )
        eager = functools.partial(self._eager_step, name)
        function = KerasFunction(
            functools.partial(self._state, name),
            functools.partial(self._next, name),
            self._compiled(name) if jit else lambda state, reads, batch: eager(state, unwrapped(batch)),
            functools.partial(self._placed, name),
            self.strategy.placement,
            model.steps_per_execution,
            functools.partial(self._report.after_step, _STATES[name]) if self._report is not None else None,
            functools.partial(self._explain_step, name),
            INTERRUPTS if jit and self.agreement.single else contextlib.nullcontext(),
            concatenates=name == PREDICTS,
            others=functools.partial(self.own.others, name),
            loop=functools.partial(self._loops.get, name),
            again=functools.partial(self._take_again, name) if self.agreement.elastic else None,
            counted=self._counted,
        )
        setattr(model, FUNCTIONS[name], function)

    def _sync(self) -> None:
        """Give the variables what steps have made of them, as Keras does before anybody reads them."""
        for function in self._functions():
            function.check()
            function.catch_up()
        type(self._model).jax_state_sync(self._model)
        for function in self._functions():
            function.give_others()

    def _step(self, name: str, state: Any, batch: Any) -> tuple[Any, Any]:
        """Take the step of a method: the model's own, or Keras'."""
        own = self.own.step(name)
        if own is not None:
            return own(state, batch)
        if name == PREDICTS:
            outputs, rest = self._model.predict_step(state, batch)
            return (state[0], rest), outputs
        step = self._model.train_step if name == TRAINS else self._model.test_step
        logs, state = step(state, batch)
        return state, logs

    def _eager_step(self, name: str, state: Any, batch: Any) -> tuple[Any, Any]:
        """Take the step of a method on numbers."""
        own = self.own.step(name)
        if own is None:
            return self._step(name, state, batch)
        results = own.eagerly(state, batch)
        return tuple(list(map(value_of, group)) for group in self._groups(name)), results

    def _explain_step(self, name: str, state: Any, batch: Any) -> None:
        """Raise the error for which a step of a method returned NaN, if it has one when it is run eagerly."""
        own = self.own.step(name)
        if own is None:
            explain(functools.partial(self._step, name), state, batch)
        else:
            own.explain(batch)

    def _state(self, name: str) -> list[Any]:
        """Return the variables of the state of a method's steps: Keras', in its order, and others."""
        return [*self._keras_state(name), *self.own.others(name)]

    def _keras_state(self, name: str) -> list[Any]:
        """Return the variables of the state that Keras passes for a method's steps, in its order."""
        return list(itertools.chain(*self._groups(name)))

    def _groups(self, name: str) -> list[list[Any]]:
        """Return the variables of the state of a method's steps, in lists as Keras has them."""
        model = self._model
        groups = [model.trainable_variables, model.non_trainable_variables]
        if name == TRAINS:
            groups.append(model.optimizer.variables)
        if name != PREDICTS:
            groups.append(model.metrics_variables)
        return [list(group) for group in groups]

    def _compiled(self, name: str) -> Step:
        def step(state: Any, batch: Any) -> tuple[Any, Any]:
            returned: tuple[Any, Any] = jax.tree.map(jnp.asarray, self._step(name, state, batch))
            return returned

        def run(state: Any, reads: Any, batch: Any, replicas: Any) -> tuple[Any, Any]:
            with no_stop_iteration("A step of the model", TraceError), patched_keras():
                return with_table_updates(step, state, batch) if name == TRAINS else step(state, batch)

        def compiled() -> Step:
            return self.strategy.engine.compile(Traced(run=run, view=View.GLOBAL), self._executables)

        return compiled() if self.own.step(name) is None else compiled_by_lengths(compiled)

    def _next(self, name: str, iterator: Iterator[Any]) -> Any:
        with self.wait if name == TRAINS else contextlib.nullcontext():
            batches = self._batches[name]
            batches.catch_up(iterator)
            return next(batches)

    def _take_again(self, name: str) -> None:
        """Let a step that other workers have interrupted be made again."""
        self._batches[name].take_again()

    def _placed(self, name: str, state: Any) -> Any:
        """Move state that Keras has read from its variables, and that of others, to where a step takes it."""
        placement = self.strategy.placement
        if others := self.own.others(name):
            state = (*state[:-1], [*state[-1], *unshared_values(others)])
        values, structure = jax.tree.flatten(state)
        if self._shares_all:
            values = placement.start(values)
            self._shares_all = False
        values = placement.start_new(self._state(name), values)
        return jax.tree.unflatten(structure, [placement.put(value) for value in values])

    def _share_all(self) -> None:
        """Let all workers take the chief's values of all variables before the next step."""
        self._shares_all = True

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the model as its class has it, in the strategy's scope."""
        return self.call(
            name, functools.partial(getattr(type(self._model), name), self._model), *args, **kwargs
        )

    def call(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method of a name in the strategy's scope; calls inside of it join the outermost one."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.strategy.scope())
            if not self._running:
                if isinstance(self.strategy.workers, ElasticWorkers):
                    self.strategy.workers.require_member(name)
                stack.enter_context(self.strategy.workers.supervised(doing=ON_BATCH.get(name, name)))
                stack.callback(self._leave)
                stack.enter_context(INTERRUPTS.watched())
                self._running = True
                self.agreement.randomness()
                self._unshare()
            else:
                self.agreement.after_steps()
            stack.enter_context(self.own.running(ON_BATCH.get(name, name)))
            if name in ON_BATCH:
                stack.enter_context(self._one_batch(ON_BATCH[name]))
            if name == "predict_on_batch":
                self.own.look_at_batch(*args, **kwargs)
            try:
                return method(*args, **kwargs)
            except BaseException as error:
                self._give_back(name)
                if isinstance(error, KeyboardInterrupt):
                    # A notebook keeps the traceback, and so the state, which the next call would copy.
                    traceback.clear_frames(error.__traceback__)
                raise

    def _give_back(self, name: str) -> None:
        """Let the model keep what it has learned when a call of its methods fails."""
        model = self._model
        known = [(each, each.value) for each in self._variables() if not is_gone(each)]
        type(model).jax_state_sync(model)  # drops Keras' copy of the state, which may be outdated
        for variable, value in known:
            if variable.value is not value:
                variable.assign(value)
        for function in self._functions():
            failed = function.give_back()
            if failed and name == TRAINS and function is model.train_function:
                model.optimizer.finalize_variable_values(model.trainable_weights)  # Keras did it too early

    def _unshare(self) -> None:
        """Copy values that others hold as well: Keras gives the variables' values away to be overwritten."""
        variables = [*{id(variable): variable for variable in self._variables()}.values()]
        set_values(variables, unshared_values(variables))

    def _variables(self) -> list[Any]:
        """Return all variables of the model, its optimizer and its metrics."""
        optimizer = getattr(self._model, "optimizer", None)  # a model may predict without being compiled
        optimized = [] if optimizer is None else optimizer.variables
        others = [variable for name in FUNCTIONS for variable in self.own.others(name)]
        return [*self._model.variables, *optimized, *self._model.metrics_variables, *others]

    def _functions(self) -> list[KerasFunction]:
        """Return the functions that were made for Keras so far."""
        made = (getattr(self._model, attribute) for attribute in FUNCTIONS.values())
        return [function for function in made if function is not None]

    @contextlib.contextmanager
    def _one_batch(self, name: str) -> Iterator[None]:
        """Let steps take a single batch, for ``train_on_batch``; a callback may call it between others."""
        before, loop = self._batches.get(name), self._loops.get(name)
        kind = KerasBatches if self.own.step(name) is None else SingleBatch
        self._batches[name] = batches = kind(self.agreement, self._split)
        batches.method = name
        try:
            yield
        finally:
            if before is not None:
                self._batches[name] = before
            if loop is not None:
                self._loops[name] = loop

    def _leave(self) -> None:
        """End the outermost call, and leave local variables to each process, which it may change freely."""
        self._running = False
        self._epochs = None
        self._batches.clear()
        self._loops.clear()
        for function in self._functions():
            function.forget()
        forget_state(self._model)
        self._callbacks.close()
        if self.agreement.single:
            return
        for variable in self._variables():
            if not is_gone(variable) and not variable.value.is_fully_addressable:
                variable.assign(variable.value.addressable_data(0))

    def _prepare_data(self, name: str, arguments: dict[str, Any]) -> None:
        """Choose where steps draw batches, and replace datasets by objects that Keras knows."""
        adapt(arguments, self._model, self.datasets, method=name)
        self._read_text(name, arguments)
        x = arguments.get("x")
        per_epoch = arguments.get("steps_per_epoch" if name == TRAINS else "steps")
        if isinstance(x, self.datasets):
            arguments["batch_size"] = None  # Keras does not read it: the dataset has batches
            for other in ("y", "sample_weight"):
                if arguments.get(other) is not None:
                    raise ValueError(
                        f"With a Dataset as `x`, `{other}` should not be given, got {arguments[other]!r}: "
                        "the dataset yields batches of (inputs, targets, sample_weights)."
                    )
            weights = arguments.pop("class_weight", None)
            continues = name == TRAINS and per_epoch is not None
            arguments["x"] = x = self._dataset_batches(x, per_epoch, weights, continues=continues)
            if name == TRAINS:
                arguments["shuffle"] = False
        if isinstance(x, FitInput):
            self._batches[name] = x
        else:
            self._batches[name] = KerasBatches(self.agreement, self._split, per_epoch)
        self._batches[name].method = name
        given = x[0] if isinstance(x, FitInput) else (x, arguments.get("y"))
        check_data(self._model, given, trains_or_tests=name != PREDICTS)
        self._batches[name].begin()
        validation = arguments.get("validation_data")
        if isinstance(validation, self.datasets):
            steps = arguments.get("validation_steps")
            arguments["validation_data"] = self._dataset_batches(validation, steps)

    def _read_text(self, name: str, arguments: dict[str, Any]) -> None:
        """Let the host compute what steps need of text: see `OwnSteps.read_text`."""
        x, held_out = arguments.get("x"), arguments.get("validation_data")
        if not isinstance(x, FitInput):
            labels = [arguments.get(each) for each in ("y", "sample_weight")]
            arguments["x"] = self.own.read_text(name, x, labels)
        if isinstance(held_out, tuple | list):
            read = self.own.read_text(TESTS, held_out[0], held_out[1:])
            arguments["validation_data"] = (read, *held_out[1:])
        elif held_out is not None:
            arguments["validation_data"] = self.own.read_text(TESTS, held_out)

    def _dataset_batches(
        self,
        dataset: Any,
        per_epoch: int | None,
        class_weight: dict[int, float] | None = None,
        *,
        continues: bool = False,
    ) -> FitInput:
        count = None
        if isinstance(dataset, DatasetCreator):
            dataset.check_steps(per_epoch)
            dataset = self.strategy.distribute_datasets_from_function(dataset, dataset.input_options)
        elif isinstance(dataset, Dataset):
            cardinality = int(dataset.cardinality())
            count = None if cardinality == UNKNOWN_CARDINALITY else cardinality
            dataset = self.strategy.experimental_distribute_dataset(dataset)
        return DatasetBatches(
            self.agreement,
            dataset,
            per_epoch,
            class_weight,
            count=count,
            continues=continues,
            split=self._split,
        )


def explain(step: Callable[[Any, Any], Any], state: Any, batch: Any) -> None:
    """Raise the error for which a step returned NaN, if it has one when it is run eagerly.

    Args:
        step: ``(state, batch) -> (state, results)``.
        state: What has the shapes and dtypes of the state.
        batch: The worker batch.
    """
    zeros = jax.tree.map(lambda value: jnp.zeros(value.shape, value.dtype), state)
    with only_data_errors(), patched_keras():
        step(zeros, unwrapped(batch))
