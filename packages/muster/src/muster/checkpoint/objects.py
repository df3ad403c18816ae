"""Saving and restoring the variables of objects, such as models and optimizers.

Every checkpoint names a variable by its path, made unique by :func:`unique_path`: Estimators name one
``dense/kernel``. The variables of an object have its name in front: ``model/dense/kernel``.

Keras' paths depend on how a model was built (``net/dense/kernel`` by a call, ``dense_1/kernel`` from its
configuration). So the variables of an object are restored in the order in which they were saved, which the
manifest keeps, and not by path. Estimators trace their model_fn anew each time, and restore by path.
"""

import itertools
from collections import defaultdict, deque
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


def named_variables(objects: Mapping[str, Iterable[Variable]]) -> dict[str, Variable]:
    """Return variables by their names in a checkpoint.

    Args:
        objects: The variables of each object, by the object's name.

    Raises:
        ValueError: The name of an object contains "/".
    """
    named: dict[str, Variable] = {}
    for name, variables in objects.items():
        if "/" in name:
            raise ValueError(
                f"An object in a checkpoint cannot be called {name!r}: '/' ends an object's name."
            )
        for variable in variables:
            named[unique_path(f"{name}/{variable.path}", named)] = variable
    return named


def copied_values(named: Mapping[str, Variable]) -> dict[str, np.ndarray[Any, Any]]:
    """Return copies of the values of variables, by name."""
    return {name: np.array(variable.value) for name, variable in named.items()}


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
    saved = checkpoint.variables
    unmatched: dict[str, deque[str]] = defaultdict(deque)
    for name in saved:
        unmatched[name.partition("/")[0]].append(name)
    matches = []
    for name, variable in named_variables(objects).items():
        names, shape = unmatched[name.partition("/")[0]], tuple(variable.shape)
        match = names.popleft() if names else None
        if match is None or saved[match].shape != shape:
            found = "is not there" if match is None else f"is {match} there, of shape {saved[match].shape}"
            raise CheckpointMismatchError(
                f"{checkpoint.path} is of another model: variable {name} {found}; here it has shape {shape}. "
                f"{advice}"
            )
        matches.append((variable, saved[match]))
    if left := [name for names in unmatched.values() for name in names]:
        raise CheckpointMismatchError(
            f"{checkpoint.path} is of another model: it has {len(left)} variables that are not here, such as "
            f"{left[0]}. {advice}"
        )
    for variable, value in matches:
        variable.assign(value)
