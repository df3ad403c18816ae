"""``fit``, ``evaluate`` and ``predict`` of Keras models that are built in a strategy's scope.

Keras' trainer runs, and calls a train function that is made here: it draws the batch that the workers share,
and runs Keras' ``train_step`` compiled for all devices in the global view. So the results are those of one
device, also with batch normalization, dropout and short last batches.
"""

import contextlib
import functools
import inspect
import logging
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from muster._errors import TraceError
from muster._keras import keras
from muster._user_code import no_stop_iteration
from muster.distribute.fit._agreement import Agreement
from muster.distribute.fit._callback_states import CallbackStates
from muster.distribute.fit._fit_callbacks import Report
from muster.distribute.fit._fit_handover import Handover
from muster.distribute.fit._fit_input import FitInput, KerasBatches
from muster.distribute.fit._model_state import ModelState
from muster.distribute.fit._own_steps import OwnSteps
from muster.distribute.fit._stateful_step import FUNCTIONS, PREDICTS, TESTS, TRAINS
from muster.distribute.fit._trainer_callbacks import TrainerCallbacks
from muster.distribute.fit._trainer_input import TrainerInput
from muster.distribute.fit._trainer_steps import TrainerSteps
from muster.distribute.strategies._strategy import Strategy
from muster.distribute.workers import ElasticWorkers
from muster.lifecycle import INTERRUPTS
from muster.program.variables.keras_internals import replace_build

_log = logging.getLogger(__name__)

# What makes a call of ``fit`` one of a single step.
_ONE_STEP = {"epochs": 1, "initial_epoch": 0, "steps_per_epoch": 1, "verbose": 0}

ON_BATCH = {"train_on_batch": TRAINS, "test_on_batch": TESTS, "predict_on_batch": PREDICTS}


_signature = functools.cache(inspect.signature)  # it takes longer than all else before the first step


class TrainerParts(NamedTuple):
    """The classes of a trainer's parts.

    Attributes:
        state: Has the model's variables.
        batches: Has the input of its steps.
        steps: Takes the steps.
    """

    state: type[ModelState] = ModelState
    batches: type[TrainerInput] = TrainerInput
    steps: type[TrainerSteps] = TrainerSteps


class DistributedTrainer:
    """Runs a model's ``fit``, ``evaluate`` and ``predict`` on the devices of a strategy.

    It composes four parts, and holds what one call of these methods is: the model's state, the input of its
    steps, the steps, and the callbacks. The model was built in the strategy's scope.

    Args:
        model: A Keras model.
        strategy: The strategy.
        parts: What it is made of.

    Attributes:
        strategy: The strategy.
        own: The steps that the model defines itself.

    Source: tensorflow/python/keras/engine/training.py, ``Model.fit`` and its ``distribute_strategy``.
    """

    def __init__(self, model: Any, strategy: Strategy, parts: TrainerParts) -> None:
        workers = strategy.workers
        self._model = model
        self.strategy = strategy
        self.own = OwnSteps(model, strategy)
        self._agreement = agreement = Agreement(workers, model)
        self._state = parts.state(model, strategy, self.own)
        self._batches = parts.batches(model, strategy, agreement, self.own)
        report = None
        if workers.reporter is not None:
            report = Report(workers.reporter, self._batches.wait, workers.exchanged)
        self._callbacks = TrainerCallbacks(model, agreement, report, self._state.share_all, self._handover)
        self._steps = parts.steps(
            model, strategy, agreement, self.own, self._state, self._batches, self._callbacks, report
        )
        self._running = self._warms_up = False
        self._place = 0  # that of the call of fit, where workers come and go

    def attach(self) -> None:
        """Replace the model's methods by those of this trainer."""
        model = self._model
        for name in (*FUNCTIONS, *ON_BATCH):
            method = functools.partial(self._call, name)
            setattr(model, name, functools.wraps(getattr(type(model), name))(method))
        self._steps.attach()
        self._state.attach()
        replace_build(model, self._steps.build)
        self.own.attach()

    def compiling(self) -> contextlib.AbstractContextManager[None]:
        """Return the context in which Keras compiles the model."""
        return self._state.compiling()

    def run(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run Keras' own ``fit``, ``evaluate`` or ``predict``, with data and callbacks for this strategy."""
        arguments = _signature(method).bind(self._model, *args, **kwargs)
        name = method.__name__
        batches = self._batches.prepare(name, arguments.arguments)
        self.own.look_at(name, arguments.arguments)
        self._callbacks.prepare(arguments.arguments, batches, trains=name == TRAINS)
        with warnings.catch_warnings():
            ends = not isinstance(batches, KerasBatches) and (batches.ends_epochs or batches.says_end)
            if ends or not self._agreement.single:
                # The end of a pass is that of an epoch, or another worker has stopped: Keras cannot know.
                warnings.filterwarnings("ignore", message="Your input ran out of data")
            try:
                with no_stop_iteration("A step of the model", TraceError):
                    return method(*arguments.args, **arguments.kwargs)
            except BaseException:
                self._steps.give_back(name)
                raise

    def call(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method of a name in the strategy's scope; calls inside of it join the outermost one."""
        of, workers = ON_BATCH.get(name, name), self.strategy.workers
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.strategy.scope())
            if not self._running:
                if isinstance(workers, ElasticWorkers) and not self._warms_up:
                    if name not in FUNCTIONS:
                        workers.require_member(name)
                    self._place = workers.next_place()
                    if workers.joins and workers.others_are_past(self._place):
                        _log.info("This worker leaves out a call of %s that the others have ended.", name)
                        return keras.callbacks.History() if name == TRAINS else workers.result_at(self._place)
                    if workers.joins and name != TRAINS:
                        workers.stand_by("they have come to the end of their programs")
                    if workers.joins:
                        self._warm_up(workers, method, *args, **kwargs)
                    if name != TRAINS:
                        method = self._noting_result(workers, method)
                stack.enter_context(workers.supervised(doing=of))
                stack.callback(self._leave)
                stack.enter_context(INTERRUPTS.watched())
                self._running = True
                self._agreement.randomness()
                self._state.unshare()
            else:
                self._agreement.after_steps()
                if self._callbacks.handover is not None:
                    stack.enter_context(self._callbacks.handover.paused())
            stack.enter_context(self.own.running(of))
            if name in ON_BATCH:
                stack.enter_context(self._steps.one_batch(of))
            if name == "predict_on_batch":
                self.own.look_at_batch(*args, **kwargs)
            try:
                return method(*args, **kwargs)
            except BaseException as error:
                self._steps.give_back(name)
                if isinstance(error, KeyboardInterrupt):
                    # A notebook keeps the traceback, and so the state, which the next call would copy.
                    traceback.clear_frames(error.__traceback__)
                raise

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the model as its class has it, in the strategy's scope."""
        method = functools.partial(getattr(type(self._model), name), self._model)
        return self.call(name, method, *args, **kwargs)

    def _noting_result(self, workers: ElasticWorkers, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return an ``evaluate`` or ``predict`` whose result those get who come later, and leave it out."""
        place = self._place

        def noting_result(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            workers.note_result(place, result)
            return result

        return noting_result

    def _warm_up(
        self, workers: ElasticWorkers, method: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> None:
        """Take a first step of ``fit`` alone, to have it compiled before the others wait for this worker.

        They give it their state afterwards. Data that can be read only once are left alone.
        """
        arguments = dict(_signature(keras.Model.fit).bind(self._model, *args, **kwargs).arguments)
        del arguments["self"]
        if hasattr(arguments.get("x"), "__next__"):
            return
        for name in ("callbacks", "validation_data", "validation_split"):
            arguments.pop(name, None)
        workers.expect_share()
        self._warms_up = True
        try:
            self.call(TRAINS, method, **arguments | _ONE_STEP)
        finally:
            self._warms_up = False

    def _handover(self, batches: FitInput, states: CallbackStates) -> Handover | None:
        """Return what lets workers join a call of ``fit``."""
        workers = self.strategy.workers
        if self._warms_up or not isinstance(workers, ElasticWorkers):
            return None
        return Handover(
            workers,
            self._agreement,
            batches,
            states,
            self._steps.counted,
            functools.partial(self._state.of, TRAINS),
            functools.partial(getattr, self._model, FUNCTIONS[TRAINS]),
            self._place,
        )

    def _leave(self) -> None:
        """End the outermost call."""
        self._running = False
        self._batches.leave()
        self._steps.leave()
        self._callbacks.close()
        self._state.leave()
