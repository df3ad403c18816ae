"""Keras 2's ways with losses: with lists, such as ``loss([0, 1], predictions)``, and ``reduction="auto"``.

In Keras 3 a list is a structure of values, which must be the same in both arguments, and what
``"auto"`` chose under `fit` is the only choice: ``"sum_over_batch_size"``. Of arrays of other shapes,
Keras 2's function ``binary_crossentropy`` compares all with all, as NumPy does.

Source: keras/src/losses.py of Keras 2.15, ``LossFunctionWrapper.call``.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster import keras
from muster_tensorflow.library.ops.arrays._shape import convert_to_tensor
from muster_tensorflow.patches import wrap

_REDUCTIONS = ("auto", "none", "sum", "sum_over_batch_size")


def _calling(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Loss.__call__``."""

    @functools.wraps(original)
    def call(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        found = original(self, _of_numbers(y_true), _of_numbers(y_pred), sample_weight)
        if np.shape(found) == (0,) and self.reduction != "none":  # of a batch without rows
            return jnp.sum(found)
        return found

    return call


def _reducing(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Loss.__init__``, whose first argument was the reduction, and the second the name."""

    @functools.wraps(original)
    def init(
        self: Any, name: Any = None, reduction: Any = "sum_over_batch_size", *args: Any, **kwargs: Any
    ) -> None:
        if name in _REDUCTIONS:
            name, reduction = (reduction if args or reduction not in _REDUCTIONS else None), name
        chosen = "sum_over_batch_size" if reduction == "auto" else reduction
        original(self, name, chosen, *args, **kwargs)

    return init


def _broadcasting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``keras.losses.binary_crossentropy``."""

    @functools.wraps(original)
    def loss(y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Any:
        if np.shape(y_true) != np.shape(y_pred) and not isinstance(y_pred, keras.KerasTensor):
            y_true, y_pred = jnp.broadcast_arrays(convert_to_tensor(y_true), convert_to_tensor(y_pred))
        return original(y_true, y_pred, *args, **kwargs)

    return loss


def _of_numbers(value: Any) -> Any:
    """Return an array of a list of numbers or scalar arrays, or of lists of them; anything else as it is."""
    if isinstance(value, list | tuple) and all(np.ndim(each) == 0 for each in jax.tree.leaves(value)):
        return convert_to_tensor(value)
    return value


def patch() -> None:
    """Let losses take lists and the name of Keras 2's reduction."""
    wrap(keras.losses.Loss, "__init__", _reducing)
    wrap(keras.losses.Loss, "__call__", _calling)
    wrap(keras.losses, "binary_crossentropy", _broadcasting)
