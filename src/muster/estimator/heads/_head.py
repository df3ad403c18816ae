"""The base class of heads, which turn logits and labels into predictions, loss and metrics."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from muster.estimator._estimator_spec import EstimatorSpec, ExportOutput
from muster.estimator._mode_keys import ModeKeys
from muster.feature_column import Features, NumericColumn, numeric_column
from muster.program import get_or_create_global_step, minimize

_MEAN, _SUM = "sum_over_batch_size", "sum"


class Head(ABC):
    """Predictions, loss and metrics of canned models for one kind of label.

    Args:
        logits_dimension: How many logits an example has.
        weight_column: The key or numeric column of the examples' weights; None weighs all alike.
        loss_reduction: ``"sum_over_batch_size"``, the mean over all numbers of the loss, or ``"sum"``.

    Raises:
        TypeError: The weight column is neither.
        ValueError: The reduction is neither.

    Source: ``Head`` (tensorflow_estimator/python/estimator/head/base_head.py).
    """

    def __init__(
        self, logits_dimension: int, weight_column: str | NumericColumn | None, loss_reduction: str
    ) -> None:
        if loss_reduction not in (_MEAN, _SUM):
            raise ValueError(
                f"Invalid loss_reduction: {loss_reduction}. See `tf.losses.Reduction` for valid options. "
                f"There are {_MEAN!r} and {_SUM!r}."
            )
        if isinstance(weight_column, str):
            weight_column = numeric_column(weight_column)
        if not (weight_column is None or isinstance(weight_column, NumericColumn)):
            raise TypeError(
                f"Weight column must be either a string or NumericColumn. Given type: {type(weight_column)}."
            )
        self.logits_dimension = logits_dimension
        self._weight_column = weight_column
        self._loss_reduction = loss_reduction

    @abstractmethod
    def predictions(self, logits: jax.Array) -> dict[str, jax.Array]:
        """Return the predictions by name: arrays of shape (batch, ...).

        Args:
            logits: Shape (batch, logits_dimension).
        """

    @abstractmethod
    def export_outputs(self, predictions: Mapping[str, jax.Array]) -> dict[str, ExportOutput]:
        """Return the signatures of an exported model."""

    @abstractmethod
    def metrics(self) -> dict[str, Any]:
        """Return new Keras metrics by name, for `update_metrics`."""

    @abstractmethod
    def update_metrics(
        self, eval_metrics: Mapping[str, Any], features: Features, logits: jax.Array, labels: Any
    ) -> None:
        """Add a batch to the metrics; arguments as for `loss`."""

    @abstractmethod
    def unweighted_loss(self, logits: jax.Array, labels: jax.Array) -> jax.Array:
        """Return the loss of each example: float32 of shape (batch, 1) or (batch, logits_dimension).

        Args:
            logits: As `checked_logits` returns them.
            labels: The labels of the batch, as the input has them.

        Raises:
            ValueError: There are no labels, or they have a wrong shape.
        """

    def loss(self, labels: Any, logits: jax.Array, features: Features) -> jax.Array:
        """Return the weighted loss to minimize: float32 of shape (), per replica.

        Args:
            labels: The labels of a batch, as the input has them.
            logits: Shape (batch, logits_dimension).
            features: The features of the batch; with the weights, if the head has a weight column.

        Raises:
            ValueError: Labels, logits or weights are missing or do not fit together.
        """
        logits = self.checked_logits(logits)
        losses = self.unweighted_loss(logits, labels)
        # Divided by the number of losses, as in TensorFlow, and not by the sum of their weights.
        total = jnp.sum(losses * self.weights(features, logits))
        return total / losses.size if self._loss_reduction == _MEAN else total

    def create_estimator_spec(
        self, features: Features, mode: ModeKeys, logits: jax.Array, labels: Any = None, optimizer: Any = None
    ) -> EstimatorSpec:
        """Return the EstimatorSpec of a model_fn.

        Args:
            features: The features of a batch.
            mode: The mode of the model_fn.
            logits: Shape (batch, logits_dimension), per replica.
            labels: The labels of the batch; needed to train and to evaluate.
            optimizer: A ``keras.optimizers.Optimizer`` that was built in this step; needed to train.

        Raises:
            ValueError: As for `loss`.
        """
        predictions = self.predictions(logits)
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(
                mode, predictions=predictions, export_outputs=self.export_outputs(predictions)
            )
        loss = self.loss(labels, logits, features)
        if mode == ModeKeys.EVAL:
            metrics = self.metrics()
            self.update_metrics(metrics, features, logits, labels)
            return EstimatorSpec(mode, predictions=predictions, loss=loss, eval_metric_ops=metrics)
        train_op = minimize(
            optimizer,
            loss,
            get_or_create_global_step(),
            loss_reduction="sum" if self._loss_reduction == _SUM else "mean",
        )
        return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op)

    def checked_logits(self, logits: jax.Array) -> jax.Array:
        """Return the logits as float32.

        Raises:
            ValueError: Their last axis does not have the head's length.
        """
        if logits.ndim < 2 or logits.shape[-1] != self.logits_dimension:
            raise ValueError(
                "logits shape must be [D0, D1, ... DN, logits_dimension], "
                f"got {logits.shape}. logits_dimension: {self.logits_dimension}."
            )
        return jnp.asarray(logits, "float32")

    def weights(self, features: Features, logits: jax.Array) -> jax.Array:
        """Return the weights of a batch: float32 of shape (), (batch, 1) or (batch, logits_dimension).

        Raises:
            ValueError: They are missing, or have another shape.
        """
        if self._weight_column is None:
            return jnp.ones((), "float32")
        weights: jax.Array = self._weight_column.values(features)
        if weights.shape not in (logits.shape, (*logits.shape[:-1], 1)):
            raise ValueError(
                "weights shape must be [D0, D1, ... DN], [D0, D1, ... DN, 1] or [D0, D1, ... DN, "
                f"logits_dimension], logits_shape: {logits.shape}. weights_shape: {weights.shape}."
            )
        return weights


def labels_like_logits(labels: Any, logits: jax.Array) -> jax.Array:
    """Return labels as float32 in the shape of logits; labels of shape (batch,) get a last axis.

    Raises:
        TypeError: The labels are more than one array.
        ValueError: There are no labels, or they have another shape.

    Source: ``check_dense_labels_match_logits_and_reshape``
    (tensorflow_estimator/python/estimator/head/base_head.py).
    """
    if labels is None:
        raise ValueError(
            "You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: Check that your "
            "data contains your label feature. Check that your input_fn properly parses and returns labels."
        )
    if isinstance(labels, Mapping | tuple | list):
        raise TypeError(
            f"The labels must be one array, given a {type(labels).__name__}: choose one in the input_fn."
        )
    labels = jnp.asarray(labels)
    if labels.ndim == logits.ndim - 1:
        labels = labels[..., None]
    wanted = logits.shape[-1]
    found = labels.shape[-1] if labels.ndim else 0
    if found != wanted:
        raise ValueError(
            f"Mismatched label shape. Expected labels dimension={wanted}.  Received {found}. "
            "Suggested Fix: If your classifier expects one-hot encoding label, check your n_classes argument "
            "to the estimator and/or the shape of your label. Otherwise, check the shape of your label."
        )
    if labels.shape != logits.shape:
        raise ValueError(
            f"labels shape must be [D0, D1, ... DN, {wanted}], expected_labels_shape: {logits.shape}. "
            f"labels_shape: {labels.shape}."
        )
    return jnp.asarray(labels, "float32")
