"""`train_and_evaluate`: the part of each task of a job, by its role."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from muster._errors import MusterError
from muster.checkpoint import read_metadata
from muster.cluster import Task, TaskType
from muster.cluster.roster import Roster, TaskState
from muster.distribute import (
    AsynchronousStrategy,
    MultiWorkerMirroredStrategy,
    ParameterServerStrategyV1,
    Server,
    has_strategy,
)
from muster.estimator._run_config import RunConfig
from muster.estimator._specs import EvalSpec, TrainSpec, eval_folder
from muster.estimator.hooks._checkpoint_saver import CheckpointSaverListener
from muster.estimator.loop._all_done import log_last_evaluation
from muster.estimator.loop._progress_bar import metrics_line
from muster.estimator.loop._saving import mark_ended
from muster.estimator.roles._continuous_eval import (
    EVALUATED,
    ContinuousEvalListener,
    EstimatorLike,
    EvaluationListener,
    Evaluator,
    is_final,
)
from muster.estimator.roles._training_watch import TrainingWatch
from muster.estimator.roles._who_evaluates import Evaluates, UntilEvaluator, as_evaluator, evaluates
from muster.estimator.session import clock
from muster.lifecycle import SignalWatch, watch_program_end
from muster.net import copied_listener

_log = logging.getLogger(__name__)

# The least time, in seconds, before an evaluator without a throttle looks again.
_LOOK_SECS = 1


def train_and_evaluate(
    estimator: EstimatorLike, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[Mapping[str, Any] | None, list[Any] | None]:
    """Train and evaluate in one process, or do this task's part of it in a cluster.

    In a job of one process there is one call of ``Estimator.train``, and an evaluation after each checkpoint
    but the first, not more often than ``throttle_secs`` allows; the last step is always evaluated. In a
    cluster a chief or worker trains, an evaluator evaluates checkpoints as they appear, and the legacy master
    does both.

    Source: ``tf.estimator.train_and_evaluate`` (tensorflow_estimator/python/estimator/training.py). Here no
    worker waits for the chief, since tasks may start in any order. An evaluator ends at once after its last
    evaluation, also of training that ends before ``max_steps``. Where TensorFlow returns None there
    are two here, so that ``metrics, _ = train_and_evaluate(...)`` does not fail after all training.

    Args:
        estimator: The Estimator.
        train_spec: How to train.
        eval_spec: How to evaluate.

    Returns:
        In a job of one process, the last metrics and the list of the exporters' results; both None if
        training had reached ``max_steps`` already. In a cluster, both None; but where an Estimator without a
        strategy trains in step with others, so that a program for one process runs in several, the same as
        in one process, in tasks that have not evaluated both None.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Tasks of this type neither train nor evaluate.
        MusterError: The tasks of the cluster cannot train together.
        SystemExit: With 130, for Ctrl-C in an evaluator; with 143, for SIGTERM.

    Example:
        ```python
        columns = [muster.feature_column.numeric_column("x")]
        rows = Dataset.from_tensor_slices(({"x": np.arange(8.0)}, np.arange(8) % 2)).batch(4)
        metrics, _ = muster.estimator.train_and_evaluate(
            muster.estimator.LinearClassifier(columns, model_dir="runs/evaluated"),
            muster.estimator.TrainSpec(lambda: rows.repeat(), max_steps=4),
            muster.estimator.EvalSpec(lambda: rows),
        )
        assert "accuracy" in metrics
        ```
    """
    if not isinstance(eval_spec, EvalSpec):
        raise TypeError(f"`eval_spec` must have type `tf.estimator.EvalSpec`. Got: {type(eval_spec)}")
    if not isinstance(estimator, EstimatorLike):
        raise TypeError(f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}")
    if not isinstance(train_spec, TrainSpec):
        raise TypeError(f"`train_spec` must have type `tf.estimator.TrainSpec`. Got: {type(train_spec)}")
    return TrainingExecutor(estimator, train_spec, eval_spec).run() or (None, None)


def make_server(config: RunConfig) -> Server:
    """Return the server of a task, in a job with parameter servers; it is not started.

    A parameter server keeps its snapshots in the folder of the checkpoints.

    Raises:
        MusterError: There are no parameter servers, and no strategy by which the tasks could train together.
    """
    cluster = config.cluster_spec
    if TaskType.PS not in cluster.jobs:
        others = sum(map(cluster.num_tasks, cluster.jobs)) - 1
        raise MusterError(
            f"{Task(config.task_type, config.task_id)} cannot train together with the {others} other tasks "
            f"of its cluster: there are no parameter servers. Given: {cluster}. Give every task "
            "RunConfig(train_distribute=MultiWorkerMirroredStrategy()), or add a job 'ps' to the cluster; or "
            "train in one process: unset TF_CONFIG, or leave only the chief in its cluster. An evaluator may "
            "follow it."
        )
    snapshots = None
    if config.task_type == TaskType.PS and config.model_dir is not None:
        snapshots = os.path.join(config.model_dir, f"ps-{config.task_id}")
    return Server(
        cluster,
        config.task_type,
        config.task_id,
        start=False,
        snapshot_dir=snapshots,
        snapshot_secs=config.snapshot_secs,
        snapshot_updates=config.snapshot_updates,
    )


class TrainingExecutor:
    """Runs one task's part of a job.

    Args:
        estimator: The Estimator.
        train_spec: How to train.
        eval_spec: How to evaluate.
        continuous_eval_listener: Called around each evaluation.
        make_server: Returns the server of this task, if there are other tasks.
        every_steps: The least number of steps between two evaluations while training waits, instead of
            ``throttle_secs``; 0 evaluates the last step only.
    """

    def __init__(
        self,
        estimator: EstimatorLike,
        train_spec: TrainSpec,
        eval_spec: EvalSpec,
        continuous_eval_listener: ContinuousEvalListener | None = None,
        make_server: Callable[[RunConfig], Server] = make_server,
        every_steps: int | None = None,
    ) -> None:
        self._estimator = estimator
        self._train_spec = train_spec
        self._eval_spec = eval_spec
        self._listener = continuous_eval_listener or ContinuousEvalListener()
        self._make_server = make_server
        self._every_steps = every_steps

    def run(self) -> tuple[Mapping[str, Any] | None, list[Any] | None] | None:
        """Do the part of this task's type.

        Returns:
            The last metrics and the exporters' results, or None where TensorFlow's executor returns None: in
            a cluster, unless the Estimator has no strategy and joins others.
        """
        config = self._estimator.config
        if config.cluster_spec or config.task_type == TaskType.EVALUATOR:
            watch_program_end()  # the other tasks wait for this one
        if not config.cluster_spec and config.task_type != TaskType.EVALUATOR:
            _log.info("Running training and evaluation locally (non-distributed).")
            return self.run_local()
        if config.task_type == "local":
            raise ValueError(
                "`task.type` in TF_CONFIG cannot be `local`. Leaving `cluster` and `task` properties in "
                "TF_CONFIG absent triggers train and evaluate `Estimator` locally (non-distributed)."
            )
        if config.task_type not in tuple(TaskType):
            supported = sorted(str(each) for each in TaskType)
            raise ValueError(
                f"Task type {config.task_type} is not supported. Supported task types are {supported}"
            )
        joins = config.lacks_strategy and not has_strategy()
        result: tuple[Mapping[str, Any] | None, list[Any] | None] = (None, None)
        match TaskType(config.task_type):
            case TaskType.CHIEF | TaskType.WORKER if self._in_step:
                result = self.run_synchronous()
            case TaskType.CHIEF:
                self.run_chief()
            case TaskType.MASTER:
                self.run_master()
            case TaskType.WORKER:
                self.run_worker()
            case TaskType.PS:
                self.run_ps()
            case TaskType.EVALUATOR:
                result = self.run_evaluator()
        return result if joins else None

    def run_local(self) -> tuple[Mapping[str, Any] | None, list[Any] | None]:
        """Train, and evaluate after checkpoints. Returns the last metrics and the exporters' results."""
        config = self._estimator.config
        _log.info(
            "Start train and evaluate loop. The evaluate will happen after every checkpoint. Checkpoint "
            "frequency is determined based on RunConfig arguments: save_checkpoints_steps %s or "
            "save_checkpoints_secs %s.",
            config.save_checkpoints_steps,
            config.save_checkpoints_secs,
        )
        evaluation = self._evaluation_listener()
        self._train((*self._train_spec.saving_listeners, evaluation))
        newest, max_steps = self._estimator.latest_checkpoint(), self._train_spec.max_steps
        if not evaluation.heard_of_saves and newest is not None:
            step = int(newest.rpartition("-")[2])
            if max_steps is None or step < max_steps:
                # Training had read all of its input, and was stopped before it was evaluated.
                evaluation.end(None, step)
            elif not read_metadata(newest).get("ended", True):
                # Training had made all steps, and was stopped while the last one was evaluated.
                evaluation.end(None, step)
                mark_ended(newest)
            else:
                log_last_evaluation(eval_folder(self._estimator.model_dir, self._eval_spec.name))
        result = evaluation.eval_result
        return (result.metrics if result else None), evaluation.export_results

    def run_synchronous(self) -> tuple[Mapping[str, Any] | None, list[Any] | None]:
        """Train in step with other workers; the chief evaluates too, unless an evaluator is there or comes.

        Returns the last metrics and the exporters' results, if this task has evaluated.
        """
        config = self._estimator.config
        if not config.is_chief:
            self._train(())
            return None, None
        folder = eval_folder(self._estimator.model_dir, self._eval_spec.name)
        if evaluates(config, in_step=self._in_step) is Evaluates.NEVER:
            _log.info("The evaluator task evaluates the checkpoints of this job.")
            self._train(self._train_spec.saving_listeners)
            return None, None
        right = UntilEvaluator(folder)
        right.announce()
        evaluation = self._evaluation_listener(right)
        self._train((*self._train_spec.saving_listeners, evaluation))
        if not evaluation.heard_of_saves:
            log_last_evaluation(folder)
        result = evaluation.eval_result
        return (result.metrics if result else None), evaluation.export_results

    @property
    def _in_step(self) -> bool:
        """Whether the workers of a cluster train in step."""
        config = self._estimator.config
        joins = config.lacks_strategy and not has_strategy()
        return joins or isinstance(config.train_distribute, MultiWorkerMirroredStrategy)

    def run_chief(self) -> None:
        """Train, calling the saving listeners; the job ends with the chief."""
        with self._beside_servers(starts=True):
            self._train(self._train_spec.saving_listeners)

    def run_worker(self) -> None:
        """Train; the first worker of a cluster without a chief does what a chief does."""
        if self._estimator.config.is_chief:
            self.run_chief()
            return
        with self._beside_servers(starts=False):
            self._train(())

    def run_master(self) -> None:
        """Train and evaluate, as `run_local` does; the job ends with this task."""
        with self._beside_servers(starts=True):
            self._train((*self._train_spec.saving_listeners, self._evaluation_listener()))

    def run_ps(self) -> None:
        """Serve until the job ends."""
        server = self._start_server()
        if server is not None:
            server.join()

    def run_evaluator(self) -> tuple[Mapping[str, Any] | None, list[Any] | None]:
        """Evaluate each new checkpoint until one has reached ``max_steps``, or training has ended.

        Returns the last metrics and the exporters' results.
        """
        task_id = self._estimator.config.task_id
        if task_id > 0:
            raise ValueError(
                "For distributed training, there can only be one `evaluator` task (with task id 0). "
                f"Given task id {task_id}"
            )
        try:
            with SignalWatch().watched() as signals, ExitStack() as resources:
                folder = eval_folder(self._estimator.model_dir, self._eval_spec.name)
                resources.enter_context(as_evaluator(folder, lambda secs: _pause(secs, signals)))
                report = resources.enter_context(_reporting(self._estimator.config))
                results = self._follow_training(signals, report)
            signals.raise_received()  # what came during the last evaluation
        except KeyboardInterrupt:
            _log.info("Exiting evaluation, as it was interrupted.")
            raise SystemExit(130) from None  # the last step may not be evaluated
        return results

    def _train(self, saving_listeners: tuple[CheckpointSaverListener, ...]) -> None:
        self._estimator.train(
            self._train_spec.input_fn,
            max_steps=self._train_spec.max_steps,
            hooks=list(self._train_spec.hooks),
            saving_listeners=list(saving_listeners),
        )

    def _evaluation_listener(self, right: UntilEvaluator | None = None) -> EvaluationListener:
        evaluator = Evaluator(self._estimator, self._eval_spec, self._train_spec.max_steps)
        throttle_secs = self._eval_spec.throttle_secs
        return EvaluationListener(evaluator, throttle_secs, self._listener, self._every_steps, right)

    def _start_server(self) -> Server | None:
        """Start this task's server, unless it is the only task of its cluster."""
        config = self._estimator.config
        cluster = config.cluster_spec
        if not config.master:
            if sum(map(cluster.num_tasks, cluster.jobs)) == 1 and config.task_type != TaskType.PS:
                _log.info("Skip starting muster server as there is only one node in the cluster.")
                return None
            raise RuntimeError(
                "Could not start server; be sure to specify master in RunConfig or set the TF_CONFIG "
                "environment variable. Its `session_master` must not be empty."
            )
        server = self._make_server(config)
        _log.info("Start muster server.")
        server.start()
        return server

    @contextmanager
    def _beside_servers(self, *, starts: bool) -> Iterator[None]:
        """Start this task's server, and let Estimators train variables on the parameter servers.

        Args:
            starts: Whether this is the chief: its values come first, and the job ends when it has trained.
        """
        server = self._start_server()
        if server is None:
            yield
            return
        with server:
            strategy = _asynchronous(self._estimator.config, server, starts=starts)
            with strategy.scope(), closing(strategy):
                yield
                if starts:
                    strategy.end()

    def _follow_training(
        self, signals: SignalWatch, report: Callable[..., None]
    ) -> tuple[Mapping[str, Any] | None, list[Any] | None]:
        """Evaluate checkpoints as they appear, and report the progress; returns the last results."""
        last: tuple[Mapping[str, Any] | None, list[Any] | None] = (None, None)
        spec, max_steps = self._eval_spec, self._train_spec.max_steps
        if spec.start_delay_secs > 0:
            _log.info("Waiting %f secs before starting eval.", spec.start_delay_secs)
            _pause(spec.start_delay_secs, signals)
        evaluator = Evaluator(self._estimator, spec, max_steps)
        training = TrainingWatch(self._estimator.model_dir)
        while True:
            start = clock.now()
            is_over = training.has_ended()
            if not self._listener.before_eval():
                _log.info("Exiting evaluation, as requested by _ContinuousEvalListener.before_eval.")
                return last
            report(state=TaskState.EVALUATING)
            result, exports = evaluator.evaluate_and_export()
            report(state=TaskState.WAITING)
            if result.metrics:
                last = (result.metrics, exports)
                step = int(result.metrics["global_step"])
                report(step=step, evaluation=f"step {step}: {metrics_line(result.metrics)}")
            if not self._listener.after_eval(result):
                _log.info("Exiting evaluation, as requested by _ContinuousEvalListener.after_eval.")
                return last
            if result.metrics and is_final(result.metrics, max_steps):
                step = result.metrics["global_step"]
                _log.info("Exiting evaluation, global_step=%s >= train max_steps=%s", step, max_steps)
                return last
            if is_over:
                _log.info("Exiting evaluation, as training has ended, and its last step is evaluated.")
                return last
            if training.has_ended():
                continue
            pause = spec.throttle_secs - (clock.now() - start)
            if result.status != EVALUATED:
                pause = max(pause, _LOOK_SECS)
            if pause > 0:
                _log.info("Waiting %f secs before starting next eval run.", pause)
            end = clock.now() + pause
            _pause(min(pause, _LOOK_SECS) if training.seen else pause, signals)
            while training.seen and clock.now() < end and not training.has_ended():
                _pause(min(_LOOK_SECS, end - clock.now()), signals)


def _asynchronous(config: RunConfig, server: Server, *, starts: bool) -> AsynchronousStrategy:
    """Return the strategy of a task beside parameter servers, with the settings of the configured one."""
    strategy, partitioner, max_staleness = config.train_distribute, None, config.max_staleness
    if isinstance(strategy, ParameterServerStrategyV1):
        partitioner = strategy.variable_partitioner
        max_staleness = strategy.max_staleness if max_staleness is None else max_staleness
    return AsynchronousStrategy(server, starts=starts, partitioner=partitioner, max_staleness=max_staleness)


@contextmanager
def _reporting(config: RunConfig) -> Iterator[Callable[..., None]]:
    """Answer the launcher's questions after the progress, while the block runs, where it has made a way."""
    if (descriptor := os.environ.get("MUSTER_LISTEN_FD")) is None:
        yield lambda **fields: None
        return
    task = Task(config.task_type, config.task_id)
    # A copy, for the program may call `train_and_evaluate` again.
    environ = {**os.environ, "MUSTER_LISTEN_FD": copied_listener(descriptor)}
    roster = Roster.from_environ(environ, config.cluster_spec, task, peers=())
    with closing(roster):
        yield roster.report
        roster.done()


def _pause(secs: float, signals: SignalWatch) -> None:
    """Sleep; Ctrl-C is raised at once.

    Elsewhere it is only noted, since Python drops exceptions that are raised in a garbage collection.
    """
    signals.waiting = True
    try:
        signals.raise_received()
        if secs > 0:
            clock.sleep(secs)
    finally:
        signals.waiting = False
