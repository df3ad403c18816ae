"""Use private parts of Keras; only ``_remote_variables.py`` does, too. Tried on keras 3.15.1.

``tests/program/variables/test_keras_internals.py`` fails when this changes.

The counters behind automatic names: a model_fn builds its model anew at every call, so ``dense`` would
become ``dense_1`` at the second. Keras offers ``clear_session``, which also forgets what the user built
elsewhere, and nothing to save and restore the counters.

The seeds of initializers and seed generators that were given none: Keras draws them from Python's
process-wide random numbers, which belong to the user and to all threads, and offers nothing else.

The state of a model's trainer: after ``train_on_batch`` Keras keeps references to the variables' arrays that
it no longer needs, and offers no way to drop them. In ``fit`` it reads all variables, and sets them to None.

The backend's functions: losses call them, and Keras ignores labels that are no classes.

Before the first step of a call it builds a model by calling it, and after an epoch it takes the results from
the metrics: a model with a ``train_step`` of TensorFlow's kind need have no ``call`` and no such metrics, and
a step of this kind needs the loss and the mean of it that Keras' own steps have.

The arguments of ``Model.compile``, and the metrics made of them: Keras offers the former serialized, which
loses functions of the user's, and the latter as one metric.

The variables of a layer: Keras finds those among its attributes, and in lists, but not in other objects.

Which variables an optimizer decays: Keras says how to exclude some, and not which are.

A variable's value: every call sets hundreds of variables to a step's results. Keras' own ``assign`` converts
and checks each, which takes longer than a small step.
"""

import collections
import contextlib
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import jax

from muster._keras import keras  # chooses the backend

global_state = keras.src.backend.common.global_state
seed_generator = keras.src.random.seed_generator
backend_functions = keras.src.backend.nn

_COUNTERS = "object_name_uids"

_SEEDS: ContextVar[random.Random | None] = ContextVar("muster_seeds", default=None)


@contextlib.contextmanager
def fresh_names() -> Iterator[None]:
    """Count automatic names from zero, and restore the counters afterwards."""
    saved = global_state.get_global_attribute(_COUNTERS)
    global_state.set_global_attribute(_COUNTERS, collections.defaultdict(int))
    try:
        yield
    finally:
        global_state.set_global_attribute(_COUNTERS, saved)


@contextlib.contextmanager
def seeds_from(generator: random.Random | None) -> Iterator[None]:
    """Draw this thread's seeds from a generator; None draws them from Python's process-wide one."""
    # Never undone: without a generator it draws as Keras does, and another thread may be drawing.
    seed_generator.python_random = _Seeds()
    token = _SEEDS.set(generator)
    try:
        yield
    finally:
        _SEEDS.reset(token)


def track_variable(layer: Any, variable: Any) -> None:
    """Let a layer have a variable."""
    layer._track_variable(variable)


def value_of(variable: Any) -> jax.Array:
    """Return the array of a variable outside of any scope."""
    return variable._value  # type: ignore[no-any-return]


def values_of(variables: Sequence[Any]) -> list[jax.Array]:
    """Return the arrays of variables outside of any scope."""
    return [variable._value for variable in variables]


def set_values(variables: Sequence[Any], values: Sequence[jax.Array]) -> None:
    """Set variables to arrays of their shapes and dtypes; surplus arrays are ignored."""
    for variable, value in zip(variables, values, strict=False):
        variable._value = value


def forget_state(model: Any) -> None:
    """Drop the arrays that a model's trainer holds; its variables have them."""
    model._jax_state = None


def keep_no_state(model: Any) -> None:
    """Let a model's trainer take no values of variables, which are elsewhere: its steps get empty lists."""
    model._get_jax_state = _empty_state


def _empty_state(*, purge_model_variables: bool = False, **wanted: bool) -> tuple[list[Any], ...]:
    return tuple([] for each in wanted.values() if each)


def note_synced(model: Any) -> None:
    """Note that a model's variables have their values, so that its trainer asks for its state again."""
    model._jax_state_synced = True


def replace_build(model: Any, build: Callable[..., None]) -> None:
    """Let a model call ``build(Keras' function, iterator=…, data_batch=…)`` where Keras builds its layers."""
    model._symbolic_build = functools.partial(build, type(model)._symbolic_build.__get__(model))


def replace_results(model: Any, results: Callable[..., Any]) -> None:
    """Let a model call ``results(Keras' function, logs)`` for the results of an epoch or an evaluation."""
    model._get_metrics_result_or_logs = functools.partial(
        results, type(model)._get_metrics_result_or_logs.__get__(model)
    )


def keras_step(model: Any, x: Any, y: Any, sample_weight: Any, *, training: bool) -> tuple[Any, Any]:
    """Return a model's predictions and loss of a batch, and add the loss to its mean, as Keras' steps do."""
    y_pred = predictions(model, x, training=training)
    loss = model._compute_loss(x, y, y_pred, sample_weight=sample_weight, training=training)
    rows = next(leaf for leaf in jax.tree.leaves(x)).shape[0]
    model._loss_tracker.update_state(loss, sample_weight=rows)
    return y_pred, loss


def predictions(model: Any, x: Any, *, training: bool) -> Any:
    """Call a model, and tell it whether it is training if it wants to know."""
    return model(x, training=training) if model._call_has_training_arg else model(x)


def compile_arguments(model: Any) -> dict[str, Any]:
    """Return the loss, metrics and weights that a model was compiled with, as they were given."""
    names = ("loss", "loss_weights", "metrics", "weighted_metrics")
    return {name: model._compile_config.config[name] for name in names}


def compiled_metrics(model: Any) -> dict[str, Any]:
    """Return the metrics that a model was compiled with and has updated, by the names of their results."""
    compiled = model._compile_metrics
    return {} if compiled is None else dict(zip(compiled.result(), compiled.metrics, strict=True))


def setting_of_every_step(optimizer: Any, variable: Any) -> str | None:
    """Return the setting by which an optimizer changes a variable, or an average of it, at every step.

    It does so also where the gradient is zero.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if inner.weight_decay and inner._use_weight_decay(variable):
        return f"weight_decay={inner.weight_decay}"
    for name in ("use_ema", "gradient_accumulation_steps"):
        if getattr(inner, name):
            return f"{name}={getattr(inner, name)}"
    return None


class _Seeds:
    """Stands in for the module ``random`` in Keras, which uses only this function."""

    def randint(self, a: int, b: int) -> int:
        return (_SEEDS.get() or random).randint(a, b)
