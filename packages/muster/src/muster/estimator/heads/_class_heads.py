"""Heads for classes that exclude each other: two, or several."""

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._keras import keras
from muster.estimator._estimator_spec import (
    DEFAULT_SIGNATURE,
    ClassificationOutput,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
)
from muster.estimator._words import Words
from muster.estimator.heads._head import (
    AccuracyBaseline,
    Metrics,
    area_under_curve,
    at_threshold,
    at_thresholds,
    chosen,
    mean,
    update_flat,
)
from muster.estimator.heads._labels import checked_vocabulary, class_ids, labels_like_logits, range_factor
from muster.estimator.heads._weighted_head import WeightedHead, losses_of
from muster.feature_column import Features, NumericColumn

LOGITS, LOGISTIC, PROBABILITIES = "logits", "logistic", "probabilities"
CLASS_IDS, CLASSES = "class_ids", "classes"
ALL_CLASS_IDS, ALL_CLASSES = "all_class_ids", "all_classes"


def class_names(vocabulary: tuple[str, ...] | None, classes: int) -> tuple[str, ...]:
    """Return the names of classes: those of a vocabulary, or the numbers from 0."""
    return tuple(map(str, range(classes))) if vocabulary is None else vocabulary


def class_predictions(logits: jax.Array, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what is predicted of classes that exclude each other: the first of the largest logits.

    Args:
        logits: Shape (batch, ..., classes).
        names: The names of the classes.

    Returns:
        ``probabilities``, of shape (batch, ..., classes); ``class_ids`` and ``classes``, of shape (batch,
        ..., 1); ``all_class_ids`` and ``all_classes``, of shape (batch, classes).
    """
    ids = jnp.argmax(logits, axis=-1, keepdims=True)
    all_ids = every_class(logits)
    return {
        PROBABILITIES: jax.nn.softmax(logits),
        CLASS_IDS: ids,
        CLASSES: Words(ids, names),
        ALL_CLASS_IDS: all_ids,
        ALL_CLASSES: Words(all_ids, names),
    }


def every_class(logits: jax.Array) -> jax.Array:
    """Return the numbers of all classes for each example: int32 of shape (batch, classes)."""
    classes = logits.shape[-1]
    return jnp.broadcast_to(jnp.arange(classes, dtype="int32"), (logits.shape[0], classes))


def classification_outputs(predictions: Mapping[str, Any], classes: Any) -> dict[str, ExportOutput]:
    """Return the signatures ``classification``, which is the default, and ``predict``.

    Args:
        predictions: What `Head.predictions` returned.
        classes: The names of all classes for each example.
    """
    classification = ClassificationOutput(scores=predictions[PROBABILITIES], classes=classes)
    return {
        DEFAULT_SIGNATURE: classification,
        "classification": classification,
        "predict": PredictOutput(predictions),
    }


class BinaryClassHead(WeightedHead):
    """Predicts one of two classes from one logit, and minimizes the sigmoid cross entropy.

    Labels are 0 and 1, or the two names of ``label_vocabulary``. A logit above 0 predicts class 1.

    Args:
        weight_column: As for `WeightedHead`.
        thresholds: Numbers between 0 and 1, for each of which there are an accuracy, a precision and a recall
            of predicting class 1 if its probability is larger.
        label_vocabulary: The names of class 0 and class 1, if labels are text.
        loss_reduction: As for `Head`.
        loss_fn: As for `WeightedHead`; returns shape (batch, 1).
        name: As for `Head`.

    Raises:
        TypeError: As for `WeightedHead`.
        ValueError: A threshold is not between 0 and 1, the vocabulary is no list or has fewer than two names,
            or as for `WeightedHead`.

    Source: ``BinaryClassHead`` (tensorflow_estimator/python/estimator/head/binary_class_head.py), which lets
    a vocabulary have one name.
    """

    def __init__(
        self,
        weight_column: str | NumericColumn | None = None,
        thresholds: Sequence[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = "sum_over_batch_size",
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(1, weight_column, loss_reduction, loss_fn, name)
        self._thresholds: tuple[float, ...] = tuple(thresholds or ())
        if not all(0 < threshold < 1 for threshold in self._thresholds):
            raise ValueError(f"thresholds not in (0, 1): {(self._thresholds,)}.")
        self._vocabulary: tuple[str, ...] | None = checked_vocabulary(label_vocabulary)
        if self._vocabulary is not None and len(self._vocabulary) < 2:
            raise ValueError(f"label_vocabulary must name two classes. Given: {list(self._vocabulary)}")

    def numeric_labels(self, labels: Any) -> Any:
        """Return 0 and 1 for the names in the vocabulary; without one, the labels."""
        return class_ids(labels, self._vocabulary)

    def predictions(self, logits: jax.Array, keys: Sequence[str] | None = None) -> dict[str, Any]:
        """Return ``logits``, ``logistic``, ``probabilities``, and the predicted and all classes.

        ``logistic`` is the probability of class 1, of the shape of the logits; ``probabilities`` has both, in
        the last axis.
        """
        logits = self.checked_logits(logits)
        both = jnp.concatenate([jnp.zeros_like(logits), logits], axis=-1)
        classes = class_predictions(both, class_names(self._vocabulary, 2))
        return chosen({LOGITS: logits, LOGISTIC: jax.nn.sigmoid(logits), **classes}, keys)

    def export_outputs(self, predictions: Mapping[str, Any]) -> dict[str, ExportOutput]:
        """Return the signatures ``classification``, the default, ``regression`` and ``predict``."""
        outputs = classification_outputs(predictions, predictions[ALL_CLASSES])
        return {**outputs, "regression": RegressionOutput(predictions[LOGISTIC])}

    def own_metrics(self) -> Metrics:
        """Return metrics of the loss, of the answers, and of the probabilities at thresholds."""
        makers: dict[str, Callable[[str], keras.metrics.Metric]] = {
            "average_loss": mean,
            "accuracy": mean,
            "precision": at_threshold("precision", 0.5),
            "recall": at_threshold("recall", 0.5),
            "prediction/mean": mean,
            "label/mean": mean,
            "accuracy_baseline": lambda name: AccuracyBaseline(name=name, dtype="float32"),
            "auc": area_under_curve("ROC"),
            "auc_precision_recall": area_under_curve("PR"),
        }
        makers |= at_thresholds(self._thresholds)
        return {self.key(name): self.metric(name, make) for name, make in makers.items()}

    def update_own_metrics(self, eval_metrics: Metrics, features: Features, logits: Any, labels: Any) -> None:
        """Add a batch to the metrics."""
        logits = self.checked_logits(logits)
        weights = jnp.broadcast_to(self.weights(features, logits), logits.shape)
        losses = self.unweighted_loss(logits, labels, features)
        labels = jnp.asarray(labels_like_logits(labels, logits), "float32")
        predictions = self.predictions(logits, [LOGISTIC, CLASS_IDS])
        logistic, ids = predictions[LOGISTIC], jnp.asarray(predictions[CLASS_IDS], "float32")
        for name, values in (
            ("average_loss", losses),
            ("accuracy", jnp.asarray(ids == labels, "float32")),
            ("prediction/mean", logistic),
            ("label/mean", labels),
            ("accuracy_baseline", labels),
        ):
            eval_metrics[self.key(name)].update_state(values, sample_weight=weights)
        for name in ("precision", "recall"):
            update_flat(eval_metrics[self.key(name)], labels, ids, weights)
        of_probabilities = ["auc", "auc_precision_recall", *at_thresholds(self._thresholds)]
        for name in of_probabilities:
            update_flat(eval_metrics[self.key(name)], labels, logistic, weights)

    def unweighted_loss(self, logits: jax.Array, labels: Any, features: Features) -> jax.Array:
        """Return the cross entropy of each example: float32 of shape (batch, ..., 1)."""
        labels = class_numbers(labels, logits)
        factor = range_factor(labels, 2)
        labels = jnp.asarray(labels, "float32")
        if self._loss_fn is not None:
            return losses_of(self._loss_fn, labels, logits, features, 1) * factor
        return sigmoid_cross_entropy(labels, logits) * factor


def class_numbers(labels: Any, logits: jax.Array) -> Any:
    """Return numbers of classes, one for each example, of shape (batch, ..., 1).

    Raises:
        TypeError: The labels are more than one array.
        ValueError: They are missing, text, or of another shape.
    """
    labels = labels_like_logits(labels, logits, 1)
    return class_ids(labels, None)


def sigmoid_cross_entropy(labels: jax.Array, logits: jax.Array) -> jax.Array:
    """Return the cross entropy of probabilities and logits, element by element."""
    # By the derivative of softplus, which is right at 0, where models start: that of maximum and abs is not.
    return jax.nn.softplus(logits) - logits * labels


_AVERAGE_LOSS, _ACCURACY = "average_loss", "accuracy"


class MultiClassHead(WeightedHead):
    """Predicts one of several classes from a logit each, and minimizes the softmax cross entropy.

    Labels are the numbers of classes, from 0, or names in ``label_vocabulary``.

    Args:
        n_classes: How many classes there are: more than 2, for which there is `BinaryClassHead`.
        weight_column: As for `WeightedHead`.
        label_vocabulary: The names of the classes, if labels are text.
        loss_reduction: As for `Head`.
        loss_fn: As for `WeightedHead`; returns shape (batch, 1).
        name: As for `Head`.

    Raises:
        TypeError: As for `WeightedHead`.
        ValueError: There are too few classes, the vocabulary is no list or has another length, or as for
            `WeightedHead`.

    Source: ``MultiClassHead`` (tensorflow_estimator/python/estimator/head/multi_class_head.py).

    Example:
        ```python
        head = muster.estimator.MultiClassHead(3, label_vocabulary=["red", "green", "blue"])
        columns = [muster.feature_column.numeric_column("x")]
        estimator = muster.estimator.DNNEstimator(head, [8], columns, model_dir="runs/headed")
        ```
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: str | NumericColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = "sum_over_batch_size",
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        if n_classes is None:
            raise ValueError("n_classes cannot be None")
        if not isinstance(n_classes, numbers.Integral) or n_classes <= 2:
            raise ValueError(f"n_classes must be > 2: {n_classes}.")
        super().__init__(int(n_classes), weight_column, loss_reduction, loss_fn, name)
        self._vocabulary: tuple[str, ...] | None = checked_vocabulary(label_vocabulary)
        if self._vocabulary is not None and len(self._vocabulary) != n_classes:
            raise ValueError(
                '"label_vocabulary" does not have "n_classes" items. '
                f"len(label_vocabulary)={len(self._vocabulary)}, n_classes={n_classes}, "
                f"label_vocabulary={label_vocabulary}"
            )

    def numeric_labels(self, labels: Any) -> Any:
        """Return the numbers of the names in the vocabulary; without one, the labels."""
        return class_ids(labels, self._vocabulary)

    def predictions(self, logits: jax.Array, keys: Sequence[str] | None = None) -> dict[str, Any]:
        """Return ``logits``, ``probabilities``, and the predicted and all classes."""
        logits = self.checked_logits(logits)
        names = class_names(self._vocabulary, self.logits_dimension)
        return chosen({LOGITS: logits, **class_predictions(logits, names)}, keys)

    def export_outputs(self, predictions: Mapping[str, Any]) -> dict[str, ExportOutput]:
        """Return the signatures ``classification``, which is the default, and ``predict``."""
        return classification_outputs(predictions, predictions[ALL_CLASSES])

    def own_metrics(self) -> Metrics:
        """Return the weighted means of the losses and of right answers."""
        return {self.key(name): self.metric(name, mean) for name in (_AVERAGE_LOSS, _ACCURACY)}

    def update_own_metrics(self, eval_metrics: Metrics, features: Features, logits: Any, labels: Any) -> None:
        """Add a batch to the metrics."""
        logits = self.checked_logits(logits)
        losses = self.unweighted_loss(logits, labels, features)
        weights = jnp.broadcast_to(self.weights(features, logits), losses.shape)
        right = jnp.argmax(logits, axis=-1, keepdims=True) == jnp.asarray(class_numbers(labels, logits))
        for name, values in ((_AVERAGE_LOSS, losses), (_ACCURACY, jnp.asarray(right, "float32"))):
            eval_metrics[self.key(name)].update_state(values, sample_weight=weights)

    def unweighted_loss(self, logits: jax.Array, labels: Any, features: Features) -> jax.Array:
        """Return the cross entropy of each example: float32 of shape (batch, ..., 1)."""
        labels = class_numbers(labels, logits)
        if not jnp.issubdtype(labels.dtype, np.integer):
            raise ValueError(
                f"Labels dtype should be integer. Instead got {labels.dtype}. Cast them in the input "
                "pipeline."
            )
        classes = self.logits_dimension
        factor = range_factor(labels, classes)
        labels = jnp.asarray(labels)
        if self._loss_fn is not None:
            return losses_of(self._loss_fn, labels, logits, features, 1) * factor
        chances = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(chances, jnp.clip(labels, 0, classes - 1), axis=-1) * factor
