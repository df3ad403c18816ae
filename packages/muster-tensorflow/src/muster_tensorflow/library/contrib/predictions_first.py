"""``tf.contrib.metrics`` and ``tf.contrib.losses``, whose functions take predictions before labels."""

from collections.abc import Callable, Mapping
from typing import Any

from muster_tensorflow.library.ops._arrays import ArrayLike, as_array
from muster_tensorflow.programs.v1 import losses, metrics
from muster_tensorflow.programs.v1._metrics_at import mean_iou
from muster_tensorflow.programs.v1.metrics import Pair


def _streaming(function: Callable[..., Pair]) -> Callable[..., Pair]:
    def streaming(
        predictions: ArrayLike, labels: ArrayLike, *args: Any, name: str | None = None, **kwargs: Any
    ) -> Pair:
        named = {} if name is None else {"name": name}
        return function(labels, predictions, *args, **kwargs, **named)

    streaming.__name__ = streaming.__qualname__ = f"streaming_{function.__name__}"
    streaming.__doc__ = f"Do as ``tf.metrics.{function.__name__}``, which takes labels before predictions."
    return streaming


streaming_accuracy = _streaming(metrics.accuracy)
streaming_auc = _streaming(metrics.auc)
streaming_false_negatives = _streaming(metrics.false_negatives)
streaming_false_positives = _streaming(metrics.false_positives)
streaming_mean_absolute_error = _streaming(metrics.mean_absolute_error)
streaming_mean_iou = _streaming(mean_iou)
streaming_mean_squared_error = _streaming(metrics.mean_squared_error)
streaming_precision = _streaming(metrics.precision)
streaming_recall = _streaming(metrics.recall)
streaming_root_mean_squared_error = _streaming(metrics.root_mean_squared_error)
streaming_true_negatives = _streaming(metrics.true_negatives)
streaming_true_positives = _streaming(metrics.true_positives)


def aggregate_metric_map(names_to_tuples: Mapping[str, Pair]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values and the updates of pairs by name."""
    values = {name: value for name, (value, _) in names_to_tuples.items()}
    return values, {name: update for name, (_, update) in names_to_tuples.items()}


def accuracy(predictions: ArrayLike, labels: ArrayLike, weights: Any = None, name: str | None = None) -> Any:
    """Return the fraction of this batch's predictions that are equal to their labels."""
    return losses.compute_weighted_loss(
        (as_array(predictions) == as_array(labels)).astype("float32"),
        1.0 if weights is None else weights,
        loss_collection=None,
        reduction=losses.Reduction.MEAN,
    )


def softmax_cross_entropy(
    logits: ArrayLike,
    onehot_labels: ArrayLike,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: Any = None,
) -> Any:
    """Do as ``tf.losses.softmax_cross_entropy``, with the logits first."""
    return losses.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope)


def sparse_softmax_cross_entropy(
    logits: ArrayLike, labels: ArrayLike, weights: Any = 1.0, scope: Any = None
) -> Any:
    """Do as ``tf.losses.sparse_softmax_cross_entropy``, with the logits first."""
    return losses.sparse_softmax_cross_entropy(labels, logits, weights, scope)


def sigmoid_cross_entropy(
    logits: ArrayLike,
    multi_class_labels: ArrayLike,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: Any = None,
) -> Any:
    """Do as ``tf.losses.sigmoid_cross_entropy``, with the logits first."""
    return losses.sigmoid_cross_entropy(multi_class_labels, logits, weights, label_smoothing, scope)


def _reversed(function: Callable[..., Any]) -> Callable[..., Any]:
    def loss(predictions: ArrayLike, labels: ArrayLike, *args: Any, **kwargs: Any) -> Any:
        return function(labels, predictions, *args, **kwargs)

    loss.__name__ = loss.__qualname__ = function.__name__
    loss.__doc__ = f"Do as ``tf.losses.{function.__name__}``, with the predictions first."
    return loss


absolute_difference = _reversed(losses.absolute_difference)
log_loss = _reversed(losses.log_loss)
mean_squared_error = _reversed(losses.mean_squared_error)
