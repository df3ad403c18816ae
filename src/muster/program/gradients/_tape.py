"""GradientTape: TensorFlow's way to write a gradient."""

from types import TracebackType
from typing import Any

import jax

from muster._keras import keras
from muster.program.gradients._gradients import gradients


class GradientTape:
    """Asks for gradients inside of a step.

    A step is traced as a whole, so there is nothing to record and nothing to watch: gradients of any value
    with respect to any variable or array of the step are to be had, nested too. What does not depend on a
    source has a gradient of zeros, where TensorFlow's has None.

    Args:
        persistent: whether ``gradient`` may be called more than once.
        watch_accessed_variables: accepted for TensorFlow's programs; nothing depends on it.

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
        """Accepted for TensorFlow's programs: every value can be differentiated with respect to."""

    def gradient(self, target: Any, sources: Any) -> Any:
        """The gradient of a sum of values with respect to sources.

        Args:
            target: an array or a structure of arrays, summed over all elements.
            sources: a variable or array, or a structure of them.

        Returns:
            Gradients in the structure of ``sources``, each of its source's shape and dtype.

        Raises:
            RuntimeError: at the second call, unless the tape is persistent.
        """
        if self._used and not self._persistent:
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients (or "
                "jacobians). Build it with persistent=True."
            )
        self._used = True
        leaves, structure = jax.tree.flatten(sources, is_leaf=lambda x: isinstance(x, keras.Variable))
        return jax.tree.unflatten(structure, gradients(target, leaves))
