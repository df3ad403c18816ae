"""``evaluate`` returns losses and metrics in Keras 2's order, and metrics have Keras 2's names.

Keras 3 names a metric as ``compile(metrics=["AUC"])`` spells it, where Keras 2 has ``auc``. It sorts the
metrics of several outputs by name, where Keras 2 has those of the first output first, and puts metrics of
the model's own before those of ``compile``. A list of what ``evaluate`` returned would be read wrongly.

Source: keras/src/engine/compile_utils.py of Keras 2.15, ``MetricsContainer``; keras/src/engine/training.py,
``Model.metrics`` and ``flatten_metrics_in_order``.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from muster import keras
from muster.extend import losses_of_outputs
from muster_tensorflow.patches import change, wrap

_containers = keras.src.trainers.compile_utils


def _naming_classes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``get_metric``: the name of a class is that of a metric in other letters."""

    @functools.wraps(original)
    def get_metric(identifier: Any, *ys: Any) -> Any:
        metric = original(identifier, *ys)
        if metric is not None and identifier == type(metric).__name__:
            metric.name = keras.src.utils.naming.to_snake_case(identifier)
        return metric

    return get_metric


def result_names(model: Any) -> list[str]:
    """Return the names of a compiled model's losses and metrics, in Keras 2's order.

    Names of outputs are part of those of their metrics; metrics that no batch has built yet are left out.
    """
    first = losses_of_outputs(model) if model.compiled else []
    compiled = [each for each in model.metrics if isinstance(each, _containers.CompileMetrics)]
    own = [each for each in model.metrics if not any(each is other for other in (*first, *compiled))]
    shown = [each for each in first if any(each is other for other in model.metrics)]
    return [
        *(metric.name for metric in shown),
        *(name for metrics in compiled if metrics.built for name in _compiled_names(metrics)),
        *(metric.name for metric in own),
    ]


def _compiled_names(metrics: Any) -> list[str]:
    """Return the names of the results of ``compile``'s metrics, those of the first output first."""
    placed = SimpleNamespace(
        built=True,
        _flat_metrics=_placed(metrics._flat_metrics, 0),
        _flat_weighted_metrics=_placed(metrics._flat_weighted_metrics, 1),
    )
    places: Mapping[str, tuple[int, int, int]] = _containers.CompileMetrics.result(placed)
    return sorted(places, key=places.__getitem__)


def _placed(lists: Sequence[Any], kind: int) -> list[Any]:
    """Return lists of metrics whose results are their places: of the output, of the list, and in it."""
    return [
        each
        and SimpleNamespace(
            output_name=each.output_name,
            metrics=[
                SimpleNamespace(name=metric.name, result=functools.partial(tuple, (output, kind, at)))
                for at, metric in enumerate(each.metrics)
            ],
        )
        for output, each in enumerate(lists)
    ]


def _flatten_metrics_in_order(self: Any, logs: Mapping[str, Any]) -> Any:
    """Return results as a list in the order of ``metrics_names``, others sorted behind; one by itself."""
    names = [name for name in result_names(self) if name in logs]
    values = [logs[name] for name in (*names, *sorted(logs.keys() - set(names)))]
    return values[0] if len(values) == 1 else values


def patch() -> None:
    """Let models have Keras 2's order and names of results."""
    wrap(_containers, "get_metric", _naming_classes)
    owner = next(each for each in keras.Model.__mro__ if "_flatten_metrics_in_order" in vars(each))
    change(owner, "_flatten_metrics_in_order", _flatten_metrics_in_order)
