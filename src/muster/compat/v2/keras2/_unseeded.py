"""``keras.random`` without a seed in steps, as Keras on TensorFlow takes it: new numbers in every step.

Keras on JAX refuses it, since what is drawn while a step is traced would be a constant of it. Here it draws
from the generator that ``tf.random`` has in steps, whose state the step changes.

`patch` is called when `muster.compat.tensorflow` is imported.
Tried on keras 3.15.1: ``tests/compat/v2/test_keras2_unseeded.py`` fails when what is used here changes.
"""

import functools
from collections.abc import Callable
from typing import Any

from muster._errors import TraceError
from muster._keras import keras
from muster.compat.ops._arrays import is_traced
from muster.compat.ops._generators import step_generator


def _in_steps(original: Callable[[], Any]) -> Callable[[], Any]:
    """Wrap ``global_seed_generator``."""

    @functools.wraps(original)
    def generator() -> Any:
        if not is_traced():
            return original()
        try:
            return step_generator("normal", None) or original()
        except TraceError:
            return original()  # whose error names keras.random

    return generator


def patch() -> None:
    """Let steps draw without a seed."""
    module = keras.src.random.seed_generator
    module.global_seed_generator = _in_steps(module.global_seed_generator)
