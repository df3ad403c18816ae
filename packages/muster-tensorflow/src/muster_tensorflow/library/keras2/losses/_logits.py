"""Compute cross entropies of softmax and sigmoid outputs from their logits, as Keras 2 does.

So it is whether a loss says ``from_logits=True`` of such an output, or not; of a layer with either activation
any cross entropy takes the logits as its own. Keras 3 does likewise on TensorFlow. On JAX it clips
probabilities, whose gradients vanish, and ``from_logits=True`` takes them for logits.

Source: keras/src/backend.py of Keras 2.15, ``_get_logits``; keras/src/activations.py, ``_keras_logits``.
"""

import functools
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.library.ops.nn._logits import SIGMOID, SOFTMAX, logits_of, note_logits
from muster_tensorflow.patches import change, wrap


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an activation of Keras' backend."""

    @functools.wraps(original)
    def activate(x: Any, *args: Any, **kwargs: Any) -> Any:
        output = original(x, *args, **kwargs)
        note_logits(output, x)
        return output

    return activate


def _of_logits(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a cross entropy of ``keras.ops``."""

    @functools.wraps(original)
    def cross_entropy(target: Any, output: Any, from_logits: bool = False, *args: Any, **kwargs: Any) -> Any:
        logits = logits_of(output, name)
        if logits is None:
            return original(target, output, from_logits, *args, **kwargs)
        return original(target, logits, True, *args, **kwargs)

    return cross_entropy


def patch() -> None:
    """Let cross entropies compute with logits where they can."""
    activations = keras.src.backend.nn
    for name in ("sigmoid", "softmax"):
        wrap(activations, name, _noting)
    for name in SIGMOID | SOFTMAX:
        wrapped = _of_logits(getattr(keras.ops, name), name)
        for module in (keras.ops, keras.src.ops):
            change(module, name, wrapped)
