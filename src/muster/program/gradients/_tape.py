"""Compute gradients in TensorFlow's way: GradientTape."""

from types import TracebackType
from typing import Any

import jax

from muster._keras import keras
from muster.program.gradients._gradients import gradients


class GradientTape:
    """Computes gradients inside of a step.

    A step is traced as a whole, so there is nothing to record and nothing to watch: any value has gradients
    with respect to any variable or array of the step; tapes may nest. The gradient with respect to a source
    on which the target does not depend is zeros, where TensorFlow returns None.

    Args:
        persistent: Whether ``gradient`` may be called more than once.
        watch_accessed_variables: Accepted for TensorFlow's programs; nothing depends on it.

    Source: tensorflow/python/eager/backprop.py, ``GradientTape``.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._used = False

    def __enter__(self) -> "GradientTape":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def watch(self, tensor: Any) -> None:
        """Do nothing; accepted for TensorFlow's programs. Any value can be a source."""

    def gradient(self, target: Any, sources: Any) -> Any:
        """Compute the gradients of the sum of a target's elements.

        Args:
            target: An array or a structure of arrays.
            sources: A variable or array, or a structure of them.

        Returns:
            Gradients in the structure of ``sources``, each of its source's shape and dtype.

        Raises:
            RuntimeError: This is the second call, and the tape is not persistent.
        """
        if self._used and not self._persistent:
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients (or "
                "jacobians). Build it with persistent=True."
            )
        self._used = True
        leaves, structure = jax.tree.flatten(sources, is_leaf=lambda x: isinstance(x, keras.Variable))
        return jax.tree.unflatten(structure, gradients(target, leaves))
