"""Rewrite Python branches on tensors in ``call`` of layers and models, as AutoGraph does in Keras 2."""

import functools
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import wrap
from muster_tensorflow.programs.v2._function import with_branches

# How many functions are rewritten for one layer.
_MOST = 20


def rewriting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``compute_output_spec``, by which Keras tries a layer or a function on symbolic tensors."""

    @functools.wraps(original)
    def compute_output_spec(*args: Any, **kwargs: Any) -> Any:
        for _ in range(_MOST):
            try:
                return original(*args, **kwargs)
            except Exception as exc:
                if not with_branches(exc, always=True):
                    raise
        return original(*args, **kwargs)

    return compute_output_spec


def patch() -> None:
    """Let layers branch on tensors."""
    for kind in (keras.layers.Layer, keras.layers.Lambda):
        wrap(kind, "compute_output_spec", rewriting)
