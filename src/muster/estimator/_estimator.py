"""The Estimator: trains, evaluates and predicts with a model_fn, from and into a directory of checkpoints."""

import copy
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from muster.checkpoint import (
    Checkpoint,
    Checkpointer,
    latest_checkpoint,
    list_variables,
    read_checkpoint,
    restore_latest,
)
from muster.cluster import Task, TaskState, TaskType
from muster.distribute import Strategy, get_strategy, keep_compiled
from muster.distribute.input._synchronized_batches import synchronized
from muster.distribute.strategies._programs import compile_program, start_program
from muster.distribute.workers._signals import SignalWatch
from muster.estimator._checks import check_instances, check_steps
from muster.estimator._estimator_spec import EstimatorSpec
from muster.estimator._mode_keys import ModeKeys
from muster.estimator._model_fn import call_input_fn, check_model_fn_args
from muster.estimator._run_config import RunConfig, check_train_args, check_workers, resolve_config
from muster.estimator.hooks import (
    CheckpointSaverListener,
    SessionRunHook,
    StopAfterNEvalsHook,
    StopAtStepHook,
)
from muster.estimator.loop._batches import Batches, open_batches
from muster.estimator.loop._default_hooks import require_saver, training_hooks
from muster.estimator.loop._evaluation import format_metrics, write_metrics
from muster.estimator.loop._prediction import checked_keys, single_examples
from muster.estimator.loop._progress_report import ProgressReport
from muster.estimator.loop._restore import initial_state
from muster.estimator.loop._run_loop import TrainingSession, run_loop
from muster.estimator.loop._saving import TrainingSaver, mark_ended, require_same_checkpoint, saved_position
from muster.estimator.loop._step_profile import StepProfile
from muster.estimator.loop._tracing import GLOBAL_STEP, LOSS, METRICS, PREDICTIONS, trace_model_fn
from muster.estimator.loop._warm_start import warm_start_settings
from muster.estimator.session import _clock
from muster.estimator.session._session import Session
from muster.program import Program, functions_run_eagerly
from muster.summary import EventFileWriter

_log = logging.getLogger(__name__)


class Estimator:
    """Trains and evaluates a model that a function describes.

    Every ``train``, ``evaluate`` and ``predict`` calls the model_fn anew and restores the newest checkpoint
    of the model directory. The step that the model_fn describes is compiled once for each shape of a batch.

    Training that was interrupted goes on at the very next example: the position of the input is part of
    each checkpoint. After training that ended by itself, the next call of ``train`` starts the input afresh,
    as TensorFlow does.

    Args:
        model_fn: Called with ``features`` and those of ``labels``, ``mode``, ``params`` and ``config`` that
            it names; returns an ``EstimatorSpec``. Features and labels are what the input_fn gives, a batch,
            per replica.
        model_dir: Where checkpoints and summaries are; None: the config's, else a temporary directory.
        config: How to run; None for the defaults.
        params: Handed to the model_fn and the input_fn.
        warm_start_from: A checkpoint, a directory, or ``WarmStartSettings``: where trainable variables start
            from as long as the model directory has no checkpoint.

    Raises:
        ValueError: The model_fn takes the wrong arguments, or there are two model directories.
        CheckpointError: The model directory cannot be made.

    Source: ``EstimatorV2`` (tensorflow_estimator/python/estimator/estimator.py).
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: str | os.PathLike[str] | None = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: Any = None,
    ) -> None:
        check_model_fn_args(model_fn, params)
        self._config = resolve_config(config, model_dir)
        in_a_job = self._config.cluster_spec or self._config.task_type == TaskType.EVALUATOR
        keep_compiled(self.model_dir if in_a_job else None)
        self._model_fn = model_fn
        self._params = copy.deepcopy(params) if params is not None else {}
        self._warm_start = warm_start_settings(warm_start_from)
        self._executables: dict[str, Any] = {}
        self._eval_writers: dict[str, EventFileWriter] = {}
        self._training = False

    @property
    def model_dir(self) -> str:
        """Where checkpoints and summaries are."""
        return os.fspath(self._config.model_dir or "")

    @property
    def config(self) -> RunConfig:
        """How to run; it has a model_dir."""
        return self._config

    @property
    def params(self) -> Any:
        """A copy of what is handed to the model_fn."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., Any]:
        """What describes the model."""
        return self._model_fn

    def eval_dir(self, name: str | None = None) -> str:
        """Where the summaries of an evaluation are."""
        return os.path.join(self.model_dir, f"eval_{name}" if name else "eval")

    def latest_checkpoint(self) -> str | None:
        """The path of the newest whole checkpoint, or None."""
        return latest_checkpoint(self.model_dir)

    def get_variable_names(self) -> list[str]:
        """The paths of all variables in the newest checkpoint, sorted.

        Raises:
            ValueError: There is no checkpoint yet.
        """
        return sorted(list_variables(self._trained()))

    def get_variable_value(self, name: str) -> np.ndarray[Any, Any]:
        """The value of a variable in the newest checkpoint, of its global shape.

        Raises:
            ValueError: There is no checkpoint yet, or it has no such variable.
        """
        variables = read_checkpoint(self._trained()).variables
        if name not in variables:
            raise ValueError(f"There is no variable {name!r}. There are: {', '.join(sorted(variables))}.")
        return variables[name].copy()

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Iterable[SessionRunHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Iterable[CheckpointSaverListener] | None = None,
    ) -> Self:
        """Train until the input ends, or a number of steps is reached, or a hook asks to stop.

        Args:
            input_fn: Returns a Dataset of ``(features, labels)``; called with those of ``mode``, ``params``,
                ``config`` and ``input_context`` that it names.
            hooks: Called around each step.
            steps: How many steps to add.
            max_steps: The step to stop at, counted from the first training on.
            saving_listeners: Told of each checkpoint.

        Raises:
            ValueError: Both ``steps`` and ``max_steps`` are given, or one is not positive.
            DatasetError: The input is empty, or a step cannot compute with it.
            TraceError: The model_fn cannot be traced.
            CheckpointError: A checkpoint cannot be written, or is of another model.
            NanLossDuringTrainingError: The loss became NaN. No checkpoint of that step is written.
        """
        steps, max_steps = check_train_args(self._config, steps, max_steps)
        user_hooks = check_instances("All hooks must be SessionRunHook", SessionRunHook, hooks)
        listeners = check_instances(
            "saving_listeners must be a list of CheckpointSaverListener",
            CheckpointSaverListener,
            saving_listeners,
        )
        config = self._config
        strategy = self._strategy(config.train_distribute)
        check_workers(config, strategy)
        with ExitStack() as resources:
            resources.enter_context(strategy.workers.supervised(config.session_creation_timeout_secs))
            checkpointer = resources.enter_context(self._checkpointer()) if config.is_chief else None
            checkpoint = restore_latest(self.model_dir, set_aside=config.is_chief)
            require_same_checkpoint(strategy, self.model_dir, checkpoint)
            if max_steps is not None and checkpoint is not None and checkpoint.step >= max_steps:
                _log.info("Skipping training since max_steps has already saved.")
                return self
            context = strategy.input_context
            position = saved_position(checkpoint, context)
            returned = self._call_input_fn(input_fn, ModeKeys.TRAIN, strategy)
            batches = resources.enter_context(
                open_batches(
                    returned, ModeKeys.TRAIN, position, config.tf_random_seed, context.num_input_pipelines > 1
                )
            )
            self._log_share(batches, strategy)
            if all(strategy.workers.all_gather_object(batches.first is None)) and position is not None:
                _log.info("Skipping training since the input was read to its end before the interruption.")
                if checkpointer is not None and checkpoint is not None:
                    mark_ended(self.model_dir, checkpoint.step)
                return self
            program = self._trace(ModeKeys.TRAIN, batches, checkpoint)
            require_saver(program, config, user_hooks, listeners)
            state = self._initial_state(program, ModeKeys.TRAIN, checkpoint)
            positions = strategy.workers.all_gather_object(batches.position)
            writer = resources.enter_context(EventFileWriter(self.model_dir)) if config.is_chief else None
            step = compile_program(strategy, program, self._executables)
            saver = None
            if checkpointer is not None:
                saver = TrainingSaver(checkpointer, batches, positions, strategy, writer)
            hooks_here: list[SessionRunHook] = [*user_hooks]
            if strategy.workers.reporter is not None:
                hooks_here.insert(0, ProgressReport(strategy.workers.reporter))
            if steps is not None or max_steps is not None:
                hooks_here.append(StopAtStepHook(steps, max_steps))
            session = Session(
                start_program(strategy, state),
                global_step=checkpoint.step if checkpoint is not None else 0,
                count_steps=None if program.adds_one(GLOBAL_STEP) else lambda o: int(o[GLOBAL_STEP]),
                save=saver,
                output_names=program.outputs,
            )
            all_hooks = training_hooks(program, config, hooks_here, listeners, writer)
            if config.profile_dir is not None:
                folder = Path(config.profile_dir) / f"{config.task_type}-{config.task_id}"
                all_hooks.insert(0, StepProfile(folder, lambda: strategy.workers.communication_secs))
            if checkpoint is not None:
                _log.info("Restoring parameters from %s", checkpoint.path)
            signals = SignalWatch()
            with (
                synchronized(
                    strategy.workers, strategy.local_replicas, batches, batches.example, signals
                ) as shared,
                self._while_training(),
            ):
                given = shared if saver is None else saver.count(shared, session)
                # Workers that draw several batches each would have to agree on how many.
                single = functions_run_eagerly() or context.num_input_pipelines > 1
                at_once = 1 if single else config.steps_per_execution
                run_loop(session, step, given, all_hooks, signals=signals, steps_per_execution=at_once)
            if checkpointer is not None:
                with strategy.workers.reporting(TaskState.SAVING):
                    checkpointer.wait()
                    mark_ended(self.model_dir, session.global_step)
            strategy.workers.barrier("trained")  # from here on, all workers find the last checkpoint
            loss = np.asarray(session.outputs[LOSS])[()] if session.outputs else None
        _log.info("Loss for final step: %s.", loss)
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluate a checkpoint, each example once.

        Args:
            input_fn: As for ``train``.
            steps: How many batches to take; None takes all.
            hooks: Called around each batch.
            checkpoint_path: The checkpoint; None takes the newest, or initial values if there is none.
            name: Tells evaluations on several data sets apart: the summaries go to ``eval_<name>``.

        Returns:
            The metrics by name, with ``loss``, the mean of the batches' losses, and ``global_step``.

        Raises:
            ValueError: ``steps`` is not positive, or a metric is called ``loss`` or ``global_step``.
            DatasetError: The input is empty, or a step cannot compute with it.
            CheckpointError: The checkpoint cannot be read, or is of another model.
        """
        steps = check_steps("steps", steps)
        user_hooks = check_instances("All hooks must be SessionRunHook", SessionRunHook, hooks)
        checkpoint = self._checkpoint(checkpoint_path, "evaluate")
        strategy = self._strategy(self._config.eval_distribute)
        informed = strategy
        if self._training:  # this is a pause of it: other workers wait, and cannot help
            informed = self._strategy(self._config.train_distribute)
            if strategy.input_context.num_input_pipelines > 1:
                strategy = get_strategy()
        returned = self._call_input_fn(input_fn, ModeKeys.EVAL, strategy)
        with (
            strategy.workers.supervised(self._config.session_creation_timeout_secs),
            informed.workers.reporting(TaskState.EVALUATING),
            Batches(returned, ModeKeys.EVAL, seed=self._config.tf_random_seed) as batches,
        ):
            self._log_share(batches, strategy)
            require_same_checkpoint(strategy, self.model_dir, checkpoint)
            program = self._trace(ModeKeys.EVAL, batches, checkpoint)
            step = compile_program(strategy, program, self._executables)
            global_step = checkpoint.step if checkpoint is not None else 0
            session = Session(
                start_program(strategy, self._initial_state(program, ModeKeys.EVAL, checkpoint)),
                global_step=global_step,
                count_steps=lambda outputs: global_step,
                output_names=program.outputs,
            )
            began = time.monotonic()
            _log.info("Starting evaluation at %s", time.strftime("%Y-%m-%dT%H:%M:%S"))
            if checkpoint is not None:
                _log.info("Restoring parameters from %s", checkpoint.path)
            progress = StopAfterNEvalsHook(steps, log_progress=steps is not None)
            with synchronized(strategy.workers, strategy.local_replicas, batches, batches.first) as shared:
                run_loop(session, step, shared, [*user_hooks, *program.static.evaluation_hooks, progress])
            _log.info("Inference Time : %.5fs", time.monotonic() - began)
            _log.info("Finished evaluation at %s", time.strftime("%Y-%m-%dT%H:%M:%S"))
            read: dict[str, Any] = jax.tree.map(
                np.array, {**session.outputs[METRICS], LOSS: session.outputs[LOSS]}
            )
        metrics = {**{key: value[()] for key, value in read.items()}, GLOBAL_STEP: np.int64(global_step)}
        if strategy.input_context.input_pipeline_id > 0:
            return metrics  # the first worker writes them down
        directory = self.eval_dir(name)
        _log.info("Saving dict for global step %d: %s", global_step, format_metrics(metrics))
        writer = self._eval_writers.get(directory)
        if writer is None:
            writer = self._eval_writers[directory] = EventFileWriter(directory)
        write_metrics(writer, metrics, checkpoint.path if checkpoint is not None else None)
        return metrics

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: str | Sequence[str] | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Predict, in the order of the input.

        Args:
            input_fn: Returns a Dataset of features; labels are left out.
            predict_keys: Which of the predictions to give; None gives all.
            hooks: Called around each batch.
            checkpoint_path: As for ``evaluate``.
            yield_single_examples: Whether to give an example at a time rather than a batch.

        Yields:
            The predictions, in the structure that the model_fn gives them; NumPy arrays.

        Raises:
            ValueError: A key is none of the predictions', or they differ in length.
            DatasetError: The input is empty, or a step cannot compute with it.
            CheckpointError: The checkpoint cannot be read, or is of another model.
        """
        user_hooks = check_instances("All hooks must be SessionRunHook", SessionRunHook, hooks)
        checkpoint = self._checkpoint(checkpoint_path, "predict")
        strategy = self._strategy(None)
        returned = self._call_input_fn(input_fn, ModeKeys.PREDICT, strategy)
        with Batches(returned, ModeKeys.PREDICT) as batches:
            program = self._trace(ModeKeys.PREDICT, batches, checkpoint)
            spec = program.static
            keys = checked_keys(spec.predictions, predict_keys)
            global_step = checkpoint.step if checkpoint is not None else 0
            session = Session(
                start_program(strategy, self._initial_state(program, ModeKeys.PREDICT, checkpoint)),
                global_step=global_step,
                count_steps=lambda outputs: global_step,
                output_names=program.outputs,
            )
            if checkpoint is not None:
                _log.info("Restoring parameters from %s", checkpoint.path)
            step = compile_program(strategy, program, self._executables)
            # Signals are not held back here: between two yields the caller's code runs, not a step.
            running = TrainingSession(
                session, step, batches, [*user_hooks, *spec.prediction_hooks], hold_signals=False
            )
            with running:
                while not running.should_stop():
                    running.run()
                    predictions = jax.tree.map(np.array, session.outputs[PREDICTIONS])
                    if keys is not None:
                        predictions = {key: predictions[key] for key in keys}
                    if yield_single_examples:
                        yield from single_examples(predictions)
                    else:
                        yield predictions

    def _checkpointer(self) -> Checkpointer:
        config = self._config
        return Checkpointer(
            self.model_dir,
            max_to_keep=config.keep_checkpoint_max,
            keep_every_n_hours=config.keep_checkpoint_every_n_hours or float("inf"),
            clock=lambda: _clock.now(),
        )

    def _trained(self) -> str:
        path = self.latest_checkpoint()
        if path is None:
            raise ValueError(f"There is no checkpoint in {self.model_dir}: train first.")
        return path

    def _strategy(self, configured: Strategy | None) -> Strategy:
        if configured is None:
            return get_strategy()
        with configured.scope():  # raises inside of another's
            return configured

    @contextmanager
    def _while_training(self) -> Iterator[None]:
        self._training = True
        try:
            yield
        finally:
            self._training = False

    def _log_share(self, batches: Batches, strategy: Strategy) -> None:
        """Say what this worker reads, where there are several."""
        count = strategy.input_context.num_input_pipelines
        if count > 1:
            task = Task(self._config.task_type, self._config.task_id)
            _log.info("%s of %d reads %s.", task, count, batches.share)

    def _call_input_fn(self, input_fn: Callable[..., Any], mode: ModeKeys, strategy: Strategy) -> Any:
        return call_input_fn(input_fn, mode, self._params, self._config, strategy.input_context)

    def _checkpoint(self, path: str | None, purpose: str) -> Checkpoint | None:
        if path is not None:
            return read_checkpoint(path)
        checkpoint = restore_latest(self.model_dir)
        if checkpoint is None:
            _log.info(
                "Could not find trained model in model_dir: %s, running initialization to %s.",
                self.model_dir,
                purpose,
            )
        return checkpoint

    def _trace(
        self, mode: ModeKeys, batches: Batches, checkpoint: Checkpoint | None
    ) -> Program[EstimatorSpec]:
        known = checkpoint.variables if checkpoint is not None else {}
        return trace_model_fn(self._model_fn, mode, batches, self._params, self._config, known)

    def _initial_state(
        self, program: Program[EstimatorSpec], mode: ModeKeys, checkpoint: Checkpoint | None
    ) -> dict[str, Any]:
        warm_start = self._warm_start if checkpoint is None else None
        return initial_state(program, mode, checkpoint, warm_start)
