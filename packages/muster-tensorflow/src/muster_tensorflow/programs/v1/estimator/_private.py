"""Private names of TensorFlow 1 that programs import: heads and keys of canned Estimators, and helpers."""

import abc
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

from muster import CheckpointError
from muster.estimator import BinaryClassHead, MultiClassHead, RegressionHead
from muster_tensorflow.programs.v1.estimator._arguments import OPTIMIZERS, OptimizerV1, as_reduction
from muster_tensorflow.programs.v1.losses import Reduction
from muster_tensorflow.programs.v2 import config
from muster_tensorflow.programs.v2.checkpoints._checkpoint_reader import load_checkpoint


class Head(abc.ABC):
    """Base class for heads of a program's own.

    Source: tensorflow_estimator/python/estimator/canned/head.py, ``_Head``.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str | None:
        """The name."""

    @property
    @abc.abstractmethod
    def logits_dimension(self) -> int:
        """The size of the last axis of the logits."""

    @abc.abstractmethod
    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> Any:
        """Return the loss."""

    @abc.abstractmethod
    def create_estimator_spec(
        self, features: Any, mode: str, logits: Any, labels: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Return the EstimatorSpec of a model_fn."""


def binary_logistic_head(
    weight_column: Any = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = Reduction.SUM,
    loss_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> BinaryClassHead:
    """Make a head of two classes, which adds losses up, as TensorFlow 1 does."""
    reduction = as_reduction(loss_reduction)
    return BinaryClassHead(weight_column, thresholds, label_vocabulary, reduction, loss_fn, name)


def multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = Reduction.SUM,
    loss_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> MultiClassHead:
    """Make a head of three or more classes, which adds losses up, as TensorFlow 1 does."""
    reduction = as_reduction(loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, reduction, loss_fn, name)


def binary_logistic_or_multi_class_head(
    n_classes: int,
    weight_column: Any,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: str,
    loss_fn: Callable[..., Any] | None = None,
) -> BinaryClassHead | MultiClassHead:
    """Make the head for a number of classes."""
    if n_classes == 2:
        return binary_logistic_head(weight_column, None, label_vocabulary, loss_reduction, loss_fn)
    return multi_class_head(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn)


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = Reduction.SUM,
    loss_fn: Callable[..., Any] | None = None,
    inverse_link_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> RegressionHead:
    """Make a head of numbers, which adds losses up, as TensorFlow 1 does."""
    return RegressionHead(
        label_dimension=label_dimension,
        weight_column=weight_column,
        loss_reduction=as_reduction(loss_reduction),
        loss_fn=loss_fn,
        inverse_link_fn=inverse_link_fn,
        name=name,
    )


class MetricKeys:
    """The names of the metrics of canned Estimators.

    Source: tensorflow_estimator/python/estimator/canned/metric_keys.py.
    """

    LOSS = "loss"
    LOSS_MEAN = "average_loss"
    LOSS_REGULARIZATION = "regularization_loss"
    ACCURACY = "accuracy"
    PRECISION = "precision"
    RECALL = "recall"
    ACCURACY_BASELINE = "accuracy_baseline"
    AUC = "auc"
    AUC_PR = "auc_precision_recall"
    LABEL_MEAN = "label/mean"
    PREDICTION_MEAN = "prediction/mean"


class PredictionKeys:
    """The names of the predictions of canned Estimators.

    Source: tensorflow_estimator/python/estimator/canned/prediction_keys.py.
    """

    ALL_CLASS_IDS = "all_class_ids"
    ALL_CLASSES = "all_classes"
    CLASS_IDS = "class_ids"
    CLASSES = "classes"
    LOGISTIC = "logistic"
    LOGITS = "logits"
    PREDICTIONS = "predictions"
    PROBABILITIES = "probabilities"


def get_optimizer_instance(opt: OptimizerV1, learning_rate: float | None = None) -> Any:
    """Return an optimizer for its name, or one that there is.

    Raises:
        ValueError: The name is unknown, or without a learning rate.

    Source: tensorflow_estimator/python/estimator/canned/optimizers.py, ``get_optimizer_instance``.
    """
    if isinstance(opt, str):
        if opt not in OPTIMIZERS:
            raise ValueError(
                f"Unsupported optimizer name: {opt}. Supported names are: {tuple(sorted(OPTIMIZERS))}"
            )
        if not learning_rate:
            raise ValueError("learning_rate must be specified when opt is string.")
        return OPTIMIZERS[opt](learning_rate=learning_rate)
    return opt() if callable(opt) else opt


def fn_args(fn: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's arguments."""
    return tuple(inspect.signature(fn).parameters)


def load_global_step(checkpoint_dir: str | os.PathLike[str]) -> int:
    """Return the global step of the newest checkpoint in a directory, 0 if there is none.

    Source: tensorflow_estimator/python/estimator/estimator.py, ``_load_global_step_from_checkpoint_dir``.
    """
    try:
        reader = load_checkpoint(checkpoint_dir)
    except (ValueError, CheckpointError):
        return 0
    return int(reader.get_tensor("global_step"))


def list_local_devices(session_config: Any = None) -> list[Any]:
    """Return the devices, with ``name`` and ``device_type``."""
    del session_config  # There is no session.
    return list(config.list_logical_devices())
