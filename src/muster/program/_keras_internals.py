"""The one place that touches what Keras keeps to itself. Tried on keras 3.15.1.

``tests/program/test_keras_internals.py`` fails when this changes.

The counters behind automatic names: a model_fn builds its model anew at every call, so ``dense`` would
become ``dense_1`` at the second. Keras offers ``clear_session``, which also forgets what the user built
elsewhere, and nothing to save and restore the counters.

The seeds of initializers and seed generators that were given none: Keras draws them from Python's
process-wide random numbers, which belong to the user and to all threads, and offers nothing else.

A variable's value: a step's results are given to its variables, hundreds of them, at every call. Keras' own
``assign`` converts and checks each, which takes longer than a small step.
"""

import collections
import contextlib
import random
from collections.abc import Iterator
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


def set_value(variable: Any, value: Any) -> None:
    """Give a variable an array of its shape and dtype."""
    variable._value = value


class _Seeds:
    """What Keras uses of the module ``random``."""

    def randint(self, a: int, b: int) -> int:
        return (_SEEDS.get() or random).randint(a, b)
