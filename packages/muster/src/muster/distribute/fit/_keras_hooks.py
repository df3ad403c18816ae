"""Run each model by the trainer of the strategy in whose scope it was built.

To import this module wraps ``fit``, ``evaluate`` and ``predict`` of all models, lets Keras' TensorBoard
callback write by muster's summaries, and models be saved under names of TensorFlow's Keras.
"""

import contextlib
import functools
import inspect
import logging
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import jax

from muster._errors import ClusterError
from muster._keras import keras
from muster.cluster import Task, TaskType, TFConfig, find_environment
from muster.cluster.roster import training_tasks
from muster.data import Dataset
from muster.distribute.fit._coordinated_input import CoordinatedInput
from muster.distribute.fit._coordinated_state import CoordinatedState
from muster.distribute.fit._coordinated_steps import CoordinatedSteps
from muster.distribute.fit._file_names import loading_weights, naming, placing, saving, saving_weights
from muster.distribute.fit._fit_callbacks import collecting_rate, note_saves, setting_model, summaries_of
from muster.distribute.fit._fit_data import adapt, batches_of
from muster.distribute.fit._stateful_step import FUNCTIONS, may_have_own_steps, takes_data
from muster.distribute.fit._step_texts import is_text
from muster.distribute.fit._trainer import ON_BATCH, DistributedTrainer, TrainerParts
from muster.distribute.fit._trainer_input import DATASETS
from muster.distribute.strategies._default import DefaultStrategy, get_strategy
from muster.distribute.strategies._strategy import Strategy, current_strategy
from muster.keras_hooks import replace, wrap
from muster.lifecycle import is_told, mark_told
from muster.program import GradientTape
from muster.program.variables import ByIdentity, wrap_in_scopes
from muster.program.variables.keras_internals import is_built, keeping_values, keras_step, predictions

_log = logging.getLogger(__name__)


def warn_if_unjoined(strategy: Strategy | None) -> None:
    """Log a warning, once, if this task trains a model of its own, while the other tasks of its job do, too.

    Args:
        strategy: What the model is trained by; None for no strategy.
    """
    workers = None if strategy is None else strategy.workers
    if workers is not None and (workers.size > 1 or workers.share is not None):
        return
    if strategy is not None and strategy.placement.storage is not None:
        return
    try:
        found = find_environment()
    except ClusterError:
        return  # whoever reads it for a strategy is told
    config, count = found.config, 0
    if found.rendezvous is not None:
        config = TFConfig(task_type=TaskType.WORKER, task_index=found.rendezvous.rank)
        count = found.rendezvous.size
    elif config is not None:
        count = len(training_tasks(config.cluster))
    if config is None or count < 2 or config.task_type in (None, TaskType.PS, TaskType.EVALUATOR):
        return
    name = "MultiWorkerMirroredStrategy"
    if TaskType.PS in config.cluster.jobs:
        name = "ParameterServerStrategy"
    how = "without a strategy" if strategy is None else f"by {strategy}, which is for one process"
    _warn(config.task, found.name, next(iter(found.variables)), count, how, name)


@functools.cache  # a program may fit often
def _warn(task: Task, found: str, variable: str, count: int, how: str, name: str) -> None:
    _log.warning(
        "%s trains a model of its own: %s names %d tasks that train, and this one fits %s. To train "
        "one model together, begin the program with strategy = muster.distribute.%s(), and build and compile "
        "the model inside of `with strategy.scope():`. To train in one process, unset %s.",
        task,
        found,
        count,
        how,
        name,
        variable,
    )


def train_step(model: Any, data: Any) -> Any:
    """Take a training step on a batch, in a step that is being traced, and return the metrics.

    Source: keras/src/backend/tensorflow/trainer.py, ``TensorFlowTrainer.train_step``.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    with GradientTape() as tape:
        y_pred, loss = keras_step(model, x, y, sample_weight, training=True)
        if model.optimizer is not None:
            loss = model.optimizer.scale_loss(loss)
    if model.trainable_weights:
        model.optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
    return model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)


def test_step(model: Any, data: Any) -> Any:
    """Take an evaluation step on a batch, in a step that is being traced, and return the metrics."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    y_pred, _ = keras_step(model, x, y, sample_weight, training=False)
    return model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)


def predict_step(model: Any, data: Any) -> Any:
    """Return the predictions for a batch, in a step that is being traced."""
    return predictions(model, keras.utils.unpack_x_y_sample_weight(data)[0], training=False)


KERAS_STEPS = {"train_step": train_step, "test_step": test_step, "predict_step": predict_step}


def taking_data(original: Callable[..., Any], step: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Let one of Keras' steps, which takes a state and data, take the data alone as well."""

    @functools.wraps(original)
    def either(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) + len(kwargs) == 1 and "state" not in kwargs:
            return step(self, *args, **kwargs)
        return original(self, *args, **kwargs)

    return either


@contextlib.contextmanager
def log_interrupts(callbacks: Any) -> Iterator[None]:
    """Log in a line what Ctrl-C has ended in this block, which then ends the program without a traceback.

    Args:
        callbacks: The callbacks that ``fit`` was given.
    """
    try:
        yield
    except KeyboardInterrupt as exc:
        if not is_told(exc):
            _log.warning("%s", _what_is_left(callbacks))
            mark_told(exc)
        raise


def _what_is_left(callbacks: Any) -> str:
    for each in jax.tree.leaves(callbacks):
        if isinstance(each, keras.callbacks.BackupAndRestore):
            return f"Interrupted; run again to go on from the last backup in {each.backup_dir}."
    return "Interrupted: a new fit starts anew, for this one had no BackupAndRestore callback."


# Weak, since a model holds its trainer, and the trainer the model.
_TRAINERS: ByIdentity[Callable[[], DistributedTrainer | None]] = ByIdentity()

# The models that Keras runs around this code, as it does with arrays where there is no strategy.
_RUN_BY_KERAS: ContextVar[tuple[Any, ...]] = ContextVar("muster_run_by_keras", default=())


# The parts of a trainer whose coordinator has workers take the steps, and servers hold the variables.
_COORDINATED = TrainerParts(CoordinatedState, CoordinatedInput, CoordinatedSteps)


def _adopt(model: Any, strategy: Strategy) -> DistributedTrainer:
    parts = TrainerParts() if strategy.placement.storage is None else _COORDINATED
    trainer = DistributedTrainer(model, strategy, parts)
    _TRAINERS[model] = weakref.ref(trainer)
    trainer.attach()
    return trainer


def adopt(model: Any) -> None:
    """Let the strategy of this code run a model that was built in no strategy's scope.

    Raises:
        ValueError: Code runs in a strategy's scope, and the model was built outside of one.
    """
    if _trainer_of(model) is None:
        _adopt(model, get_strategy())


def _adopting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        strategy = current_strategy()
        if strategy is not None and self not in _TRAINERS:
            _adopt(self, strategy)

    return init


def _trainer_of(model: Any) -> DistributedTrainer | None:
    """Return the trainer of a model; None if it was built in no strategy's scope.

    Raises:
        ValueError: Code runs in a strategy's scope, and the model was built outside of one.
    """
    trainer = _TRAINERS.get(model, lambda: None)()
    strategy = current_strategy()
    if trainer is None and strategy is not None and not isinstance(strategy, DefaultStrategy):
        raise ValueError(
            f"The model {model.name!r} was not created in the scope of {strategy}, which is to "
            "train it. Build the model, as well as compile it, inside of `with strategy.scope():`."
        )
    return trainer


def scope_of_model(model: Any) -> contextlib.AbstractContextManager[Any]:
    """Return the scope of the strategy that a model belongs to; a null context if there is none."""
    trainer = _TRAINERS.get(model, lambda: None)()
    return contextlib.nullcontext() if trainer is None else trainer.strategy.scope()


def takes_own_step(model: Any) -> bool:
    """Return whether the step that a model takes, else that of ``fit``, is its own, of TensorFlow's kind."""
    trainer = _TRAINERS.get(model, lambda: None)()
    return takes_data(model, (trainer and trainer.own.method) or "fit")


def _compiling(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        trainer = _trainer_of(self)
        with contextlib.nullcontext() if trainer is None else trainer.compiling():
            return original(self, *args, **kwargs)

    return compile


def _running(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)  # once: it takes longer than all else here

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        trainer = _trainer_of(self)
        if original.__name__ != "fit":
            return run_by(trainer, self, *args, **kwargs)
        warn_if_unjoined(None if trainer is None else trainer.strategy)
        with log_interrupts(signature.bind(self, *args, **kwargs).arguments.get("callbacks")):
            return run_by(trainer, self, *args, **kwargs)

    def run_by(trainer: DistributedTrainer | None, self: Any, *args: Any, **kwargs: Any) -> Any:
        if trainer is not None:
            return trainer.run(original, *args, **kwargs)
        if original.__name__ == "fit":
            note_saves(jax.tree.leaves(kwargs.get("callbacks")))
        call = signature.bind(self, *args, **kwargs)
        adapt(call.arguments, self, DATASETS, method=original.__name__)
        if original.__name__ != "fit" and any(each is self for each in _RUN_BY_KERAS.get()):
            # A callback calls it, of a `fit` that goes on with the functions that Keras made.
            if isinstance(dataset := call.arguments.get("x"), Dataset):
                call.arguments["x"] = batches_of(dataset)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Your input ran out of data")  # which is its end
                return original(*call.args, **call.kwargs)
        has_dataset = any(isinstance(value, DATASETS) for value in call.arguments.values())
        built_on_values = self.run_eagerly and not is_built(self)
        callbacks = jax.tree.leaves(call.arguments.get("callbacks")) if original.__name__ == "fit" else ()
        backs_up = any(isinstance(each, keras.callbacks.BackupAndRestore) for each in callbacks)
        own = built_on_values or may_have_own_steps(self) or is_text(call.arguments.get("x"))
        if has_dataset or backs_up or own:
            # Not by the model's method: if its class overrides that, its code has called this already.
            trainer = _adopt(self, get_strategy())
            method = functools.partial(run, self)
            return trainer.call(original.__name__, method, *call.args[1:], **call.kwargs)
        with _run_by_keras(self), keeping_values(self):
            return original(*call.args, **call.kwargs)

    return run


@contextlib.contextmanager
def _run_by_keras(model: Any) -> Iterator[None]:
    token = _RUN_BY_KERAS.set((*_RUN_BY_KERAS.get(), model))
    try:
        yield
    finally:
        _RUN_BY_KERAS.reset(token)


def _running_on_batch(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _trainer_of(self) is None and may_have_own_steps(self):
            trainer = _adopt(self, get_strategy())
            return trainer.call(original.__name__, functools.partial(run, self), *args, **kwargs)
        return original(self, *args, **kwargs)

    return run


def _defining(name: str) -> Any:
    """Return the class that defines a method of models: Keras checks there whether a model overrides it."""
    return next(owner for owner in keras.Model.__mro__ if name in vars(owner))


wrap_in_scopes(keras.Model, "__init__", _adopting)
wrap(_defining("compile"), "compile", _compiling)
# Every model is wrapped, so that without a strategy, too, it takes data that Keras does not know, and may
# have its own steps.
for _name in FUNCTIONS:
    wrap(_defining(_name), _name, _running)
for _name in ON_BATCH:
    wrap(_defining(_name), _name, _running_on_batch)
for _name, _step in KERAS_STEPS.items():
    wrap(_defining(_name), _name, functools.partial(taking_data, step=_step))
# Every callback, too: without a strategy, or in classes that are derived from it, it would import TensorFlow.
replace(keras.callbacks.TensorBoard, "summary", property(summaries_of))
wrap(keras.callbacks.TensorBoard, "set_model", setting_model)
wrap(keras.callbacks.TensorBoard, "_collect_learning_rate", collecting_rate)
# Names of files that Keras refuses, as programs for TensorFlow's Keras have them.
_FILES = {"save": saving, "save_weights": saving_weights, "load_weights": loading_weights}
for _name, _wrapper in _FILES.items():
    wrap(_defining(_name), _name, _wrapper)
wrap(keras.callbacks.ModelCheckpoint, "__init__", naming)
# Paths that Keras would take for folders here, or for what needs TensorFlow.
for _callback, _name in (
    (keras.callbacks.BackupAndRestore, "backup_dir"),
    (keras.callbacks.CSVLogger, "filename"),
    (keras.callbacks.TensorBoard, "log_dir"),
):
    wrap(_callback, "__init__", functools.partial(placing, argument=_name))
