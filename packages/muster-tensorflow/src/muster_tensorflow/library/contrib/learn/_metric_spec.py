"""``MetricSpec``: a metric, and the keys of its predictions, labels and weights.

Source: tensorflow/contrib/learn/python/learn/metric_spec.py of TensorFlow 1.15.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

_PREDICTIONS = {"prediction", "predictions", "predicted"}
_LABELS = {"label", "labels", "target", "targets"}
_WEIGHTS = {"weight", "weights"}


class MetricSpec:
    """Says how to compute a metric of what a model_fn takes and returns.

    Args:
        metric_fn: A function of ``tf.metrics`` or the like: by their names, it takes predictions, labels and
            weights; or it takes predictions, and labels if it takes two arguments.
        prediction_key: Which of the predictions; None if there is but one.
        label_key: Which of the labels, likewise.
        weight_key: The feature that holds weights; None for no weights.
    """

    def __init__(
        self,
        metric_fn: Callable[..., Any],
        prediction_key: str | None = None,
        label_key: str | None = None,
        weight_key: str | None = None,
    ) -> None:
        self.metric_fn = metric_fn
        self.prediction_key, self.label_key, self.weight_key = prediction_key, label_key, weight_key

    def create_metric_ops(self, inputs: Any, labels: Any, predictions: Any) -> Any:
        """Return the metric of a batch: what ``metric_fn`` returns.

        Raises:
            ValueError: A key is missing where there are several, or there is no such key.
        """
        predicted = _one_of(predictions, self.prediction_key, "prediction")
        expected = None if labels is None else _one_of(labels, self.label_key, "label")
        names = _parameters(self.metric_fn)
        named: dict[str, Any] = {}
        if self.weight_key is not None:
            named[_among(names, _WEIGHTS) or "weights"] = _one_of(inputs, self.weight_key, "weight")
        if of_predictions := _among(names, _PREDICTIONS):
            named[of_predictions] = predicted
            if of_labels := _among(names, _LABELS):
                named[of_labels] = expected
            return self.metric_fn(**named)
        return self.metric_fn(*(predicted, expected)[: len(names)], **named)

    def __repr__(self) -> str:
        keys = f"{self.prediction_key!r}, {self.label_key!r}, {self.weight_key!r}"
        return f"MetricSpec({self.metric_fn!r}, {keys})"


def _one_of(values: Any, key: str | None, what: str) -> Any:
    """Return one of a dict's values, or the only one; or a value that is in no dict."""
    if not isinstance(values, Mapping):
        if key is not None:
            raise ValueError(f"MetricSpec with {what}_key specified requires {what}s dict, got {values}.")
        return values
    if key is None:
        if len(values) != 1:
            raise ValueError(
                f"MetricSpec without specified {what}_key requires {what}s tensor or single element dict, "
                f"got the keys {sorted(values)}."
            )
        return next(iter(values.values()))
    if key not in values:
        raise ValueError(f"There is no {what} {key!r} for a metric. Keys: {sorted(values)}.")
    return values[key]


def _among(names: list[str], known: set[str]) -> str | None:
    return next((name for name in names if name in known), None)


def _parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments that a function can still be given."""
    bound = set(function.keywords) if isinstance(function, functools.partial) else set()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        name
        for name, each in inspect.signature(function).parameters.items()
        if each.kind in kinds and name not in bound
    ]
