"""Optimizers in steps: copy those built outside of a model_fn, and count their updates."""

import copy
import re
import threading
from collections.abc import Callable
from typing import Any

from muster._keras import keras
from muster.keras_hooks import wrap_in_scopes
from muster.program.variables._variable_scope import active_scope, current_scope

_COPIES = "optimizers from outside"
_COUNTERS = "counters of optimizers"


def copies_of(optimizer: Any) -> Callable[[], Any]:
    """Return a function that makes copies of an optimizer that was built outside of the step.

    Raises:
        ValueError: It cannot be copied.
    """
    try:
        config = _config(optimizer)
    except Exception as exc:  # whatever a class of the user's raises
        raise ValueError(
            f"The optimizer {optimizer!r} cannot be copied from its configuration, which each trace needs: "
            f"{exc}. Give a function that returns it, such as lambda: keras.optimizers.SGD(rate)."
        ) from exc
    return lambda: type(optimizer).from_config(copy.deepcopy(config))


def _config(optimizer: Any) -> dict[str, Any]:
    """Return the configuration of an optimizer, without its name if Keras has given it that."""
    config = optimizer.get_config()
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        config["inner_optimizer"]["config"] = _config(optimizer.inner_optimizer)
    unnamed = {key: value for key, value in config.items() if key != "name"}
    automatic = type(optimizer).from_config(copy.deepcopy(unnamed)).name
    # Keras numbers the names that it gives, and checkpoints must have the same ones in every process.
    stem = re.escape(re.sub(r"_\d+$", "", automatic))
    return unnamed if re.fullmatch(rf"{stem}(_\d+)?", optimizer.name) else config


def in_this_step(optimizer: Any) -> Any:
    """Return the optimizer that stands for another one in the code being traced.

    Its hyperparameters are those that the other one has now; its variables are part of the step's state.

    Args:
        optimizer: A Keras optimizer.

    Returns:
        The optimizer itself, if the code may use its variables, as it may outside of a step.

    Raises:
        ValueError: It cannot be copied, and was built outside of the step.
    """
    scope = current_scope()
    if scope is None or scope.may_use(optimizer.variables[0]):
        return optimizer
    copies = scope.shared.setdefault(_COPIES, {})
    if id(optimizer) not in copies:
        copies[id(optimizer)] = _outside(copies_of, optimizer)()
    return copies[id(optimizer)]


def count_updates(optimizer: Any, variable: Any) -> None:
    """Let a variable count the updates of an optimizer in the code being traced, as well as its own.

    Args:
        optimizer: A Keras optimizer.
        variable: An integer variable of the step, of shape (), such as the global step.

    Raises:
        TraceError: Called outside of a step.
        TypeError: It is no variable.
    """
    if not isinstance(variable, keras.Variable):
        raise TypeError(f"Only a variable counts the updates of an optimizer, got {variable!r}.")
    scope = active_scope("count_updates")
    scope.shared.setdefault(_COUNTERS, {})[id(in_this_step(optimizer))] = variable


def counter_of(optimizer: Any) -> Any:
    """Return the variable that counts an optimizer's updates, of `count_updates`; None if there is none."""
    scope = current_scope()
    return None if scope is None else scope.shared.get(_COUNTERS, {}).get(id(in_this_step(optimizer)))


def _outside(function: Callable[[Any], Any], argument: Any) -> Any:
    """Call a function in a thread of its own: no scope is active there, so that variables have values."""
    results: list[Any] = []
    errors: list[ValueError] = []

    def call() -> None:
        try:
            results.append(function(argument))
        except ValueError as exc:
            errors.append(exc)

    thread = threading.Thread(target=call, name="muster-optimizer-copy")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _of_this_step(original: property) -> property:
    """Wrap a property of optimizers, so that it is that of the optimizer that stands for this one."""

    def get(self: Any) -> Any:
        return original.__get__(in_this_step(self))

    return property(get, original.fset, original.fdel, original.__doc__)


wrap_in_scopes(keras.optimizers.Optimizer, "iterations", _of_this_step)
wrap_in_scopes(keras.optimizers.Optimizer, "learning_rate", _of_this_step)
