"""``fit``, ``evaluate`` and ``predict`` of Keras models that are built in a strategy's scope.

Keras' own trainer runs. What it calls a train function is made here: it draws the batch that the workers
share, and runs Keras' own ``train_step`` compiled for all devices, which see the whole batch as one. So
training is that of one device, batch normalization, dropout and last batches too.
"""

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from muster._keras import keras
from muster.data import Dataset
from muster.distribute._compiled import Executables, Step
from muster.distribute._distributed_dataset import DistributedDataset
from muster.distribute._fit_callbacks import callbacks_of
from muster.distribute._fit_input import Agreement, DatasetBatches, KerasBatches
from muster.distribute._global_view import GlobalView
from muster.distribute._strategy import Strategy, current_strategy
from muster.program import ByIdentity, wrap_in_scopes

Array = Any

_TRAINS = "fit"
_TESTS = "evaluate"
_PREDICTS = "predict"

_CALLS = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")


class DistributedTrainer:
    """Runs one model's trainer on the devices of the strategy in whose scope the model was built.

    Args:
        model: a Keras model.
        strategy: whose devices it uses.
        view: of its devices.

    Attributes:
        strategy: as given.

    Source: tensorflow/python/keras/engine/training.py, ``Model.fit`` and its ``distribute_strategy``.
    """

    def __init__(self, model: Any, strategy: Strategy, view: GlobalView) -> None:
        self.strategy = strategy
        self._model = model
        self._view = view
        self._agreement = Agreement(strategy, model)
        self._keras_batches = KerasBatches(self._agreement, strategy)
        self._batches: dict[str, KerasBatches | DatasetBatches] = {}
        self._executables: Executables = {}
        self._running = False

    def attach(self) -> None:
        """Let the model's methods come here."""
        model = self._model
        for name in _CALLS:
            method = functools.partial(self._call, name)
            setattr(model, name, functools.wraps(getattr(type(model), name))(method))
        model.make_train_function = self.make_train_function
        model.make_test_function = self.make_test_function
        model.make_predict_function = self.make_predict_function

    def make_train_function(self, force: bool = False) -> None:
        """Make what Keras calls for every step of training. Its state: weights, the rest, optimizer, metrics."""
        model = self._model
        if model.train_function is not None and not force:
            return

        def step(state: Any, batch: Any) -> tuple[Any, Any]:
            logs, state = model.train_step(state, batch)
            return state, logs

        def variables() -> list[Any]:
            return [
                *model.trainable_variables,
                *model.non_trainable_variables,
                *model.optimizer.variables,
                *model.metrics_variables,
            ]

        model.train_function = self._function(_TRAINS, step, variables)

    def make_test_function(self, force: bool = False) -> None:
        """Make what Keras calls for every step of evaluation. Its state: weights, the rest, metrics."""
        model = self._model
        if model.test_function is not None and not force:
            return

        def step(state: Any, batch: Any) -> tuple[Any, Any]:
            logs, state = model.test_step(state, batch)
            return state, logs

        def variables() -> list[Any]:
            return [*model.trainable_variables, *model.non_trainable_variables, *model.metrics_variables]

        model.test_function = self._function(_TESTS, step, variables)

    def make_predict_function(self, force: bool = False) -> None:
        """Make what Keras calls for every step of prediction. Its state: weights, the rest."""
        model = self._model
        if model.predict_function is not None and not force:
            return

        def step(state: Any, batch: Any) -> tuple[Any, Any]:
            outputs, rest = model.predict_step(state, batch)
            return (state[0], rest), outputs

        def variables() -> list[Any]:
            return [*model.trainable_variables, *model.non_trainable_variables]

        model.predict_function = self._function(_PREDICTS, step, variables)

    def _function(self, what: str, step: Step, variables: Callable[[], list[Any]]) -> "_KerasFunction":
        model = self._model
        jit = model.jit_compile and not model.run_eagerly
        return _KerasFunction(
            what,
            functools.partial(self._next, what),
            self._view.compile(step, self._executables) if jit else step,
            functools.partial(self._placed, variables),
            model.steps_per_execution,
            self._agreement,
        )

    def _next(self, what: str, iterator: Iterator[Any]) -> Any:
        return self._batches.get(what, self._keras_batches).next(what, iterator)

    def _placed(self, variables: Callable[[], list[Any]], state: Any) -> Any:
        """State that Keras read from its variables, where a step takes it."""
        values, structure = jax.tree.flatten(state)
        values = self.strategy.place_new(variables(), values)
        return jax.tree.unflatten(structure, [self._view.placed(value) for value in values])

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the model in the strategy's scope; what it calls in turn is a part of it."""
        method = getattr(type(self._model), name)
        with self.strategy.scope():
            if self._running:
                return method(self._model, *args, **kwargs)
            with self.strategy.together(), contextlib.ExitStack() as stack:
                stack.callback(self._leave)
                self._running = True
                self._agreement.randomness()
                # Within the scope, as it wraps Keras' methods.
                return getattr(type(self._model), name)(self._model, *args, **kwargs)

    def run(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run Keras' own ``fit``, ``evaluate`` or ``predict``, with data and callbacks for this strategy."""
        arguments = inspect.signature(method).bind(self._model, *args, **kwargs)
        name = method.__name__
        if name == _TRAINS:
            self._prepare_fit(arguments.arguments)
        else:
            self._prepare(name, arguments.arguments)
        self._prepare_callbacks(name, arguments.arguments)
        with warnings.catch_warnings():
            batches = self._batches.get(name)
            if isinstance(batches, DatasetBatches) and batches.ends_epochs:
                # The end of a pass is that of an epoch, which Keras cannot know.
                warnings.filterwarnings("ignore", message="Your input ran out of data")
            return method(*arguments.args, **arguments.kwargs)

    def _leave(self) -> None:
        self._running = False
        self._localize()

    def _prepare_fit(self, given: dict[str, Any]) -> None:
        x, validation = given.get("x"), given.get("validation_data")
        self._batches.pop(_TRAINS, None)
        if isinstance(x, Dataset | DistributedDataset):
            _require_none(given, "y", "sample_weight", "batch_size")
            batches = DatasetBatches(
                self._agreement,
                self.strategy,
                x,
                class_weight=given.pop("class_weight", None),
                per_epoch=given.get("steps_per_epoch"),
            )
            given["x"] = self._batches[_TRAINS] = batches
            given["shuffle"] = False
        if isinstance(validation, Dataset | DistributedDataset):
            given["validation_data"] = DatasetBatches(
                self._agreement, self.strategy, validation, per_epoch=given.get("validation_steps")
            )

    def _prepare(self, name: str, given: dict[str, Any]) -> None:
        x = given.get("x")
        self._batches.pop(name, None)
        if isinstance(x, Dataset | DistributedDataset):
            _require_none(given, "y", "sample_weight", "batch_size")
            x = DatasetBatches(self._agreement, self.strategy, x, per_epoch=given.get("steps"))
            given["x"] = x
        if isinstance(x, DatasetBatches):
            self._batches[name] = x
        self._begin_epoch(name)

    def _prepare_callbacks(self, name: str, given: dict[str, Any]) -> None:
        if isinstance(given.get("callbacks"), keras.callbacks.CallbackList):
            return  # those of the fit that this is a part of
        if not self._agreement.is_chief:
            given["verbose"] = 0
        given["callbacks"] = callbacks_of(
            given.get("callbacks"), self._agreement, functools.partial(self._begin_epoch, name)
        )

    def _begin_epoch(self, what: str) -> None:
        self._batches.get(what, self._keras_batches).begin()

    def _localize(self) -> None:
        """Leave to each process of a job variables of its own, with which it may do what it likes."""
        model = self._model
        optimizer = model.optimizer.variables if model.optimizer is not None else []
        for variable in [*model.variables, *optimizer, *model.metrics_variables]:
            if variable.value is not None and not variable.value.is_fully_addressable:
                variable.assign(variable.value.addressable_data(0))


class _KerasFunction:
    """What Keras calls for each step: ``(state, iterator) -> (results, state)``.

    Args:
        what: whose steps they are.
        draw: takes Keras' iterator, and returns this process' part of the next batch.
        step: ``(state, batch) -> (state, results)``.
        place: puts state that Keras read from its variables where the step takes it.
        several: how many steps a call takes.
        agreement: of the workers.
    """

    def __init__(
        self,
        what: str,
        draw: Callable[[Iterator[Any]], Any],
        step: Step,
        place: Callable[[Any], Any],
        several: int,
        agreement: Agreement,
    ) -> None:
        self._what = what
        self._draw = draw
        self._step = step
        self._place = place
        self._several = several
        self._agreement = agreement
        self._last: Any = None

    def __call__(self, state: Any, iterator: Iterator[Any]) -> tuple[Any, Any]:
        results: list[Any] = []
        for _ in range(self._several):
            try:
                batch = self._draw(iterator)
            except StopIteration:
                if not results:
                    raise
                break
            if state is not self._last:
                state = self._place(state)
            state, result = self._step(state, batch)
            self._last = state
            results.append(result)
        if self._what != _PREDICTS or len(results) == 1:
            return results[-1], state
        return jax.tree.map(lambda *each: jnp.concatenate(each), *results), state


def _require_none(given: dict[str, Any], *names: str) -> None:
    for name in names:
        if given.get(name) is not None:
            raise ValueError(
                f"When data is given as a Dataset, `{name}` should not be given, got {name}="
                f"{given[name]!r}: a Dataset yields batches of (inputs, targets, sample_weights)."
            )


_TRAINERS: ByIdentity[DistributedTrainer | None] = ByIdentity()


def _adopting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        strategy = current_strategy()
        if strategy is None or strategy.global_view is None or self in _TRAINERS:
            return
        trainer = DistributedTrainer(self, strategy, strategy.global_view)
        _TRAINERS[self] = trainer
        trainer.attach()

    return init


def _require_own(model: Any, strategy: Strategy) -> DistributedTrainer | None:
    """The trainer of a model that was built in this strategy's scope.

    Raises:
        ValueError: It was built elsewhere.
    """
    trainer = _TRAINERS.get(model, None)
    if trainer is None and strategy.global_view is not None:
        raise ValueError(
            f"The model {model.name!r} was not created in the scope of {strategy}, which is to train it. Build "
            "the model, as well as compile it, inside of `with strategy.scope():`."
        )
    return trainer


def _compiling(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        strategy = current_strategy()
        if strategy is not None:
            _require_own(self, strategy)
        return original(self, *args, **kwargs)

    return compile


def _running(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        strategy = current_strategy()
        trainer = None if strategy is None else _require_own(self, strategy)
        if trainer is None:
            return original(self, *args, **kwargs)
        return trainer.run(original, *args, **kwargs)

    return run


wrap_in_scopes(keras.Model, "__init__", _adopting)
wrap_in_scopes(keras.Model, "compile", _compiling)
for _name in (_TRAINS, _TESTS, _PREDICTS):
    wrap_in_scopes(keras.Model, _name, _running)
