"""``tf.compat.v1.estimator.tpu`` and ``tf.contrib.tpu``: Estimators of programs that were written for TPUs.

Without TPUs, with ``use_tpu=False``, they train as any Estimator does.
"""

import enum
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import jax

from muster import ClusterError, cluster
from muster.distribute import TPUStrategy, get_replica_context
from muster.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig

Made = TypeVar("Made")
_BATCH_SIZE = "batch_size"


class TPUClusterResolver(cluster.TPUClusterResolver):
    """A resolver whose empty name is ``"local"``: programs with ``use_tpu=False`` give it.

    Args:
        tpu: The name of the TPU. On a machine without one, ``""`` and ``"local"`` are an empty cluster.
        *args: As for `muster.cluster.TPUClusterResolver`.
        **kwargs: Likewise.

    Source: tensorflow/contrib/cluster_resolver/python/training/tpu_cluster_resolver.py of TensorFlow 1.13,
    ``TPUClusterResolver``. In TensorFlow 2 an empty name is refused, by which programs look for a TPU.
    """

    def __init__(self, tpu: str | bytes | None = None, *args: Any, **kwargs: Any) -> None:
        name = tpu.decode() if isinstance(tpu, bytes) else tpu
        super().__init__("local" if name == "" else name, *args, **kwargs)


class InputPipelineConfig(enum.IntEnum):
    """The number of input_fn calls per host; unused, since each process calls it once."""

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4
    SLICED = 5


@dataclass(frozen=True)
class TPUConfig:
    """Options of TensorFlow's TPUs, accepted without effect but for ``iterations_per_loop``.

    Args:
        iterations_per_loop: How many steps to dispatch together, where the program uses TPUs.

    Source: tensorflow_estimator/python/estimator/tpu/tpu_config.py, ``TPUConfig``.
    """

    iterations_per_loop: int = 2
    num_shards: int | None = None
    num_cores_per_replica: int | None = None
    per_host_input_for_training: bool | InputPipelineConfig = True
    tpu_job_name: str | None = None
    initial_infeed_sleep_secs: int | None = None
    input_partition_dims: Any = None
    eval_training_input_configuration: Any = InputPipelineConfig.PER_HOST_V1
    experimental_host_call_every_n_steps: int = 1
    experimental_allow_per_host_v2_parallel_get_next: bool = False
    experimental_feed_hook: Any = None


class TPURunConfig(RunConfig):
    """A `RunConfig` with what TensorFlow needs to reach TPUs.

    Args:
        tpu_config: The options.
        evaluation_master: Unused: programs run on the hosts of a TPU.
        master: Unused.
        cluster: A TPUClusterResolver, for the strategy.
        **kwargs: Those of `RunConfig`.

    Source: tensorflow_estimator/python/estimator/tpu/tpu_config.py, ``RunConfig``.
    """

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._set(tpu_config=tpu_config or TPUConfig(), cluster=cluster)


class TPUEstimatorSpec:
    """Holds what the model_fn of a `TPUEstimator` returns; `as_estimator_spec` makes an EstimatorSpec.

    Args:
        mode: As of ``EstimatorSpec``; likewise the predictions, the loss, ``train_op``, the export's outputs
            and the hooks.
        eval_metrics: A function of metrics, and its arguments: a list, or a dict by their names.
        scaffold_fn: Returns a ``Scaffold``.
        host_call: A function that writes summaries, and its arguments likewise.

    Source: tensorflow_estimator/python/estimator/tpu/tpu_estimator.py, ``TPUEstimatorSpec``.
    """

    def __init__(
        self,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metrics: tuple[Callable[..., Any], Any] | None = None,
        export_outputs: Any = None,
        scaffold_fn: Callable[[], Any] | None = None,
        host_call: tuple[Callable[..., Any], Any] | None = None,
        training_hooks: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> None:
        self.mode = mode
        self.predictions = predictions
        self.loss = loss
        self.train_op = train_op
        self.eval_metrics = eval_metrics
        self.export_outputs = export_outputs
        self.scaffold_fn = scaffold_fn
        self.host_call = host_call
        self.training_hooks = training_hooks
        self.evaluation_hooks = evaluation_hooks
        self.prediction_hooks = prediction_hooks

    def as_estimator_spec(self) -> EstimatorSpec:
        """Return an EstimatorSpec with the metrics and the scaffold, once summaries are written."""
        if self.host_call is not None and self.mode == ModeKeys.TRAIN:
            _called(self.host_call)
        metrics = None
        if self.eval_metrics is not None and self.mode == ModeKeys.EVAL:
            metrics = _called(self.eval_metrics)
        return EstimatorSpec(
            self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=metrics,
            export_outputs=self.export_outputs,
            scaffold=None if self.scaffold_fn is None else self.scaffold_fn(),
            training_hooks=self.training_hooks,
            evaluation_hooks=self.evaluation_hooks,
            prediction_hooks=self.prediction_hooks,
        )


class TPUEstimator(Estimator):
    """An `Estimator` whose ``params`` tell the model_fn and the input_fn the batch size of a replica.

    Args:
        model_fn: Returns a `TPUEstimatorSpec` or an ``EstimatorSpec``.
        model_dir: As for `Estimator`.
        config: A `TPURunConfig`, or a `RunConfig`.
        params: A dict without ``batch_size``.
        use_tpu: Whether to train with TPUStrategy on the TPUs of this host.
        train_batch_size: The batch size of all replicas in training.
        eval_batch_size: That in evaluation; None if ``evaluate`` is not called.
        predict_batch_size: That in prediction.
        batch_axis: Unused: the first axis is that of examples.
        eval_on_tpu: Unused: evaluation uses what training does.
        export_to_tpu: Unused.
        export_to_cpu: Unused.
        warm_start_from: As for `Estimator`.
        **unused: Options of newer versions, without effect.

    Raises:
        ValueError: The parameters have a ``batch_size``, or ``use_tpu`` without a ``train_batch_size``.
        ClusterError: ``use_tpu``, and JAX has no TPUs.

    Source: tensorflow_estimator/python/estimator/tpu/tpu_estimator.py, ``TPUEstimator``.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: Any = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        export_to_cpu: bool = True,
        warm_start_from: Any = None,
        **unused: Any,
    ) -> None:
        if params is not None and _BATCH_SIZE in params:
            raise ValueError(f"{_BATCH_SIZE} are reserved keys but existed in params {params}.")
        config = RunConfig() if config is None else config
        if use_tpu:
            if train_batch_size is None:
                raise ValueError("`train_batch_size` cannot be `None` if `use_tpu` is True.")
            config = _for_tpus(config)
        self._sizes = {
            ModeKeys.TRAIN: train_batch_size,
            ModeKeys.EVAL: eval_batch_size,
            ModeKeys.PREDICT: predict_batch_size,
        }
        takes_params = "params" in inspect.signature(model_fn).parameters
        super().__init__(
            self._sized_model_fn(model_fn),
            model_dir,
            config,
            dict(params or {}) if takes_params else params,
            warm_start_from,
        )

    def train(self, input_fn: Any, *args: Any, **kwargs: Any) -> Any:
        """Train, as `Estimator.train` does."""
        return super().train(self._sized(input_fn, ModeKeys.TRAIN), *args, **kwargs)

    def evaluate(self, input_fn: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluate, as `Estimator.evaluate` does."""
        return super().evaluate(self._sized(input_fn, ModeKeys.EVAL), *args, **kwargs)

    def predict(self, input_fn: Any, *args: Any, **kwargs: Any) -> Any:
        """Predict, as `Estimator.predict` does."""
        return super().predict(self._sized(input_fn, ModeKeys.PREDICT), *args, **kwargs)

    def _size(self, mode: ModeKeys) -> int | None:
        """Return the batch size of a replica."""
        size = self._sizes[mode]
        strategy = self.config.train_distribute if mode == ModeKeys.TRAIN else self.config.eval_distribute
        return size if size is None or strategy is None else max(1, size // strategy.num_replicas_in_sync)

    def _with_size(self, params: Any, mode: ModeKeys) -> Any:
        size = self._size(mode)
        return params if size is None else {**params, _BATCH_SIZE: size}

    def _sized(self, input_fn: Callable[..., Made], mode: ModeKeys) -> Callable[..., Made]:
        """Return an input_fn whose ``params`` have the batch size."""

        @functools.wraps(input_fn)
        def sized(**given: Any) -> Made:
            if "params" in given:
                given["params"] = self._with_size(given["params"], mode)
            return input_fn(**given)

        return sized

    def _sized_model_fn(self, model_fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a model_fn whose ``params`` have the batch size, and which returns an EstimatorSpec."""

        @functools.wraps(model_fn)
        def sized(**given: Any) -> Any:
            if "params" in given:
                given["params"] = self._with_size(given["params"], given["mode"])
            spec = model_fn(**given)
            return spec.as_estimator_spec() if isinstance(spec, TPUEstimatorSpec) else spec

        return sized


def cross_shard_optimizer(
    opt: Made, reduction: Any = None, name: str = "CrossShardOptimizer", **unused: Any
) -> Made:
    """Return the optimizer: ``minimize`` and ``apply_gradients`` add the gradients of replicas anyway.

    Source: tensorflow/python/tpu/tpu_optimizer.py, ``CrossShardOptimizer``.
    """
    return opt


def cross_replica_sum(x: Any, group_assignment: Any = None, name: str | None = None) -> Any:
    """Return the sum of a value over all replicas; in one replica, the value."""
    context = get_replica_context()
    return x if context is None else context.all_reduce("sum", x)


def _called(pair: tuple[Callable[..., Any], Any]) -> Any:
    function, tensors = pair
    return function(**tensors) if isinstance(tensors, Mapping) else function(*tensors)


def _for_tpus(config: RunConfig) -> RunConfig:
    """Return a config with TPUStrategy, and the steps per execution of its ``tpu_config``."""
    if jax.default_backend() != "tpu" and config.train_distribute is None:
        raise ClusterError(
            f"use_tpu=True, and JAX has no TPUs here, but {jax.default_backend()!r} devices. Write "
            "use_tpu=False, or give RunConfig a train_distribute."
        )
    if config.train_distribute is not None:
        return config
    cluster = getattr(config, "cluster", None)
    strategy = TPUStrategy(cluster)
    loops = getattr(config, "tpu_config", TPUConfig(1)).iterations_per_loop
    return config.replace(train_distribute=strategy, eval_distribute=strategy, steps_per_execution=loops)
