"""Python's operators on metrics, as in ``2 * precision * recall / (precision + recall)``.

In TensorFlow 1 the value of a metric is a tensor, and here it is the metric. What is computed of several has
its value when it is asked for: after all batches, and those of all replicas.
"""

import operator
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import change

_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")


class ComputedMetric(keras.metrics.Metric):  # type: ignore[misc]  # keras is untyped
    """Computes its result from those of other metrics."""

    def __init__(self, compute: Callable[..., Any], operands: tuple[Any, ...]) -> None:
        """Keep a function and its arguments, some of which are metrics."""
        super().__init__(name="computed")
        self._compute, self._operands = compute, operands

    def result(self) -> Any:
        """Return the function of the metrics' results."""
        return self._compute(*map(_result, self._operands))

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        """Refuse: the metrics that it is computed of are updated."""
        raise TypeError("This is computed of other metrics: update those.")


def _result(value: Any) -> Any:
    return value.result() if isinstance(value, keras.metrics.Metric) else value


def _method(how: Callable[..., Any], reflected: bool) -> Callable[[Any, Any], ComputedMetric]:
    def method(self: Any, other: Any) -> ComputedMetric:
        return ComputedMetric(how, (other, self) if reflected else (self, other))

    return method


def patch() -> None:
    """Give metrics the operators."""
    for name in _OPERATORS:
        how = getattr(operator, name)
        change(keras.metrics.Metric, f"__{name}__", _method(how, reflected=False))
        change(keras.metrics.Metric, f"__r{name}__", _method(how, reflected=True))
    change(keras.metrics.Metric, "__neg__", lambda self: ComputedMetric(operator.neg, (self,)))
