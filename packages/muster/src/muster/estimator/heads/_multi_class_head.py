"""A head for more than two classes that exclude each other."""

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster.estimator._estimator_spec import ExportOutput
from muster.estimator.heads._binary_class_head import class_numbers
from muster.estimator.heads._classes import (
    ALL_CLASSES,
    LOGITS,
    class_names,
    class_predictions,
    classification_outputs,
)
from muster.estimator.heads._head import chosen
from muster.estimator.heads._labels import checked_vocabulary, class_ids, range_factor
from muster.estimator.heads._metrics import Metrics, mean
from muster.estimator.heads._weighted_head import WeightedHead, losses_of
from muster.feature_column import Features, NumericColumn

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
