"""The base class of heads, which turn logits and labels into predictions, loss and metrics."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from muster._keras import keras
from muster.estimator._estimator_spec import EstimatorSpec, ExportOutput, ModeKeys
from muster.feature_column import Features
from muster.program import HostValue, get_or_create_global_step, minimize, run_held_updates

Metrics = dict[str, keras.metrics.Metric]


class AccuracyBaseline(keras.metrics.Mean):  # type: ignore[misc]
    """The accuracy of always answering the more frequent of two classes: of labels, which are 0 or 1."""

    def result(self) -> jax.Array:
        """Return the larger share of the two classes; 0 if there were no labels, or none with a weight."""
        share = super().result()
        return jnp.where(self.count > 0, jnp.maximum(share, 1 - share), 0.0)


def mean(name: str) -> keras.metrics.Metric:
    """Return a mean."""
    return keras.metrics.Mean(name=name, dtype="float32")


def area_under_curve(curve: str) -> Callable[[str], keras.metrics.Metric]:
    """Return what makes a metric for the area under the ROC or PR curve, computed at 200 thresholds."""
    return lambda name: keras.metrics.AUC(curve=curve, name=name, dtype="float32")


def at_threshold(kind: str, threshold: float) -> Callable[[str], keras.metrics.Metric]:
    """Return what makes an accuracy, precision or recall of which probabilities exceed a threshold."""
    match kind:
        case "accuracy":
            return lambda name: keras.metrics.BinaryAccuracy(name, "float32", threshold)
        case "precision":
            return lambda name: keras.metrics.Precision(threshold, name=name, dtype="float32")
        case _:
            return lambda name: keras.metrics.Recall(threshold, name=name, dtype="float32")


def at_thresholds(thresholds: Iterable[float]) -> dict[str, Callable[[str], keras.metrics.Metric]]:
    """Return what makes an accuracy, a precision and a recall at each threshold, by TensorFlow's names."""
    return {
        f"{kind}/positive_threshold_{threshold:g}": at_threshold(kind, threshold)
        for threshold in thresholds
        for kind in ("accuracy", "precision", "recall")
    }


def update_flat(metric: keras.metrics.Metric, labels: Any, values: Any, weights: jax.Array) -> None:
    """Add labels and values of one shape to a metric that compares them, each with its weight."""
    weights = jnp.broadcast_to(weights, values.shape)
    metric.update_state(
        jnp.asarray(labels, "float32").ravel(), jnp.asarray(values).ravel(), sample_weight=weights.ravel()
    )


MEAN, SUM = "sum_over_batch_size", "sum"
OVER_WEIGHTS, OVER_WEIGHTED = "weighted_mean", "weighted_sum_by_nonzero_weights"
_REDUCTIONS = {MEAN: MEAN, SUM: SUM, "auto": MEAN, OVER_WEIGHTS: OVER_WEIGHTS, OVER_WEIGHTED: OVER_WEIGHTED}
_REGULARIZATION_LOSS = "regularization_loss"


class Head(ABC):
    """Predictions, loss and metrics of a model for one kind of label.

    Args:
        logits_dimension: How many logits an example has.
        loss_reduction: ``"sum_over_batch_size"``, the mean over all numbers of the loss, or ``"sum"``;
            ``"auto"`` is the mean. TensorFlow 1's ``"weighted_mean"`` divides by the sum of the weights, its
            ``"weighted_sum_by_nonzero_weights"`` by how many numbers have a weight other than 0.
        name: Ends the names of the head's metrics, as in ``accuracy/<name>``; None adds nothing.

    Raises:
        ValueError: The reduction is none of the above.

    Source: ``Head`` (tensorflow_estimator/python/estimator/head/base_head.py).
    """

    def __init__(self, logits_dimension: int, loss_reduction: str, name: str | None) -> None:
        if loss_reduction not in _REDUCTIONS:
            raise ValueError(
                f"Invalid loss_reduction: {loss_reduction}. See `tf.losses.Reduction` for valid options. "
                f"There are {', '.join(map(repr, _REDUCTIONS))}."
            )
        self._logits_dimension = logits_dimension
        self._loss_reduction = _REDUCTIONS[loss_reduction]
        self._name = name

    @property
    def logits_dimension(self) -> int:
        """The number of logits of an example."""
        return self._logits_dimension

    @property
    def loss_reduction(self) -> str:
        """``"sum_over_batch_size"``, ``"sum"``, or one of TensorFlow 1's."""
        return self._loss_reduction

    @property
    def name(self) -> str | None:
        """The end of the names of the head's metrics, or None."""
        return self._name

    @abstractmethod
    def predictions(self, logits: jax.Array, keys: Sequence[str] | None = None) -> dict[Any, Any]:
        """Return the predictions by name: arrays of shape (batch, ...), or text as `Words`.

        Args:
            logits: Shape (batch, ..., logits_dimension).
            keys: Which to return; None for all.

        Raises:
            ValueError: The logits have another shape, or there is no such prediction.
        """

    @abstractmethod
    def export_outputs(self, predictions: Mapping[str, Any]) -> dict[str, ExportOutput]:
        """Return the signatures of an exported model."""

    @abstractmethod
    def own_metrics(self) -> Metrics:
        """Return new Keras metrics by name, without those of regularization."""

    @abstractmethod
    def update_own_metrics(self, eval_metrics: Metrics, features: Features, logits: Any, labels: Any) -> None:
        """Add a batch to the metrics of `own_metrics`; arguments as for `loss`."""

    @property
    def feature_keys(self) -> frozenset[str]:
        """The keys of the features that the head reads."""
        return frozenset()

    @abstractmethod
    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Features | None = None,
        mode: str | None = None,
        regularization_losses: Sequence[jax.Array] | None = None,
    ) -> jax.Array:
        """Return the weighted loss to minimize: float32 of shape (), per replica.

        Args:
            labels: The labels of a batch, as `numeric_labels` returns them.
            logits: Shape (batch, ..., logits_dimension).
            features: The features of the batch; with the weights, if the head has a weight column.
            mode: Unused.
            regularization_losses: Added to the loss, each of shape ().

        Raises:
            ValueError: Labels, logits or weights are missing or do not fit together.
        """

    def numeric_labels(self, labels: Any) -> Any:
        """Return labels as numbers, on the host: a step cannot compute with text.

        A canned Estimator calls it for each batch. A program with a model_fn of its own does so in the input
        pipeline, if labels are text: ``dataset.map(lambda features, labels: (features,
        head.numeric_labels(labels)))``.

        Args:
            labels: The labels of one or several examples, as the input has them; or a placeholder for what an
                exported model will be given.

        Raises:
            DatasetError: A label is none that the head knows.
            ValueError: The labels have another type.
        """
        return labels

    def metrics(self, regularization_losses: Sequence[jax.Array] | None = None) -> Metrics:
        """Return new Keras metrics by name, for `update_metrics`.

        Args:
            regularization_losses: Those that `loss` gets; if there are any, their sum has a metric, too.
        """
        own = self.own_metrics()
        if regularization_losses is None:
            return own
        return {self.key(_REGULARIZATION_LOSS): self.metric(_REGULARIZATION_LOSS, mean), **own}

    def update_metrics(
        self,
        eval_metrics: Metrics,
        features: Features | None,
        logits: Any,
        labels: Any,
        mode: str | None = None,
        regularization_losses: Sequence[jax.Array] | None = None,
    ) -> Metrics:
        """Add a batch to the metrics, and return them; arguments as for `metrics` and `loss`."""
        if regularization_losses is not None:
            eval_metrics[self.key(_REGULARIZATION_LOSS)].update_state(sum(regularization_losses))
        self.update_own_metrics(eval_metrics, {} if features is None else features, logits, labels)
        return eval_metrics

    def create_estimator_spec(
        self,
        features: Features,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        trainable_variables: Sequence[Any] | None = None,
        train_op_fn: Callable[[jax.Array], Any] | None = None,
        update_ops: Sequence[Any] | None = None,
        regularization_losses: Sequence[jax.Array] | None = None,
    ) -> EstimatorSpec:
        """Return the EstimatorSpec of a model_fn.

        Args:
            features: The features of a batch.
            mode: The mode of the model_fn.
            logits: Shape (batch, ..., logits_dimension), per replica.
            labels: The labels of the batch, as `numeric_labels` returns them, or names of classes as the
                model_fn has got them; needed to train and to evaluate.
            optimizer: A ``keras.optimizers.Optimizer`` that was built in this step.
            trainable_variables: What the optimizer trains; None for all that were created so far.
            train_op_fn: Called with the loss, instead of an optimizer; returns the train_op.
            update_ops: Accepted and ignored: what the model assigns, such as the statistics of batch
                normalization, is part of the step, with that of TensorFlow 1's layers.
            regularization_losses: Added to the loss, each of shape ().

        Raises:
            ValueError: As for `loss`; or there are both an optimizer and a train_op_fn to train, or neither.
        """
        mode = ModeKeys(mode)
        predictions = self.predictions(logits)
        if mode == ModeKeys.PREDICT:
            outputs = self.export_outputs(predictions)
            return EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
        if any(isinstance(each, HostValue) for each in jax.tree.leaves(labels)):
            labels = self.numeric_labels(labels)
        loss = self.loss(labels, logits, features, mode, regularization_losses)
        if mode == ModeKeys.EVAL:
            metrics = self.metrics(regularization_losses)
            self.update_metrics(metrics, features, logits, labels, mode, regularization_losses)
            return EstimatorSpec(mode, predictions=predictions, loss=loss, eval_metric_ops=metrics)
        if optimizer is not None and train_op_fn is not None:
            raise ValueError("train_op_fn and optimizer must not both be set.")
        run_held_updates()
        if train_op_fn is not None:
            return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op_fn(loss))
        if optimizer is None:
            raise ValueError("train_op_fn and optimizer cannot both be None.")
        if not isinstance(optimizer, keras.optimizers.Optimizer) and hasattr(optimizer, "minimize"):
            # One around another, as of tf.contrib.
            train_op = optimizer.minimize(loss, get_or_create_global_step(), trainable_variables)
            return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op)
        train_op = minimize(
            optimizer,
            loss,
            get_or_create_global_step(),
            trainable_variables,
            loss_reduction="sum" if self._loss_reduction == SUM else "mean",
        )
        return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op)

    def key(self, name: str) -> str:
        """Return the name of one of the head's metrics."""
        return name if self._name is None else f"{name}/{self._name}"

    def metric(self, name: str, make: Callable[[str], Any]) -> Any:
        """Return a new metric, whose variables have the name that `key` returns, with underscores."""
        return make(self.key(name).replace("/", "_"))

    def checked_logits(self, logits: Any) -> jax.Array:
        """Return the logits as float32.

        Raises:
            ValueError: Their last axis does not have the head's length.
        """
        values: jax.Array = jnp.asarray(logits, "float32")
        if values.ndim < 2 or values.shape[-1] != self._logits_dimension:
            raise ValueError(
                "logits shape must be [D0, D1, ... DN, logits_dimension], "
                f"got {values.shape}. logits_dimension: {self._logits_dimension}."
            )
        return values


def chosen(predictions: dict[str, Any], keys: Sequence[str] | None) -> dict[str, Any]:
    """Return those of a head's predictions that are asked for; all if the keys are None.

    Raises:
        ValueError: There is no such prediction.
    """
    for key in keys or ():
        if key not in predictions:
            raise ValueError(
                f"Prediction key must be in PredictionKeys, given: {key}.Valid prediction keys include "
                f"{list(predictions)}."
            )
    return predictions if keys is None else {key: predictions[key] for key in keys}
