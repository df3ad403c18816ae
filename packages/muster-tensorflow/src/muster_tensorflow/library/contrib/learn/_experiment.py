"""``tf.contrib.learn.Experiment``: an Estimator, its input, and schedules of training and evaluation."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from muster import estimator as core
from muster.cluster import Task, TaskType
from muster.estimator import (
    CheckpointSaverListener,
    EvalSpec,
    Exporter,
    GlobalStepWaiterHook,
    RunConfig,
    SessionRunHook,
    TrainSpec,
)
from muster.extend import ContinuousEvalListener, EvalResult, TrainingExecutor, clock
from muster_tensorflow.library.contrib.learn._estimator import Estimator

_log = logging.getLogger(__name__)

# How much later each worker begins, in steps, where they begin one after the other.
_STEPS_APART = 8000.0

InputFn = Callable[..., Any]
Predicate = Callable[[Mapping[str, Any] | None], bool]


class Experiment:
    """Holds an Estimator, its input and its hooks, and trains and evaluates with them, in one task or many.

    In a cluster each method does the part of this task, as ``train_and_evaluate`` does.

    Source: tensorflow/contrib/learn/python/learn/experiment.py, ``Experiment``, of TensorFlow 1.15.
    """

    def __init__(
        self,
        estimator: Estimator | core.Estimator,
        train_input_fn: InputFn,
        eval_input_fn: InputFn,
        eval_metrics: Mapping[Any, Any] | None = None,
        train_steps: int | None = None,
        eval_steps: int | None = 100,
        train_monitors: Iterable[SessionRunHook] | None = None,
        eval_hooks: Iterable[SessionRunHook] | None = None,
        eval_delay_secs: float = 120,
        continuous_eval_throttle_secs: float = 60,
        min_eval_frequency: int | None = None,
        delay_workers_by_global_step: bool = False,
        export_strategies: Exporter | Sequence[Exporter] | None = None,
        train_steps_per_iteration: int | None = None,
        checkpoint_and_export: bool = False,
        saving_listeners: Iterable[CheckpointSaverListener] | None = None,
        check_interval_secs: float = 5,
    ) -> None:
        """Describe the experiment.

        Args:
            estimator: A ``tf.contrib.learn.Estimator`` or a ``tf.estimator.Estimator``.
            train_input_fn: The input of training.
            eval_input_fn: The input of evaluations.
            eval_metrics: More metrics of evaluations, by name, of a ``tf.contrib.learn.Estimator``.
            train_steps: The global step to stop at; None for no limit.
            eval_steps: How many batches an evaluation takes; None takes all.
            train_monitors: The hooks of training.
            eval_hooks: The hooks of evaluations.
            eval_delay_secs: How long continuous evaluation waits before it begins, in seconds.
            continuous_eval_throttle_secs: The least time between two evaluations, in seconds.
            min_eval_frequency: The least number of steps between two evaluations of `train_and_evaluate`,
                which come after checkpoints; 0 evaluates after training only. None goes by the time.
            delay_workers_by_global_step: Whether workers beside parameter servers begin one after the other.
            export_strategies: The exporters.
            train_steps_per_iteration: How many steps `continuous_train_and_eval` takes between two
                evaluations; None for a tenth of ``train_steps``, or 1000 without a limit.
            checkpoint_and_export: Unused: exports come after evaluations, as these after checkpoints.
            saving_listeners: Called before and after each checkpoint.
            check_interval_secs: Unused.

        Raises:
            ValueError: ``estimator`` is none, or one of ``tf.estimator`` that is to have ``eval_metrics``.
        """
        if isinstance(estimator, Estimator):
            estimator = estimator.core_estimator(eval_metrics)
        elif eval_metrics is not None:
            raise ValueError(
                "`eval_metrics` must be `None` with `tf.estimator.Estimator`. Use `eval_metric_ops` in "
                "`EstimatorSpec` instead."
            )
        if not isinstance(estimator, core.Estimator):
            raise ValueError(f"`estimator` must be a muster.estimator.Estimator, got {estimator!r}.")
        self._estimator = estimator
        self._train_input_fn = train_input_fn
        self._eval_input_fn = eval_input_fn
        self._train_steps = train_steps
        self._eval_steps = eval_steps
        self._train_hooks = list(train_monitors or ())
        self._eval_hooks = list(eval_hooks or ())
        self._eval_delay_secs = eval_delay_secs
        self._throttle_secs = continuous_eval_throttle_secs
        self._every_steps = min_eval_frequency
        self._delays_workers = delay_workers_by_global_step
        self._exporters = export_strategies
        self._steps_per_iteration = train_steps_per_iteration
        self._saving_listeners = list(saving_listeners or ())

    @property
    def estimator(self) -> core.Estimator:
        """The Estimator."""
        return self._estimator

    @property
    def train_steps(self) -> int | None:
        """The global step to stop at."""
        return self._train_steps

    @property
    def eval_steps(self) -> int | None:
        """The number of batches of an evaluation."""
        return self._eval_steps

    def extend_train_hooks(self, additional_hooks: Iterable[SessionRunHook]) -> None:
        """Add hooks of training."""
        self._train_hooks += additional_hooks

    def train(self, delay_secs: float | None = None) -> None:
        """Train: all of it in one process, or this task's part of it, without evaluations.

        Args:
            delay_secs: How long to wait first, in seconds.

        Raises:
            ValueError: A task of this type does not train.
        """
        config = self._estimator.config
        _wait(delay_secs, "training")
        if TaskType.PS not in config.cluster_spec.jobs:
            self._estimator.train(
                self._train_input_fn,
                self._train_hooks,
                max_steps=self._train_steps,
                saving_listeners=self._saving_listeners,
            )
            return
        match config.task_type:
            case TaskType.CHIEF | TaskType.MASTER:
                self._executor().run_chief()
            case TaskType.WORKER:
                self._executor(self._delayed_hooks()).run_worker()
            case _:
                raise ValueError(
                    f"{Task(config.task_type, config.task_id)} does not train. Let a parameter server run "
                    "'run_std_server', and an evaluator 'continuous_eval'."
                )

    def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> Mapping[str, Any]:
        """Evaluate the newest checkpoint, once.

        Args:
            delay_secs: How long to wait first, in seconds.
            name: Tells evaluations apart: see ``Estimator.evaluate``.

        Returns:
            The metrics by name.
        """
        _wait(delay_secs, "evaluation")
        return self._estimator.evaluate(
            self._eval_input_fn, self._eval_steps, list(self._eval_hooks), name=name
        )

    def continuous_eval(
        self,
        delay_secs: float | None = None,
        throttle_delay_secs: float | None = None,
        continuous_eval_predicate_fn: Predicate | None = None,
        name: str = "continuous",
    ) -> None:
        """Evaluate each new checkpoint, until the last one is evaluated.

        Args:
            delay_secs: How long to wait first, in seconds; None for ``eval_delay_secs``.
            throttle_delay_secs: The least time between two evaluations, in seconds; None for the
                experiment's.
            continuous_eval_predicate_fn: Called with the last metrics, None before there are some; evaluation
                ends when it returns False.
            name: Tells evaluations apart: see ``Estimator.evaluate``.
        """
        self._follow(self._eval_input_fn, delay_secs, throttle_delay_secs, continuous_eval_predicate_fn, name)

    def continuous_eval_on_train_data(
        self,
        delay_secs: float | None = None,
        throttle_delay_secs: float | None = None,
        continuous_eval_predicate_fn: Predicate | None = None,
        name: str = "continuous_on_train_data",
    ) -> None:
        """Do as `continuous_eval` on the data of training."""
        self._follow(
            self._train_input_fn, delay_secs, throttle_delay_secs, continuous_eval_predicate_fn, name
        )

    def continuous_train_and_eval(
        self, continuous_eval_predicate_fn: Predicate | None = None
    ) -> tuple[Mapping[str, Any] | None, list[Any]]:
        """Train some steps, evaluate and export, by turns in one process, until ``train_steps`` are done.

        Args:
            continuous_eval_predicate_fn: Called with the last metrics, None before there are some; all ends
                when it returns False.

        Returns:
            The metrics of the last evaluation by name, None without one, and what the exporters returned.
        """
        steps = self._steps_per_iteration or max((self._train_steps or 10_000) // 10, 1)
        metrics: Mapping[str, Any] | None = None
        exports: list[Any] = []
        while continuous_eval_predicate_fn is None or continuous_eval_predicate_fn(metrics):
            if metrics and self._train_steps and metrics["global_step"] >= self._train_steps:
                _log.info("All %d steps are done.", self._train_steps)
                break
            self._estimator.train(
                self._train_input_fn, self._train_hooks, steps, saving_listeners=self._saving_listeners
            )
            metrics, exports = self._evaluate_and_export(self._eval_steps)
        return metrics, exports

    def train_and_evaluate(self) -> tuple[Mapping[str, Any] | None, list[Any] | None]:
        """Train and evaluate by turns in one process, or do this task's part: see `train_and_evaluate`."""
        return self._executor().run() or (None, None)

    def test(self) -> tuple[Mapping[str, Any], list[Any]]:
        """Train a step, evaluate a batch, and export, to see whether all of it works.

        Returns:
            The metrics by name, and what the exporters returned.
        """
        self._estimator.train(self._train_input_fn, self._train_hooks, steps=1)
        return self._evaluate_and_export(1)

    def run_std_server(self) -> None:
        """Serve as a parameter server until the job ends."""
        self._executor().run_ps()

    def _evaluate_and_export(self, steps: int | None) -> tuple[Mapping[str, Any], list[Any]]:
        metrics = self._estimator.evaluate(
            self._eval_input_fn, steps, list(self._eval_hooks), name="one_pass"
        )
        path = self._estimator.latest_checkpoint() or ""
        folder = Path(self._estimator.model_dir) / "export"
        return metrics, [
            exporter.export(self._estimator, str(folder / exporter.name), path, metrics, True)
            for exporter in self._eval_spec(self._eval_input_fn).exporters
        ]

    def _follow(
        self,
        input_fn: InputFn,
        delay_secs: float | None,
        throttle_secs: float | None,
        predicate: Predicate | None,
        name: str,
    ) -> None:
        spec = self._eval_spec(input_fn)._replace(
            name=name,
            start_delay_secs=self._eval_delay_secs if delay_secs is None else delay_secs,
            throttle_secs=self._throttle_secs if throttle_secs is None else throttle_secs,
        )
        listener = None if predicate is None else _Predicate(predicate)
        TrainingExecutor(self._estimator, self._train_spec(), spec, listener).run_evaluator()

    def _executor(self, hooks: Iterable[SessionRunHook] = ()) -> TrainingExecutor:
        return TrainingExecutor(
            self._estimator,
            self._train_spec(hooks),
            self._eval_spec(self._eval_input_fn),
            every_steps=self._every_steps,
        )

    def _train_spec(self, hooks: Iterable[SessionRunHook] = ()) -> TrainSpec:
        return TrainSpec(
            self._train_input_fn,
            self._train_steps,
            (*self._train_hooks, *hooks),
            saving_listeners=self._saving_listeners,
        )

    def _eval_spec(self, input_fn: InputFn) -> EvalSpec:
        return EvalSpec(
            input_fn,
            self._eval_steps,
            hooks=self._eval_hooks,
            exporters=self._exporters,
            start_delay_secs=self._eval_delay_secs,
            throttle_secs=self._throttle_secs,
        )

    def _delayed_hooks(self) -> list[SessionRunHook]:
        """Return what lets this worker begin after those before it."""
        number = self._estimator.config.task_id + 1
        if not self._delays_workers:
            return []
        return [GlobalStepWaiterHook(int(_STEPS_APART * math.log(number + 1)))]


class _Predicate(ContinuousEvalListener):
    """Asks a function, before each evaluation, whether to go on."""

    def __init__(self, goes_on: Predicate) -> None:
        self._goes_on = goes_on
        self._metrics: Mapping[str, Any] | None = None

    def before_eval(self) -> bool:
        return self._goes_on(self._metrics)

    def after_eval(self, eval_result: EvalResult) -> bool:
        self._metrics = eval_result.metrics or self._metrics
        return True


def run_experiment(
    experiment_fn: Callable[[RunConfig, Any], Experiment],
    run_config: RunConfig,
    schedule: str | None = None,
    hparams: Any = None,
) -> Any:
    """Make an experiment, and do what the schedule names: by default, this task's part of the job.

    Args:
        experiment_fn: Returns the `Experiment` for a config and hyperparameters.
        run_config: The config; it has a ``model_dir``.
        schedule: The name of a method of `Experiment`. None takes ``train_and_evaluate``, which does the part
            of a chief, a worker, an evaluator or a parameter server in a cluster.
        hparams: Passed to ``experiment_fn``.

    Returns:
        What the method returns.

    Raises:
        TypeError: An argument has the wrong type, or ``experiment_fn`` returns no `Experiment`.
        ValueError: There is no such schedule, or ``run_config`` has no ``model_dir``.

    Source: tensorflow/contrib/learn/python/learn/learn_runner.py, ``run``, of TensorFlow 1.15.
    """
    if not callable(experiment_fn):
        raise TypeError(f'Experiment builder "{experiment_fn}" is not callable.')
    if not isinstance(run_config, RunConfig):
        raise TypeError(f"`run_config` must be a RunConfig, got {run_config!r}.")
    if not run_config.model_dir:
        raise ValueError("Must specify `model_dir` in `run_config`: give it RunConfig(model_dir=...).")
    experiment = experiment_fn(run_config, hparams)
    if not isinstance(experiment, Experiment):
        raise TypeError(f"Experiment builder did not return an Experiment instance, got {experiment!r}.")
    name = schedule or "train_and_evaluate"
    if name not in SCHEDULES:
        raise ValueError(f"There is no schedule {name!r}. Schedules: {', '.join(SCHEDULES)}.")
    return getattr(experiment, name)()


SCHEDULES = (
    "continuous_eval",
    "continuous_eval_on_train_data",
    "continuous_train_and_eval",
    "evaluate",
    "run_std_server",
    "test",
    "train",
    "train_and_evaluate",
)
"""The methods of `Experiment` that `run_experiment` calls by name."""


def _wait(secs: float | None, before: str) -> None:
    if secs:
        _log.info("Waiting %g secs before starting %s.", secs, before)
        clock.sleep(secs)
