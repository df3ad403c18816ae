"""Saving and restoring the variables of objects, such as models and optimizers.

Every checkpoint names a variable by its path, made unique by :func:`unique_path`: Estimators name one
``dense/kernel``. The variables of an object have its name in front: ``model/dense/kernel``.

Keras' paths depend on how a model was built (``net/dense/kernel`` by a call, ``dense_1/kernel`` from its
configuration). So the variables of an object are restored in the order in which they were saved, which the
manifest keeps, and not by path. Estimators trace their model_fn anew each time, and restore by path.
"""

import itertools
from collections.abc import Container, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from muster._errors import CheckpointMismatchError
from muster.checkpoint._read import Checkpoint


class Variable(Protocol):
    """A ``keras.Variable``."""

    @property
    def path(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def value(self) -> Any: ...

    def assign(self, value: Any) -> Any: ...


def unique_path(path: str, taken: Container[str]) -> str:
    """Return the path if it is not taken, else the first of ``path_1``, ``path_2``, … that is not."""
    candidates = itertools.chain([path], (f"{path}_{number}" for number in itertools.count(1)))
    return next(candidate for candidate in candidates if candidate not in taken)


def copied_values(objects: Mapping[str, Iterable[Variable]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return copies of the values of variables, by their names in a checkpoint.

    Args:
        objects: The variables of each object, by the object's name.

    Raises:
        ValueError: The name of an object contains "/".
    """
    return {name: np.array(variable.value) for name, variable in _named(objects).items()}


def assign_saved(checkpoint: Checkpoint, objects: Mapping[str, Iterable[Variable]], advice: str) -> None:
    """Set variables to their values in a checkpoint, matched by object and order.

    Args:
        checkpoint: The checkpoint.
        objects: The variables of each object, by the object's name.
        advice: What to do if they do not match, for the message.

    Raises:
        CheckpointMismatchError: The checkpoint has other variables, or other shapes. Nothing was set.
        ValueError: The name of an object contains "/".
    """
    variables, saved = _named(objects), checkpoint.variables
    saved_names = _by_object(saved)
    matches: dict[str, str] = {}
    for name, here in _by_object(variables).items():
        matches.update(zip(here, saved_names.get(name, []), strict=False))
    for name, variable in variables.items():
        match, shape = matches.get(name), tuple(variable.shape)
        if match is None or saved[match].shape != shape:
            found = (
                " is not there" if match is None else f", saved as {match}, has shape {saved[match].shape}"
            )
            raise CheckpointMismatchError(
                f"{checkpoint.path} is of another model: variable {name}{found}; here it has shape {shape}. "
                f"{advice}"
            )
    matched = set(matches.values())
    if left := [name for name in saved if name not in matched]:
        raise CheckpointMismatchError(
            f"{checkpoint.path} is of another model: it has {len(left)} variables that are not here, such as "
            f"{left[0]}. {advice}"
        )
    for name, variable in variables.items():
        variable.assign(saved[matches[name]])


def _named(objects: Mapping[str, Iterable[Variable]]) -> dict[str, Variable]:
    """Return variables by their names in a checkpoint."""
    named: dict[str, Variable] = {}
    for name, variables in objects.items():
        if "/" in name:
            raise ValueError(
                f"An object in a checkpoint cannot be called {name!r}: '/' ends an object's name."
            )
        for variable in variables:
            named[unique_path(f"{name}/{variable.path}", named)] = variable
    return named


def _by_object(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of each object's variables, in their order."""
    grouped: dict[str, list[str]] = {}
    for name in names:
        grouped.setdefault(name.partition("/")[0], []).append(name)
    return grouped
