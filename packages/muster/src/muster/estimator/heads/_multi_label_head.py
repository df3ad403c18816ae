"""A head for classes that do not exclude each other."""

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import DatasetError
from muster._keras import keras
from muster.data import SparseTensor
from muster.estimator._estimator_spec import ExportOutput
from muster.estimator._words import Words
from muster.estimator.heads._class_heads import (
    CLASSES,
    LOGITS,
    PROBABILITIES,
    class_names,
    classification_outputs,
    every_class,
    sigmoid_cross_entropy,
)
from muster.estimator.heads._head import (
    Metrics,
    area_under_curve,
    at_thresholds,
    chosen,
    mean,
    update_flat,
)
from muster.estimator.heads._labels import checked_vocabulary, class_ids, labels_like_logits, range_factor
from muster.estimator.heads._weighted_head import WeightedHead, losses_of
from muster.feature_column import Features, NumericColumn


class MultiLabelHead(WeightedHead):
    """Predicts for each of several classes whether an example is of it; minimizes sigmoid cross entropies.

    Labels are 0 or 1 for each class, of shape (batch, n_classes), or sparse: see `numeric_labels`. The loss
    of an example is the mean over the classes.

    Args:
        n_classes: How many classes there are, at least 2.
        weight_column: As for `WeightedHead`.
        thresholds: Numbers between 0 and 1, for each of which there are an accuracy, a precision and a recall
            of taking an example to be of a class if the probability is larger.
        label_vocabulary: The names of the classes, for predictions and for sparse labels.
        loss_reduction: As for `Head`.
        loss_fn: As for `WeightedHead`; returns shape (batch, 1).
        classes_for_class_based_metrics: The numbers or names of classes that have metrics of their own.
        name: As for `Head`.

    Raises:
        TypeError: As for `WeightedHead`.
        ValueError: An argument is out of range, or as for `WeightedHead`.

    Source: ``MultiLabelHead`` (tensorflow_estimator/python/estimator/head/multi_label_head.py).
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: str | NumericColumn | None = None,
        thresholds: Sequence[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = "sum_over_batch_size",
        loss_fn: Callable[..., Any] | None = None,
        classes_for_class_based_metrics: Sequence[int | str] | None = None,
        name: str | None = None,
    ) -> None:
        if not isinstance(n_classes, numbers.Integral) or n_classes < 2:
            raise ValueError(f"n_classes must be > 1 for multi-label classification. Given: {n_classes}")
        super().__init__(int(n_classes), weight_column, loss_reduction, loss_fn, name)
        self._thresholds: tuple[float, ...] = tuple(thresholds or ())
        for threshold in self._thresholds:
            if not 0 < threshold < 1:
                raise ValueError(f"thresholds must be in (0, 1) range. Given: {threshold}")
        self._vocabulary: tuple[str, ...] | None = checked_vocabulary(label_vocabulary)
        if self._vocabulary is not None and len(self._vocabulary) != n_classes:
            raise ValueError(
                f"Length of label_vocabulary must be n_classes ({n_classes}). Given: {len(self._vocabulary)}"
            )
        self._single_classes: dict[int, str] = self._numbered(classes_for_class_based_metrics or ())

    def _numbered(self, classes: Sequence[int | str]) -> dict[int, str]:
        """Return the end of the metrics' names of each class that has its own, by its number."""
        if any(isinstance(each, str) for each in classes):
            if self._vocabulary is None:
                raise ValueError(
                    "label_vocabulary must be provided when classes_for_class_based_metrics are strings."
                )
            for each in classes:
                if each not in self._vocabulary:
                    raise ValueError(f"{each!r} is not in list, which is label_vocabulary.")
            return {self._vocabulary.index(str(each)): str(each) for each in classes}
        last = self.logits_dimension - 1
        for each in classes:
            if not 0 <= int(each) <= last:
                raise ValueError(
                    f"All classes_for_class_based_metrics must be in range [0, {last}]. Given: {each}"
                )
        return {int(each): f"class{each}" for each in classes}

    def numeric_labels(self, labels: Any) -> Any:
        """Return 0 or 1 for each class, of shape (batch, n_classes), if the labels are sparse.

        Args:
            labels: 0 or 1 for each class; or a `SparseTensor` of shape (batch, any) of the numbers of an
                example's classes, or of their names, if there is a vocabulary.

        Raises:
            DatasetError: A sparse label is no class.
        """
        if not isinstance(labels, SparseTensor):
            return labels
        ids = np.asarray(class_ids(labels.plain_values, self._vocabulary))
        if not ((ids >= 0) & (ids < self.logits_dimension)).all():
            raise DatasetError(
                "labels must be an integer SparseTensor with values in "
                f"[0, {self.logits_dimension}). Given: {ids.tolist()}."
            )
        found = np.zeros((int(labels.shape[0]), self.logits_dimension), np.int32)
        found[labels.plain_indices[:, 0], ids] = 1
        return found

    def predictions(self, logits: jax.Array, keys: Sequence[str] | None = None) -> dict[str, Any]:
        """Return ``logits``, ``probabilities``, and ``classes``, which names all classes for each example."""
        logits = self.checked_logits(logits)
        names = class_names(self._vocabulary, self.logits_dimension)
        everything = {
            LOGITS: logits,
            PROBABILITIES: jax.nn.sigmoid(logits),
            CLASSES: Words(every_class(logits), names),
        }
        return chosen(everything, keys)

    def export_outputs(self, predictions: Mapping[str, Any]) -> dict[str, ExportOutput]:
        """Return the signatures ``classification``, which is the default, and ``predict``."""
        return classification_outputs(predictions, predictions[CLASSES])

    def own_metrics(self) -> Metrics:
        """Return metrics of the loss, of the probabilities at thresholds, and of single classes."""
        roc, pr = area_under_curve("ROC"), area_under_curve("PR")
        makers: dict[str, Callable[[str], keras.metrics.Metric]] = {
            "average_loss": mean,
            "auc": roc,
            "auc_precision_recall": pr,
        }
        makers |= at_thresholds(self._thresholds)
        for each in self._single_classes.values():
            makers[f"probability_mean/{each}"] = mean
            makers[f"auc/{each}"] = roc
            makers[f"auc_precision_recall/{each}"] = pr
        return {self.key(name): self.metric(name, make) for name, make in makers.items()}

    def update_own_metrics(self, eval_metrics: Metrics, features: Features, logits: Any, labels: Any) -> None:
        """Add a batch to the metrics."""
        logits = self.checked_logits(logits)
        losses = self.unweighted_loss(logits, labels, features)
        weights = jnp.broadcast_to(self.weights(features, logits), losses.shape)
        labels = jnp.asarray(labels_like_logits(labels, logits), "float32")
        probabilities = jax.nn.sigmoid(logits)
        eval_metrics[self.key("average_loss")].update_state(losses, sample_weight=weights)
        for name in ("auc", "auc_precision_recall", *at_thresholds(self._thresholds)):
            update_flat(eval_metrics[self.key(name)], labels, probabilities, weights)
        for number, end in self._single_classes.items():
            of_class = slice(number, number + 1)
            of_labels, values = labels[..., of_class], probabilities[..., of_class]
            means = eval_metrics[self.key(f"probability_mean/{end}")]
            means.update_state(values, sample_weight=weights)
            for name in ("auc", "auc_precision_recall"):
                update_flat(eval_metrics[self.key(f"{name}/{end}")], of_labels, values, weights)

    def unweighted_loss(self, logits: jax.Array, labels: Any, features: Features) -> jax.Array:
        """Return the mean cross entropy of each example: float32 of shape (batch, ..., 1)."""
        labels = class_ids(labels_like_logits(labels, logits), None)
        message = "labels must be an integer indicator Tensor with values in [0, 1]"
        factor = jnp.mean(range_factor(labels, 2, message), axis=-1, keepdims=True)
        labels = jnp.asarray(labels, "float32")
        if self._loss_fn is not None:
            return losses_of(self._loss_fn, labels, logits, features, 1) * factor
        return jnp.mean(sigmoid_cross_entropy(labels, logits), axis=-1, keepdims=True) * factor
