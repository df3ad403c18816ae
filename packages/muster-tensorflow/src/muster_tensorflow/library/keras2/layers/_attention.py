"""Keras 2's ``causal=True`` of attention layers: Keras 3 has ``use_causal_mask=True`` in the call instead.

Source: keras/layers/attention/base_dense_attention.py of Keras 2.15, ``BaseDenseAttention``.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import wrap


def _taking(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Attention.__init__``, which ``AdditiveAttention`` calls, too."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, causal: bool = False, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.causal = causal

    init.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]  # Keras reads it
    return init


def _masking(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method that makes the mask of scores."""

    @functools.wraps(original)
    def mask(self: Any, scores: Any, v_mask: Any, use_causal_mask: bool) -> Any:
        return original(self, scores, v_mask, use_causal_mask or self.causal)

    return mask


def patch() -> None:
    """Let attention layers be causal."""
    attention = keras.layers.Attention
    wrap(attention, "__init__", _taking)
    wrap(attention, "_calculate_score_mask", _masking)
