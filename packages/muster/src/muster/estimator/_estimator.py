"""The Estimator: trains, evaluates and predicts with a model_fn, from and into a directory of checkpoints."""

import copy
import dataclasses
import logging
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import numpy as np

from muster._clocks import is_ahead
from muster._compilation_cache import keep_compiled
from muster._errors import SavedModelError
from muster._paths import local_path
from muster._remote import remote_url
from muster.checkpoint import Checkpoint
from muster.checkpoint.tensorflow import list_either, newest_checkpoint, read_either
from muster.cluster import TaskType
from muster.distribute import get_strategy, has_strategy
from muster.estimator._checks import check_instances, check_steps
from muster.estimator._estimator_spec import EstimatorSpec, ModeKeys
from muster.estimator._model_fn import InputFn, ModelFn, call_model_fn, check_model_fn_args
from muster.estimator._run_config import RunConfig, check_train_args, check_workers, resolve_config
from muster.estimator._specs import eval_folder
from muster.estimator.export._export import export, receivers_by_mode
from muster.estimator.export._supervised_receivers import ReceiverFn
from muster.estimator.exporters._exporter import newest_stamp
from muster.estimator.hooks._base import SessionRunHook
from muster.estimator.hooks._checkpoint_saver import CheckpointSaverListener
from muster.estimator.loop._evaluation import evaluate, predict, write_metrics
from muster.estimator.loop._setup import EstimatorSetup, joining_strategy, log_restored, strategy_for
from muster.estimator.loop._training import Training
from muster.estimator.loop._warm_start import WarmStartSettings, warm_start_settings
from muster.estimator.session import clock
from muster.estimator.session._session import Session
from muster.lifecycle import closed_at_exit, log_interrupt
from muster.summary import EventFileWriter

_log = logging.getLogger(__name__)

_ATTEMPTS = 10
# How far folders may be ahead of the clock, in seconds: those of this machine, each of which waits for its
# own second, and those of another machine. What is further ahead is no time.
_OWN_SECS, _ANOTHERS_SECS = 60.0, 30 * 86400.0


def timestamped_folder(base: str | bytes | os.PathLike[str]) -> str:
    """Return the path of a new folder below a base, whose name is the time in seconds since the epoch.

    If there is one of that name, it waits for the next second. If there is one of a later minute, which a
    machine with another clock has made, the name is the number after it: the last one is served.

    Raises:
        SavedModelError: There has been one in each of ten seconds.

    Source: ``get_timestamped_export_dir`` (tensorflow/python/saved_model/model_utils/export_utils.py).
    """
    base = local_path(base, remote=True)
    newest = newest_stamp(base)
    for attempt in range(1, _ATTEMPTS + 1):
        now = clock.date()
        if now + _OWN_SECS < newest < now + _ANOTHERS_SECS:
            is_ahead(newest, now, f"The model {os.path.join(base, str(newest))}")
            return os.path.join(base, str(newest + 1))
        path = os.path.join(base, str(int(now)))
        if not os.path.lexists(path):
            return path
        _log.warning("Directory %s already exists; retrying (attempt %d/%d)", path, attempt, _ATTEMPTS)
        clock.sleep(1)
    raise SavedModelError(
        f"Failed to obtain a unique export directory name after {_ATTEMPTS} attempts. There is a folder for "
        f"each second in {base}. Does the clock stand still, or do others export there?"
    )


_NO_METRICS = "Interrupted while evaluating: there are no new metrics."


class Estimator:
    """Trains and evaluates a model that a function describes.

    Every ``train``, ``evaluate`` and ``predict`` calls the model_fn anew and restores the newest checkpoint
    of the model directory. The step that the model_fn describes is compiled once for each shape of a batch.

    Training that was interrupted goes on at the very next example: the position of the input is part of
    each checkpoint. After training that ended by itself, the next call of ``train`` starts the input afresh,
    and metrics, as TensorFlow does.

    Args:
        model_fn: Called with ``features`` and those of ``labels``, ``mode``, ``params`` and ``config`` that
            it names; returns an ``EstimatorSpec``. Features and labels are a batch of what the input_fn
            returns, per replica.
        model_dir: The directory of checkpoints and summaries; None for the config's, else a temporary one.
        config: How to run; None for the defaults.
        params: Passed to the model_fn and the input_fn.
        warm_start_from: A checkpoint, a directory, or ``WarmStartSettings``: where trainable variables start
            from as long as the model directory has no checkpoint.

    Raises:
        ValueError: The model_fn takes the wrong arguments, or there are two model directories.
        CheckpointError: The model directory cannot be made.

    Source: ``EstimatorV2`` (tensorflow_estimator/python/estimator/estimator.py).

    Example:
        ```python
        def model_fn(features, labels, mode):
            loss = keras.ops.mean((keras.layers.Dense(1)(features) - labels) ** 2)
            step = muster.get_or_create_global_step()
            train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, step)
            return muster.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

        def input_fn():
            return Dataset.from_tensors((np.ones((8, 4), np.float32), np.ones((8, 1), np.float32))).repeat()

        estimator = muster.estimator.Estimator(model_fn, "runs/example")
        estimator.train(input_fn, max_steps=3)
        ```
    """

    def __init__(
        self,
        model_fn: ModelFn,
        model_dir: str | os.PathLike[str] | None = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
    ) -> None:
        check_model_fn_args(model_fn, params)
        config = resolve_config(config, model_dir)
        in_a_job = config.cluster_spec or config.task_type == TaskType.EVALUATOR
        keep_compiled(os.fspath(config.model_dir or "") if in_a_job else None)
        self._setup = EstimatorSetup(
            model_fn=model_fn,
            params=copy.deepcopy(params) if params is not None else {},
            config=config,
            warm_start=warm_start_settings(warm_start_from),
        )
        self._eval_writers: dict[str, EventFileWriter] = {}
        self._taking_steps = False

    @property
    def model_dir(self) -> str:
        """The directory of checkpoints and summaries."""
        return self._setup.model_dir

    @property
    def config(self) -> RunConfig:
        """The `RunConfig`, with its model_dir set."""
        return self._setup.config

    @property
    def params(self) -> Any:
        """A copy of what is passed to the model_fn."""
        return copy.deepcopy(self._setup.params)

    @property
    def model_fn(self) -> ModelFn:
        """The function that describes the model."""
        return self._setup.model_fn

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        """Call the model_fn, for programs whose own model_fn changes what this Estimator's returns.

        Source: tensorflow_estimator/python/estimator/estimator.py, ``Estimator._call_model_fn``.
        """
        return call_model_fn(self.model_fn, features, labels, ModeKeys(mode), self.params, config)

    def eval_dir(self, name: str | None = None) -> str:
        """Return the directory of an evaluation's summaries."""
        return eval_folder(self.model_dir, name)

    def latest_checkpoint(self) -> str | None:
        """Return the path of the newest complete checkpoint, or None.

        Without one of muster's it is the newest of TensorFlow's: the path without ``.index``.
        """
        return newest_checkpoint(self.model_dir)

    def get_variable_names(self) -> list[str]:
        """Return the paths of all variables in the newest checkpoint, sorted.

        Raises:
            ValueError: There is no checkpoint yet.
        """
        return sorted(list_either(self._trained()))

    def get_variable_value(self, name: str) -> np.ndarray[Any, Any]:
        """Return the value of a variable in the newest checkpoint, of its global shape.

        Args:
            name: The variable's name; as in TensorFlow ``:0`` at its end is left out.

        Raises:
            ValueError: There is no checkpoint yet, or it has no such variable.
        """
        name = name.removesuffix(":0")
        checkpoint = read_either(self._trained(), mapped=True)
        try:
            variables = checkpoint.variables
            if name not in variables:
                raise ValueError(f"There is no variable {name!r}. There are: {', '.join(sorted(variables))}.")
            value: np.ndarray[Any, Any] = variables[name].copy()
            return value
        finally:
            checkpoint.close()

    def train(
        self,
        input_fn: InputFn,
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
            saving_listeners: Called before and after each checkpoint.

        Raises:
            ValueError: Both ``steps`` and ``max_steps`` are given, or one is not positive.
            DatasetError: The input is empty, or a step cannot compute with it.
            TraceError: The model_fn cannot be traced.
            CheckpointError: A checkpoint cannot be written, or is of another model.
            NanLossDuringTrainingError: The loss became NaN. No checkpoint of that step is written.
        """
        steps, max_steps = check_train_args(self.config, steps, max_steps)
        hooks = check_instances("All hooks must be SessionRunHook", SessionRunHook, hooks)
        listeners = check_instances(
            "saving_listeners must be a list of CheckpointSaverListener",
            CheckpointSaverListener,
            saving_listeners,
        )
        if self.config.lacks_strategy and not has_strategy():
            joined = self.config.replace(train_distribute=joining_strategy())
            self._setup = dataclasses.replace(self._setup, config=joined)
        strategy = strategy_for(self.config.train_distribute)
        check_workers(self.config, strategy)
        Training(
            setup=self._setup,
            strategy=strategy,
            input_fn=input_fn,
            hooks=hooks,
            listeners=listeners,
            steps=steps,
            max_steps=max_steps,
            around_steps=self._while_taking_steps(),
        ).run()
        return self

    def evaluate(
        self,
        input_fn: InputFn,
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
            checkpoint_path: The checkpoint; None takes the newest, or initial values if there is none. The
                folder of an exported model has the weights, and no global step: it is 0.
            name: Tells evaluations on several data sets apart: the summaries go to ``eval_<name>``.

        Returns:
            The metrics by name, with ``loss``, the mean of the batches' losses, and ``global_step``.

        Raises:
            ValueError: ``steps`` is not positive, or a metric is called ``loss`` or ``global_step``.
            DatasetError: The input is empty, or a step cannot compute with it.
            CheckpointError: The checkpoint cannot be read, or is of another model.
        """
        with self._setup.opened_checkpoint(checkpoint_path, "evaluate") as checkpoint:
            return self._evaluate(checkpoint, input_fn, steps, hooks, name)

    def evaluate_session(
        self,
        session: Session,
        input_fn: InputFn,
        steps: int | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluate the values that a training has now, as `evaluate` does a checkpoint's.

        Args:
            session: The session of this Estimator's training, which a hook gets.
            input_fn: As for `evaluate`, and so are the others.
        """
        variables = {path: session.get_variable_value(path) for path in session.variables()}
        values = Checkpoint("", session.global_step, variables, {})
        return self._evaluate(values, input_fn, steps, hooks, name)

    def _evaluate(
        self,
        checkpoint: Checkpoint | None,
        input_fn: InputFn,
        steps: int | None,
        hooks: Iterable[SessionRunHook] | None,
        name: str | None,
    ) -> dict[str, Any]:
        steps = check_steps("steps", steps)
        hooks = check_instances("All hooks must be SessionRunHook", SessionRunHook, hooks)
        strategy = reported_by = strategy_for(self.config.eval_distribute)
        if self._taking_steps:  # a pause of training, in which the other workers wait, and cannot help
            reported_by = strategy_for(self.config.train_distribute)
            if strategy.input_context.num_input_pipelines > 1:
                strategy = get_strategy()
        # Training, which waits for it, tells more of an interrupt.
        told = nullcontext() if self._taking_steps else log_interrupt(_NO_METRICS)
        with told:
            metrics = evaluate(
                self._setup,
                strategy=strategy,
                reported_by=reported_by,
                input_fn=input_fn,
                hooks=hooks,
                steps=steps,
                checkpoint=checkpoint,
            )
        if strategy.input_context.input_pipeline_id == 0:  # the first worker writes for all of them
            directory = self.eval_dir(name)
            if directory not in self._eval_writers:
                self._eval_writers[directory] = EventFileWriter(directory)
            write_metrics(self._eval_writers[directory], metrics, checkpoint)
        return metrics

    @closed_at_exit
    def predict(
        self,
        input_fn: InputFn,
        predict_keys: str | Sequence[str] | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Generator[Any, None, None]:
        """Predict, in the order of the input.

        Args:
            input_fn: Returns a Dataset of features; labels are left out.
            predict_keys: Which of the predictions to return; None for all.
            hooks: Called around each batch.
            checkpoint_path: As for ``evaluate``.
            yield_single_examples: Whether to return one example at a time rather than a batch.

        Yields:
            The predictions, in the structure that the model_fn returns them in; NumPy arrays.

        Raises:
            ValueError: A key is none of the predictions', or they differ in length.
            DatasetError: The input is empty, or a step cannot compute with it.
            CheckpointError: The checkpoint cannot be read, or is of another model.
        """
        hooks = check_instances("All hooks must be SessionRunHook", SessionRunHook, hooks)
        with (
            self._setup.opened_checkpoint(checkpoint_path, "predict") as checkpoint,
            log_interrupt("Interrupted while predicting."),
        ):
            yield from predict(
                self._setup,
                strategy=strategy_for(None),
                input_fn=input_fn,
                hooks=hooks,
                checkpoint=checkpoint,
                keys=predict_keys,
                single_examples=yield_single_examples,
            )

    def with_model_fn(self, model_fn: ModelFn) -> Self:
        """Return an Estimator with another model_fn, and otherwise the same: folder, config and parameters.

        Args:
            model_fn: The function. It takes what this Estimator's takes, and may call it.
        """
        other = copy.copy(self)
        other._setup = dataclasses.replace(self._setup, model_fn=model_fn, executables={})
        other._eval_writers = {}
        return other

    def export_savedmodel(
        self,
        export_dir_base: str | bytes | os.PathLike[str],
        serving_input_receiver_fn: ReceiverFn,
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """Do as `export_saved_model`, by its name in TensorFlow 1; ``strip_default_attrs`` is ignored."""
        return self.export_saved_model(
            export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path
        )

    def export_saved_model(
        self,
        export_dir_base: str | bytes | os.PathLike[str],
        serving_input_receiver_fn: ReceiverFn,
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Export the model with the weights of a checkpoint, for `muster.saved_model.load`.

        Args:
            export_dir_base: Where the new folder is made, whose name is the time in seconds since the epoch.
            serving_input_receiver_fn: Returns what requests fill: a function of
                ``build_parsing_serving_input_receiver_fn`` or ``build_raw_serving_input_receiver_fn``, or one
                that returns a `ServingInputReceiver`. To train and to evaluate, labels too: a function of
                ``build_raw_supervised_input_receiver_fn`` or
                ``build_supervised_input_receiver_fn_from_input_fn``, or one that returns a
                `SupervisedInputReceiver`.
            assets_extra: Files to copy into the folder ``assets.extra`` of the export: their paths by those
                that they get there.
            as_text: Ignored: what describes the export is always text.
            checkpoint_path: The checkpoint; None takes the newest, or else what the model is warm-started
                from.
            experimental_mode: What to export: PREDICT; EVAL for the signature ``eval``, which answers loss,
                predictions and metrics of a batch; or TRAIN for ``train``, which answers the loss and the
                predictions of a batch in training, and trains nothing.

        Returns:
            The path of the new folder.

        Raises:
            ValueError: There is no checkpoint, no such mode, or features or labels do not fit the model.
            SavedModelError: The model cannot be exported, or not be written; nothing is left then.
            CheckpointError: The checkpoint cannot be read, or is of another model.

        Source: ``Estimator.export_saved_model`` (tensorflow_estimator/python/estimator/estimator.py).
        """
        receivers = {experimental_mode: serving_input_receiver_fn}
        return self.experimental_export_all_saved_models(
            export_dir_base, receivers, assets_extra, as_text, checkpoint_path
        )

    def experimental_export_all_saved_models(
        self,
        export_dir_base: str | bytes | os.PathLike[str],
        input_receiver_fn_map: Mapping[str, ReceiverFn],
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
    ) -> bytes:
        """Export the model in several modes, in one folder; arguments and errors as for `export_saved_model`.

        Args:
            export_dir_base: As for `export_saved_model`, and so the others.
            input_receiver_fn_map: The functions by their modes.

        Source: ``Estimator.experimental_export_all_saved_models``
        (tensorflow_estimator/python/estimator/estimator.py).
        """
        receiver_fns = receivers_by_mode(input_receiver_fn_map)
        if checkpoint_path is None and self.latest_checkpoint() is None and self._setup.warm_start is None:
            raise ValueError(f"Couldn't find trained model at {self.model_dir}. Train first.")
        return self._export(export_dir_base, receiver_fns, assets_extra, checkpoint_path)

    def _export(
        self,
        export_dir_base: str | bytes | os.PathLike[str],
        receiver_fns: Mapping[ModeKeys, ReceiverFn],
        assets_extra: Mapping[str, str | os.PathLike[str]] | None = None,
        checkpoint_path: str | None = None,
    ) -> bytes:
        """Export the model, with its initial values if there are no others."""
        with self._setup.opened_checkpoint(checkpoint_path, "export") as checkpoint:
            export_dir = timestamped_folder(export_dir_base)
            export(self._setup, checkpoint, export_dir, receiver_fns, assets_extra)
            log_restored(checkpoint)
        return os.fsencode(remote_url(export_dir))

    def _trained(self) -> str:
        path = self.latest_checkpoint()
        if path is None:
            raise ValueError(f"There is no checkpoint in {self.model_dir}: train first.")
        return path

    @contextmanager
    def _while_taking_steps(self) -> Iterator[None]:
        self._taking_steps = True
        try:
            yield
        finally:
            self._taking_steps = False
