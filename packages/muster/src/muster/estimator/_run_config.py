"""`RunConfig`: how an Estimator runs, and in which folder."""

import copy
import dataclasses
import inspect
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from muster._errors import ClusterError
from muster._paths import local_path
from muster.cluster import (
    ClusterSpec,
    Task,
    TaskContext,
    TaskType,
    TFConfig,
    config_of_environment,
    task_context,
)
from muster.distribute import ParameterServerStrategy, ParameterServerStrategyV1, Strategy
from muster.estimator._checks import check_number, check_steps, whole_steps

_log = logging.getLogger(__name__)

# Stands for "neither was given", which None does not: None turns checkpoints off.
_UNSET: Any = object()
_DEFAULT_CHECKPOINT_SECS = 600
# Numbers of steps, of which fractions are rounded up.
_STEPS = ("save_summary_steps", "save_checkpoints_steps", "log_step_count_steps")
# Fields that TensorFlow's RunConfig does not have.
_MUSTER_FIELDS = ("steps_per_execution", "profile_dir", "snapshot_secs", "snapshot_updates", "max_staleness")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistributeConfig:
    """Strategies for training and evaluation, as one argument.

    Source: ``DistributeConfig`` (tensorflow/python/distribute/distribute_config.py).

    Args:
        train_distribute: The strategy to train with.
        eval_distribute: The strategy to evaluate with.
        remote_cluster: A cluster to drive from outside, which muster does not do.
    """

    train_distribute: Strategy | None = None
    eval_distribute: Strategy | None = None
    remote_cluster: object = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Configures how an Estimator runs, and in which folder.

    The place of this process in its job is read when the RunConfig is built, and offered as properties: from
    `find_environment`, or from the resolver that the strategy to train with was built with. Follows
    ``tf.estimator.RunConfig`` (tensorflow_estimator/python/estimator/run_config.py); its arguments that have
    no meaning under JAX are accepted and checked, and have no effect.

    Args:
        model_dir: Where to keep checkpoints and summaries. None: the Estimator's, or a temporary directory.
        tf_random_seed: The seed of all randomness.
        save_summary_steps: Write summaries every so many steps; 0 or None for never.
        save_checkpoints_steps: Save every so many steps.
        save_checkpoints_secs: Save every so many seconds. With neither of the two given: 600; with both None:
            no checkpoints.
        session_config: Accepted with a warning and without effect: JAX has no sessions.
        keep_checkpoint_max: How many checkpoints to keep; 0 or None for all.
        keep_checkpoint_every_n_hours: Beyond those, keep one checkpoint every so many hours.
        log_step_count_steps: Log the loss and the speed every so many steps; None for never, and for no bar
            on a terminal.
        train_distribute: The strategy to train with.
        device_fn: No effect: strategies place computations.
        protocol: No effect.
        eval_distribute: The strategy to evaluate with. A chief that evaluates in a pause of training does so
            by itself, and does not use a strategy for several workers.
        experimental_distribute: Strategies for both, in place of the two above.
        experimental_max_worker_delay_secs: No effect: tasks may start in any order, so no worker waits.
        session_creation_timeout_secs: How long, in seconds, a worker may keep the others waiting from the
            beginning of training to its first step. The workers connect before, when
            MultiWorkerMirroredStrategy is built, which has an argument of this name, too.
        checkpoint_save_graph_def: No effect: there is no graph to save.
        steps_per_execution: How many steps of training to dispatch together, which saves time if steps are
            short. Hooks are still called at their steps: fewer steps are dispatched before a step at which a
            hook is due, and a hook without ``SessionRunHook.steps_until_due`` is due at every step. No effect
            with several workers.
        profile_dir: Where to write a trace of some steps of training, which TensorBoard's profiler and
            Perfetto show, and a table of where their time goes, in a folder for each task. None: the
            environment variable ``MUSTER_PROFILE``, which ``muster run --profile`` sets.
        snapshot_secs: How many seconds of training a parameter server may lose when it is killed: the period
            of the snapshots from which it goes on, in ``model_dir``. None for any number.
        snapshot_updates: How many updates it may lose then; None for any number.
        max_staleness: With parameter servers, how many of its steps a worker may be ahead of the slowest one.
            None lets workers train without waiting for each other; 0 makes them train in step, on the mean
            of their gradients. A ParameterServerStrategyV1 may say it, too. No effect in one process.

    Raises:
        ValueError: An argument is out of range, or ``TF_CONFIG`` is wrong (a ClusterError).
        TypeError: An argument has the wrong type.

    Example:
        ```python
        config = muster.estimator.RunConfig("runs/digits", tf_random_seed=1, save_checkpoints_steps=500)
        assert config.replace(keep_checkpoint_max=2).keep_checkpoint_max == 2
        ```
    """

    model_dir: str | os.PathLike[str] | None = dataclasses.field(default=None, kw_only=False)
    tf_random_seed: int | None = None
    save_summary_steps: int | None = 100
    save_checkpoints_steps: int | None = _UNSET
    save_checkpoints_secs: float | None = _UNSET
    session_config: Any = None
    keep_checkpoint_max: int | None = 5
    keep_checkpoint_every_n_hours: float | None = 10000
    log_step_count_steps: int | None = 100
    train_distribute: Strategy | None = None
    device_fn: Callable[[Any], Any] | None = None
    protocol: str | None = None
    eval_distribute: Strategy | None = None
    experimental_distribute: DistributeConfig | None = None
    experimental_max_worker_delay_secs: int | None = None
    session_creation_timeout_secs: float = 7200
    checkpoint_save_graph_def: bool = True
    steps_per_execution: int = 1
    profile_dir: str | os.PathLike[str] | None = None
    snapshot_secs: float | None = 10.0
    snapshot_updates: int | None = None
    max_staleness: int | None = None
    _place: TaskContext = dataclasses.field(init=False, repr=False, compare=False)
    _wants_to_join: bool = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        steps, secs = self.save_checkpoints_steps, self.save_checkpoints_secs
        if steps is _UNSET and secs is _UNSET:
            secs = _DEFAULT_CHECKPOINT_SECS
        self._set(
            save_checkpoints_steps=None if steps is _UNSET else steps,
            save_checkpoints_secs=None if secs is _UNSET else secs,
        )
        _check_one_period(self.save_checkpoints_steps, self.save_checkpoints_secs)
        tf_config = config_of_environment()
        if tf_config.raw:
            _log.info("TF_CONFIG environment variable: %s", tf_config.raw)
        self._check_fields()
        profile_dir = self.profile_dir or os.environ.get("MUSTER_PROFILE")
        self._set(
            model_dir=_model_dir(self.model_dir, tf_config.model_dir),
            profile_dir=local_path(profile_dir, remote=True) if profile_dir else None,
        )
        _warn_of_session(self.session_config)
        self._take_strategies(tf_config)
        described = _as_resolved(tf_config, self.train_distribute)
        wants_to_join = self.train_distribute is None and _is_of_workers(tf_config.cluster)
        chief_required = self.train_distribute is None and not wants_to_join
        place = task_context(described, chief_required=chief_required)
        self._set(_place=place, _wants_to_join=wants_to_join)

    def replace(self, **changes: Any) -> "RunConfig":
        """Return a copy with other values; its task stays the same.

        Args:
            **changes: Arguments of RunConfig. A new period of checkpoints, in steps or in seconds, clears
                the other one.

        Raises:
            ValueError: A name is not an argument, or a value is out of range.
            TypeError: A value has the wrong type.
        """
        allowed = [field.name for field in dataclasses.fields(self) if field.init]
        for name in changes:
            if name not in allowed:
                names = [name for name in allowed if name not in _MUSTER_FIELDS]
                raise ValueError(
                    f"Replacing {name} is not supported. Allowed properties are {names}, and of muster's "
                    f"{', '.join(_MUSTER_FIELDS)}."
                )
        _check_one_period(changes.get("save_checkpoints_steps"), changes.get("save_checkpoints_secs"))
        if changes.get("save_checkpoints_steps") is not None:
            changes["save_checkpoints_secs"] = None
        elif changes.get("save_checkpoints_secs") is not None:
            changes["save_checkpoints_steps"] = None
        for name in ("model_dir", "profile_dir"):
            if changes.get(name) is not None:
                changes[name] = local_path(changes[name], remote=True)
        replaced = copy.copy(self)
        replaced._set(**changes)
        replaced._check_fields()
        replaced._check_strategies()
        _warn_of_session(changes.get("session_config"))
        return replaced

    @property
    def cluster_spec(self) -> ClusterSpec:
        """All tasks; empty for a job of one process and for an evaluator."""
        return self._place.cluster_spec

    @property
    def task_type(self) -> str:
        """The job of this task, such as ``"worker"``."""
        return self._place.task_type

    @property
    def task_id(self) -> int:
        """The number of this task in its job."""
        return self._place.task_id

    @property
    def is_chief(self) -> bool:
        """True if this task writes checkpoints and summaries."""
        return self._place.is_chief

    @property
    def num_worker_replicas(self) -> int:
        """The number of tasks that train, with the chief."""
        return self._place.num_worker_replicas

    @property
    def num_ps_replicas(self) -> int:
        """The number of parameter servers."""
        return self._place.num_ps_replicas

    @property
    def global_id_in_cluster(self) -> int | None:
        """The number of this task among all: chief 0, parameter servers last; None for an evaluator."""
        return self._place.global_id_in_cluster

    @property
    def master(self) -> str:
        """The address of this task with its protocol; empty in a job of one process."""
        return self._place.master

    @property
    def evaluation_master(self) -> str:
        """The address to evaluate at; empty unless ``TF_CONFIG`` has one."""
        return self._place.evaluation_master

    @property
    def service(self) -> Mapping[str, Any] | None:
        """Free settings of a cluster manager, from ``TF_CONFIG``."""
        return self._place.service

    @property
    def lacks_strategy(self) -> bool:
        """True if a cluster of synchronous workers lacks a strategy.

        Such as that of ``muster run --workers 2``. An Estimator then takes MultiWorkerMirroredStrategy.
        TensorFlow refuses such a cluster without a chief, and with one its workers cannot train.
        """
        return self._wants_to_join and self.train_distribute is None

    def _set(self, **values: Any) -> None:
        """Set fields of this still unpublished object."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_fields(self) -> None:
        """Check all fields, convert integers such as 1e6 to int, and round fractions of steps up."""
        if self.model_dir == "":
            raise ValueError("model_dir should be non-empty.")
        for name in ("model_dir", "profile_dir"):
            if not isinstance(getattr(self, name), str | bytes | os.PathLike | None):
                raise TypeError(f"{name} must be a path, given: {getattr(self, name)!r}.")
        for name, positive, integer in (
            ("save_summary_steps", False, False),
            ("save_checkpoints_steps", False, False),
            ("save_checkpoints_secs", False, False),
            ("keep_checkpoint_max", False, True),
            ("keep_checkpoint_every_n_hours", True, False),
            ("log_step_count_steps", True, False),
            ("session_creation_timeout_secs", True, False),
            ("steps_per_execution", True, True),
            ("snapshot_secs", True, False),
            ("snapshot_updates", True, True),
            ("max_staleness", False, True),
        ):
            value = getattr(self, name)
            if value is not None:
                message = f"{name} should be {'>' if positive else '>='} 0, given: {value!r}."
                number = check_number(name, value, message, positive=positive, integer=integer)
                self._set(**{name: whole_steps(name, number) if name in _STEPS else number})
        if not _is_integer_or_none(self.tf_random_seed):
            raise ValueError(f"tf_random_seed must be integer. Given: {self.tf_random_seed!r}")
        if not _is_integer_or_none(self.experimental_max_worker_delay_secs):
            raise ValueError(
                "experimental_max_worker_delay_secs must be an integer if set. "
                f"Given: {self.experimental_max_worker_delay_secs!r}"
            )
        if self.session_config is not None and type(self.session_config).__name__ != "ConfigProto":
            raise ValueError(
                f"session_config must be instance of ConfigProto. Given: {self.session_config!r}. JAX has no "
                "sessions: leave it out."
            )
        if self.device_fn is not None and not _takes_only_op(self.device_fn):
            raise ValueError(
                f'device_fn must be callable with exactly one argument "op". Given: {self.device_fn!r}'
            )
        if self.protocol not in (None, "grpc", "grpc+verbs"):
            raise ValueError(f"protocol should be grpc or grpc+verbs. Given: {self.protocol!r}")

    def _check_strategies(self) -> None:
        for name in ("train_distribute", "eval_distribute"):
            if not isinstance(given := getattr(self, name), Strategy | None):
                raise TypeError(
                    f"{name} must be a strategy, such as MirroredStrategy(), or None, given: {given!r}."
                )
            if isinstance(given, ParameterServerStrategy):
                raise ValueError(
                    f"{name} must not be ParameterServerStrategy, which trains through a ClusterCoordinator. "
                    "Estimators take ParameterServerStrategyV1, which is TensorFlow 1's "
                    "distribute.experimental.ParameterServerStrategy."
                )
        strategy = self.train_distribute
        if isinstance(strategy, ParameterServerStrategyV1) and strategy.max_staleness is not None:
            if self.max_staleness not in (None, strategy.max_staleness):
                raise ValueError(
                    f"max_staleness is {self.max_staleness} in RunConfig, and {strategy.max_staleness} in "
                    "its train_distribute. Give one of them."
                )

    def _take_strategies(self, tf_config: TFConfig) -> None:
        """Take over the strategies of `experimental_distribute`, each of which may be set only once."""
        both = self.experimental_distribute
        if both is not None:
            if not isinstance(both, DistributeConfig):
                raise TypeError(f"experimental_distribute must be a DistributeConfig, given: {both!r}.")
            for name in ("train_distribute", "eval_distribute"):
                if getattr(self, name) is not None and getattr(both, name) is not None:
                    raise ValueError(f"Either `{name}` or`experimental_distribute.{name}` can be set.")
            if both.remote_cluster is not None:
                if tf_config.cluster:
                    raise ValueError(
                        'Cannot set both "cluster_spec" of TF_CONFIG and '
                        "`experimental_distribute.remote_cluster`"
                    )
                raise ValueError(
                    "`experimental_distribute.remote_cluster` is not supported: muster does not drive a "
                    f"cluster from outside. Given: {both.remote_cluster!r}. Start each task with a TF_CONFIG."
                )
            self._set(
                train_distribute=self.train_distribute or both.train_distribute,
                eval_distribute=self.eval_distribute or both.eval_distribute,
            )
        self._check_strategies()
        if self.train_distribute is not None or self.eval_distribute is not None:
            _log.info("Initializing RunConfig with distribution strategies.")


def _is_of_workers(cluster: ClusterSpec) -> bool:
    """Return whether the tasks that train in a cluster can only do so in step, without parameter servers."""
    if TaskType.WORKER not in cluster.jobs or {TaskType.PS, TaskType.MASTER} & {*cluster.jobs}:
        return False
    return cluster.num_tasks(TaskType.WORKER) > 0


def _as_resolved(tf_config: TFConfig, strategy: Strategy | None) -> TFConfig:
    """Return ``TF_CONFIG`` with the cluster and task that a strategy was built with."""
    resolver = strategy.cluster_resolver if isinstance(strategy, Strategy) else None
    if resolver is None:
        return tf_config
    known = TFConfig.from_resolver(resolver)
    return dataclasses.replace(
        tf_config, cluster=known.cluster, task_type=known.task_type, task_index=known.task_index
    )


def resolve_config(config: RunConfig | None, model_dir: str | os.PathLike[str] | None) -> RunConfig:
    """Return the config of an Estimator, with a model_dir.

    Source: ``maybe_overwrite_model_dir_and_session_config``
    (tensorflow_estimator/python/estimator/estimator.py).

    Args:
        config: The Estimator's argument; None for a RunConfig of defaults.
        model_dir: The Estimator's argument; must be the config's if both are given. If neither is, a
            temporary directory is made.

    Raises:
        ValueError: ``config`` is not a RunConfig, or has another ``model_dir``.
    """
    if config is None:
        config = RunConfig()
        _log.info("Using default config.")
    if not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config}.")
    given = None if model_dir is None else local_path(model_dir, remote=True)
    if given is not None and config.model_dir is not None and given != config.model_dir:
        raise ValueError(
            "`model_dir` are set both in constructor and `RunConfig`, but with different values. "
            f"In constructor: '{given}', in `RunConfig`: '{config.model_dir}' . Give one of them."
        )
    directory = given or config.model_dir
    if not directory:
        directory = tempfile.mkdtemp()
        _log.warning("Using temporary folder as model directory: %s", directory)
    return config.replace(model_dir=directory)


def check_train_args(config: RunConfig, steps: object, max_steps: object) -> tuple[int | None, int | None]:
    """Return the numbers of steps of ``Estimator.train`` after a check.

    Args:
        config: The Estimator's; parameter servers and evaluators do not train.
        steps: How many steps to add.
        max_steps: The step to stop at.

    Raises:
        TypeError: A number of steps is not a number.
        ValueError: Both are given, one is not positive, or this task does not train.
    """
    if config.task_type not in (TaskType.CHIEF, TaskType.MASTER, TaskType.WORKER):
        raise ValueError(
            "Train has been called wrong configuration. Please use tf.estimator.train_and_evaluate which "
            f"calls proper API according to given configuration. Current configuration: {config}."
        )
    if steps is not None and max_steps is not None:
        raise ValueError("Can not provide both steps and max_steps.")
    return check_steps("steps", steps), check_steps("max_steps", max_steps)


def check_workers(config: RunConfig, strategy: Strategy) -> None:
    """Check that a strategy trains with all workers of the job; warn if it leaves out parameter servers.

    Raises:
        ClusterError: The strategy has more or fewer workers than the cluster.
    """
    if strategy.steps.shared or strategy.workers.share is not None:
        return
    workers, task = strategy.input_context.num_input_pipelines, Task(config.task_type, config.task_id)
    servers = config.num_ps_replicas
    if workers == config.num_worker_replicas and servers:
        _log.warning(
            "Estimator.train trains in this process alone, %s: the %s of the cluster %s left out. For "
            "parameter servers, call train_and_evaluate(estimator, TrainSpec(input_fn, max_steps), "
            "EvalSpec(eval_input_fn)) in every task.",
            task,
            "parameter server" if servers == 1 else f"{servers} parameter servers",
            "is" if servers == 1 else "are",
        )
    if workers != config.num_worker_replicas:
        if servers:
            raise ClusterError(
                f"{task} cannot train by Estimator.train, which knows nothing of the parameter servers of "
                f"the cluster and of its {config.num_worker_replicas} training tasks. Call "
                "train_and_evaluate(estimator, TrainSpec(input_fn, max_steps), EvalSpec(eval_input_fn)) in "
                "every task, or unset TF_CONFIG to train in one process."
            )
        raise ClusterError(
            f"{task} cannot train: the cluster has {config.num_worker_replicas} training tasks, and "
            f"{strategy} trains with {workers}. Give every task "
            "RunConfig(train_distribute=MultiWorkerMirroredStrategy()), or unset TF_CONFIG to train "
            "in one process."
        )


def _check_one_period(steps: object, secs: object) -> None:
    if steps is not None and secs is not None:
        raise ValueError("`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.")


def _warn_of_session(config: object) -> None:
    if config is not None:
        _log.warning("session_config has no effect: JAX has no sessions.")


def _model_dir(argument: str | os.PathLike[str] | None, in_tf_config: str | None) -> str | None:
    """Return the directory that the argument and ``TF_CONFIG`` agree on."""
    if in_tf_config == "":
        raise ValueError("model_dir in TF_CONFIG should be non-empty.")
    model_dir = None if argument is None else local_path(argument, remote=True)
    if in_tf_config is None:
        return model_dir
    in_tf_config = local_path(in_tf_config, remote=True)
    if model_dir not in (None, in_tf_config):
        raise ValueError(
            "`model_dir` provided in RunConfig construct, if set, must have the same value as the model_dir "
            f'in TF_CONFIG. model_dir: {model_dir}\nTF_CONFIG["model_dir"]: {in_tf_config}.\n'
        )
    _log.info("Using model_dir in TF_CONFIG: %s", in_tf_config)
    return in_tf_config


def _is_integer_or_none(value: object) -> bool:
    return value is None or (hasattr(value, "__index__") and not isinstance(value, bool))


def _takes_only_op(function: object) -> bool:
    return callable(function) and list(inspect.signature(function).parameters) == ["op"]
