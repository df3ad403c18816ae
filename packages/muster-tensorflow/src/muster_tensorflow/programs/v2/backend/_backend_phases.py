"""Keras 2's learning phase, and the conditionals of its ``backend``.

Source: keras/src/backend.py of Keras 2.15.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from muster import keras
from muster_tensorflow.library.keras2.layers._calls import global_phase, set_global_phase, training_around
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops.control._control import cond
from muster_tensorflow.library.ops.control._print import tf_print


def learning_phase() -> int:
    """Return 1 in training and 0 else, as `set_learning_phase` says, or 0."""
    return int(global_phase() or 0)


def set_learning_phase(value: int | bool) -> None:
    """Let layers that get no ``training`` be trained or not, until ``clear_session``.

    Args:
        value: 1 in training, 0 else.

    Raises:
        ValueError: It is neither.
    """
    if value not in (0, 1):
        raise ValueError(f"The learning phase is 0 or 1, got {value!r}.")
    set_global_phase(bool(value))


@contextmanager
def learning_phase_scope(value: int | bool) -> Iterator[None]:
    """Set the learning phase within a ``with`` block.

    Args:
        value: 1 in training, 0 else.

    Raises:
        ValueError: It is neither.
    """
    before = global_phase()
    set_learning_phase(value)
    try:
        yield
    finally:
        set_global_phase(before)


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Return one value in training, and another one else; functions are called for theirs.

    Args:
        x: The value in training.
        alt: The value else.
        training: Whether it is training; None is what the layers around are told, or the learning phase.
    """
    if training is None:
        around = training_around()
        training = learning_phase() if around is None else around
    if not isinstance(training, jax.Array | keras.Variable):
        chosen = x if training else alt
        return chosen() if callable(chosen) else chosen
    return switch(training, x, alt)


def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Return one value outside of training, and another one in it; functions are called for theirs."""
    return in_train_phase(alt, x, training)


@operation
def switch(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """Return one value or another, or by element those of one or of the other.

    Args:
        condition: A scalar; or an array with the first axes of the values, or with the last one alone.
        then_expression: An array, or a function that returns one.
        else_expression: Likewise.
    """
    condition = keras.ops.cast(keras.ops.convert_to_tensor(condition), "bool")
    if condition.ndim == 0:
        return cond(condition, _function(then_expression), _function(else_expression))
    values = keras.ops.convert_to_tensor(_function(then_expression)())
    others = keras.ops.convert_to_tensor(_function(else_expression)())
    if condition.ndim > values.ndim:
        raise ValueError(
            f"The condition has more axes than the values: shapes {condition.shape}, {values.shape}."
        )
    if condition.ndim > 1:
        more = (1,) * (values.ndim - condition.ndim)
        condition = keras.ops.reshape(condition, condition.shape + more)
    return keras.ops.where(condition, values, others)


def print_tensor(x: Any, message: str = "", summarize: int = 3) -> Any:
    """Print a value with a message before it, also in steps, and return it."""
    tf_print(message, x, output_stream=sys.stdout, summarize=summarize)
    return x


def cast_to_floatx(x: Any) -> Any:
    """Return numbers as Keras' floats: an array of NumPy for what is none of JAX."""
    if isinstance(x, jax.Array | keras.Variable | keras.KerasTensor):
        return keras.ops.cast(x, keras.config.floatx())
    return np.asarray(x, dtype=keras.config.floatx())


def _function(value: Any) -> Callable[[], Any]:
    return value if callable(value) else lambda: value
