"""The one place that touches what Keras keeps to itself. Tried on keras 3.15.1.

``tests/program/test_keras_internals.py`` fails when this changes.

The counters behind automatic names: a model_fn builds its model anew at every call, so ``dense`` would
become ``dense_1`` at the second. Keras offers ``clear_session``, which also forgets what the user built
elsewhere, and nothing to save and restore the counters.

The seeds of initializers and seed generators that were given none: Keras draws them from Python's
process-wide random numbers, which belong to the user and to all threads, and offers nothing else.

The state of a model's trainer: after ``train_on_batch`` Keras holds on to the arrays that it has given the
variables, although it has no more use for them, and offers no way to let go of them.

A variable's value: a step's results are given to its variables, hundreds of them, at every call. Keras' own
``assign`` converts and checks each, which takes longer than a small step.
"""

import collections
import contextlib
import random
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from muster._keras import keras  # which chooses the backend

global_state = keras.src.backend.common.global_state
seed_generator = keras.src.random.seed_generator

_COUNTERS = "object_name_uids"

_SEEDS: ContextVar[random.Random | None] = ContextVar("muster_seeds", default=None)


@contextlib.contextmanager
def fresh_names() -> Iterator[None]:
    """Let automatic names start from nothing, and put the counters back afterwards."""
    saved = global_state.get_global_attribute(_COUNTERS)
    global_state.set_global_attribute(_COUNTERS, collections.defaultdict(int))
    try:
        yield
    finally:
        global_state.set_global_attribute(_COUNTERS, saved)


@contextlib.contextmanager
def seeds_from(generator: random.Random | None) -> Iterator[None]:
    """Let this thread's seeds be drawn from a generator; None leaves them to Python's process-wide one."""
    # It stays: elsewhere it draws as Keras does, and another thread may be in the middle of drawing.
    seed_generator.python_random = _Seeds()
    token = _SEEDS.set(generator)
    try:
        yield
    finally:
        _SEEDS.reset(token)


def value_of(variable: Any) -> Any:
    """The array that a variable has outside of any scope."""
    return variable._value


def values_of(variables: Sequence[Any]) -> list[Any]:
    """The arrays that variables have outside of any scope."""
    return [variable._value for variable in variables]


def set_values(variables: Sequence[Any], values: Sequence[Any]) -> None:
    """Give variables arrays of their shapes and dtypes; there may be more arrays than variables."""
    for variable, value in zip(variables, values, strict=False):
        variable._value = value


def forget_state(model: Any) -> None:
    """Let a model's trainer hold no arrays; its variables have got them."""
    model._jax_state = None


class _Seeds:
    """What Keras uses of the module ``random``."""

    def randint(self, a: int, b: int) -> int:
        return (_SEEDS.get() or random).randint(a, b)
