"""``keras.random`` without a seed in steps, as Keras on TensorFlow takes it: new numbers in every step.

Keras on JAX refuses it, since what is drawn while a step is traced would be a constant of it. Here it draws
from the generator that ``tf.random`` has in steps, whose state the step changes.

The layer that draws gets its generator when `fit` builds the model, which Keras does as for inference. Layers
of programs may draw in training alone, as for stochastic depth, so that it is built as for training, too.

`patch` is called when `muster.compat.tensorflow` is imported.
Tried on keras 3.15.1: ``tests/compat/v2/test_keras2_unseeded.py`` fails when what is used here changes.
"""

import contextlib
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


def _also_in_training(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function of Keras' backend by which `fit` builds a model."""

    @functools.wraps(original)
    def compute_output_spec(function: Any, *args: Any, **kwargs: Any) -> Any:
        spec = original(function, *args, **kwargs)
        if isinstance(function, keras.Model) and kwargs == {"training": False} and _has_own_layers(function):
            with contextlib.suppress(Exception):  # which training itself will raise
                original(function, *args, training=True)
        return spec

    return compute_output_spec


def _has_own_layers(model: Any) -> bool:
    return any(not type(layer).__module__.startswith("keras.") for layer in model._flatten_layers())


def patch() -> None:
    """Let steps draw without a seed."""
    backend = keras.src.backend
    backend.compute_output_spec = _also_in_training(backend.compute_output_spec)
    module = keras.src.random.seed_generator
    module.global_seed_generator = _in_steps(module.global_seed_generator)
