"""Let Keras' losses and metrics take rows selected by ``tf.boolean_mask`` in a step of several replicas.

All rows are there, with the mask (`muster_tensorflow.library.ops.arrays._chosen`): the others weigh nothing,
and have labels of zeros.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from muster import keras
from muster_tensorflow.library.ops.arrays._chosen import Chosen, filled_with_zeros
from muster_tensorflow.patches import wrap


def _of_chosen(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Loss.__call__``."""

    @functools.wraps(original)
    def call(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        chosen = _first((y_true, y_pred))
        if chosen is None:
            return original(self, y_true, y_pred, sample_weight)
        labels, outputs = _filled(y_true), _rows(y_pred)
        if self.reduction in (None, "none"):
            losses = original(self, labels, outputs, _rows(sample_weight))
            return Chosen(losses, chosen.mask, chosen.of)
        loss = original(self, labels, outputs, _weights(chosen, sample_weight))
        is_sum = self.reduction in ("sum", "mean_with_sample_weight")
        return loss if is_sum else loss / jnp.mean(chosen.mask.astype(loss.dtype))

    return call


def _updated_by_chosen(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``update_state`` of a class of metrics."""

    @functools.wraps(original)
    def update_state(self: Any, *args: Any, **kwargs: Any) -> Any:
        chosen = _first((*args, *kwargs.values()))
        if chosen is None:
            return original(self, *args, **kwargs)
        of_labels = {name: _filled(value) for name, value in kwargs.items() if name == "y_true"}
        others = {name: _rows(value) for name, value in kwargs.items() if name != "y_true"}
        first = [_filled(value) for value in args[:1]]
        rest = [_rows(value) for value in args[1:]]
        place = 1 if isinstance(self, keras.metrics.Mean) and not _compares(self) else 2
        if len(args) > place:
            rest[place - 1] = _weights(chosen, args[place])
        else:
            others["sample_weight"] = _weights(chosen, kwargs.get("sample_weight"))
        return original(self, *first, *rest, **of_labels, **others)

    return update_state


def _compares(metric: Any) -> bool:
    return isinstance(metric, keras.metrics.MeanMetricWrapper)


def _first(values: tuple[Any, ...]) -> Chosen | None:
    return next((each for each in values if isinstance(each, Chosen)), None)


def _rows(value: Any) -> Any:
    return value.rows if isinstance(value, Chosen) else value


def _filled(value: Any) -> Any:
    """Return the rows, with zeros for those that are not chosen, which may be no classes."""
    return filled_with_zeros(value) if isinstance(value, Chosen) else value


def _weights(chosen: Chosen, weight: Any) -> Any:
    return jnp.where(chosen.mask, 1.0 if weight is None else _rows(weight), 0.0).astype("float32")


def patch() -> None:
    """Let losses and metrics take them."""
    wrap(keras.losses.Loss, "__call__", _of_chosen)
    for kind in {each for each in vars(keras.metrics).values() if isinstance(each, type)}:
        if issubclass(kind, keras.metrics.Metric) and "update_state" in vars(kind):
            wrap(kind, "update_state", _updated_by_chosen)
