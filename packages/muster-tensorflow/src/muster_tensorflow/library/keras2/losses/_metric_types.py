"""Cast labels and predictions to the metric's dtype for functions in ``compile(metrics=...)``, as in Keras 2.

Keras 3 passes them on as they come: a function that takes the largest value from the type, such as
`tf.image.psnr`, would scale labels of bytes and not the predictions.

Source: keras/src/metrics/base_metric.py of Keras 2.15, ``MeanMetricWrapper.update_state``.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from muster import keras
from muster_tensorflow.patches import wrap


def _converting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``MeanMetricWrapper.update_state``."""

    @functools.wraps(original)
    def update_state(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return original(self, _as(self.dtype, y_true), _as(self.dtype, y_pred), sample_weight)

    return update_state


def _as(dtype: str, value: Any) -> Any:
    """Return an array of numbers in a type; what has it already keeps its mask. All else stays as it is."""
    if isinstance(value, list | tuple) and (array := np.asarray(value)).dtype.kind in "biuf":
        value = array
    numbers = isinstance(value, jax.Array) or (isinstance(value, np.ndarray) and value.dtype.kind in "biuf")
    return keras.ops.cast(value, dtype) if numbers and value.dtype != dtype else value


def _counting_in_floats(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``__init__`` of ``MeanIoU`` and its kin, of which Keras 3 counts fractional weights as 0."""

    @functools.wraps(original)
    def init(self: Any, num_classes: int, name: Any = None, dtype: Any = None, **kwargs: Any) -> None:
        original(self, num_classes, name, dtype or keras.config.floatx(), **kwargs)

    return init


def patch() -> None:
    """Let metrics of functions convert what these get, and those of confusions count weights."""
    confusions = keras.metrics.IoU.__mro__[1]
    wrap(confusions, "__init__", _counting_in_floats)
    wrapper = keras.metrics.MeanMetricWrapper
    wrap(wrapper, "update_state", _converting)
