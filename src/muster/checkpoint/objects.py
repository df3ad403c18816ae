"""Saving and restoring the variables of objects, such as models and optimizers.

A variable is named ``<object>/<number>``, by its place among the object's variables. Keras' paths cannot name
it: they depend on how a model was built (``net/dense/kernel`` by a call, ``dense_1/kernel`` from its
configuration). Estimators trace their model_fn anew each time, and name variables by path.
"""

from collections.abc import Iterable, Mapping
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


def numbered(objects: Mapping[str, Iterable[Variable]]) -> dict[str, Variable]:
    """Return variables by their names in a checkpoint.

    Args:
        objects: The variables of each object, by the object's name.
    """
    return {
        f"{name}/{number}": variable
        for name, variables in objects.items()
        for number, variable in enumerate(variables)
    }


def copied_values(objects: Mapping[str, Iterable[Variable]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return copies of the values of variables, by their names in a checkpoint."""
    return {name: np.array(variable.value) for name, variable in numbered(objects).items()}


def assign_saved(checkpoint: Checkpoint, objects: Mapping[str, Iterable[Variable]], advice: str) -> None:
    """Set variables to their values in a checkpoint.

    Args:
        checkpoint: The checkpoint.
        objects: The variables of each object, by the object's name.
        advice: What to do if they do not match, for the message.

    Raises:
        CheckpointMismatchError: The checkpoint has other variables, or other shapes. Nothing was set.
    """
    variables, saved = numbered(objects), checkpoint.variables
    for name, variable in variables.items():
        array = saved.get(name)
        if array is None or array.shape != tuple(variable.shape):
            found = "is not there" if array is None else f"has shape {array.shape}"
            raise CheckpointMismatchError(
                f"{checkpoint.path} is of another model: variable {name} ({variable.path}) {found}; here it "
                f"has shape {tuple(variable.shape)}. {advice}"
            )
    if left := sorted(saved.keys() - variables.keys()):
        raise CheckpointMismatchError(
            f"{checkpoint.path} is of another model: it has {len(left)} variables that are not here, such as "
            f"{left[0]}. {advice}"
        )
    for name, variable in variables.items():
        variable.assign(saved[name])
