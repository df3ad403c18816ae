"""Models with several outputs: apply a flat list of metrics to each, and name the outputs as Keras 2 does.

``compile(metrics=["mse", "mae"])`` gives each output both. Keras 3 takes such a list as one metric for each
of as many outputs, and refuses lists of other lengths; a list of lists it reads as Keras 2 does. And two
outputs of one layer have one name in Keras 3, so that the second's losses and metrics overwrite the first's.

Source: keras/engine/compile_utils.py of Keras 2.15, ``MetricsContainer``; keras/engine/functional.py,
``_set_output_names``.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from muster import keras
from muster_tensorflow.patches import wrap


def _for_each(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``CompileMetrics._build_metrics_set``."""

    @functools.wraps(original)
    def build_metrics_set(self: Any, metrics: Any, num_outputs: int, *args: Any, **kwargs: Any) -> Any:
        if num_outputs > 1 and isinstance(metrics, list | tuple):
            if not any(keras.tree.is_nested(metric) for metric in metrics):
                given = [metric for metric in metrics if metric is not None]
                metrics = _like(args[2], lambda: list(map(_copied, given)))
        return original(self, metrics, num_outputs, *args, **kwargs)

    return build_metrics_set


def _like(outputs: Any, make: Callable[[], list[Any]]) -> Any:
    """Return what a function makes for each output, in their structure."""
    if isinstance(outputs, dict):
        return {key: _like(each, make) for key, each in outputs.items()}
    if isinstance(outputs, list | tuple):
        return [_like(each, make) for each in outputs]
    return make()


def _copied(metric: Any) -> Any:
    """Return another metric like this, as each output has its own; functions and names stay."""
    return type(metric).from_config(metric.get_config()) if isinstance(metric, keras.Metric) else metric


def _naming(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Functional.__init__``."""

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.output_names = _distinct(self.output_names)

    # Keras compares it with those of subclasses, and does not follow wrappers.
    __init__.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    return __init__


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names with a number behind those that come again."""
    found: list[str] = []
    counts: dict[str, int] = {}
    for name in names:
        proposal = name
        while proposal in found:
            counts[name] = counts.get(name, 0) + 1
            proposal = f"{name}_{counts[name]}"
        found.append(proposal)
    return found


def patch() -> None:
    """Let outputs have metrics and names as in Keras 2."""
    metrics = keras.src.trainers.compile_utils.CompileMetrics
    wrap(metrics, "_build_metrics_set", _for_each)
    functional = keras.src.models.functional.Functional
    wrap(functional, "__init__", _naming)
