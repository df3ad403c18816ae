"""Deferred restoration: set variables from a checkpoint that was restored before they were created.

Variables of modules are found by the names of attributes on the way to them, as ``net.dense.kernel``, which
checkpoints keep beside the variables' own names.

Source: tensorflow/python/checkpoint/restore.py, ``CheckpointPosition``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from muster import CheckpointMismatchError, keras
from muster.extend import own_name
from muster_tensorflow.programs.v2._module import OwnModule, tell_of_attributes

Values = dict[str, Callable[[], np.ndarray[Any, Any]]]

# The objects whose variables are waited for, and what finds the variables that there are, with the values.
_WAITING: WeakKeyDictionary[Any, tuple[Callable[[Any], Mapping[str, Any]], Values]] = WeakKeyDictionary()


def variables_by_path(prefix: str, each: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables that are reached from an object, with the names of attributes on the way.

    What is reached in several ways is passed through once, so that a save takes no longer for it.

    Args:
        prefix: The path of the object; empty for none.
        each: A module, a layer, a variable, or a list or dict of such.
    """
    yield from _reached(prefix, each, set())


def _reached(path: str, each: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(each, keras.Variable):
        yield path, each
        return
    children: Any = {}
    if isinstance(each, Mapping):
        children = each
    elif isinstance(each, list | tuple):
        children = dict(enumerate(each))
    elif isinstance(each, OwnModule):
        children = vars(each)
    elif isinstance(each, keras.Layer):
        own = [*each._trainable_variables, *each._non_trainable_variables]
        public = {name: value for name, value in vars(each).items() if not name.startswith("_")}
        children = {
            **{own_name(variable): variable for variable in own},
            **public,
            "_layers": each._layers,
        }
    if id(each) in seen:
        return
    seen.add(id(each))
    for name, child in children.items():
        yield from _reached(f"{path}.{name}" if path else str(name), child, seen)


def wait_for(owner: Any, find: Callable[[Any], Mapping[str, Any]], values: Values) -> None:
    """Set variables that there are, and others as soon as they are attributes.

    Args:
        owner: Variables are waited for as long as it lives.
        find: Returns the variables that are reached from the owner, by path.
        values: Functions that return the values, by path; what was set is taken out.

    Raises:
        CheckpointMismatchError: A variable has another shape than its value.
    """
    _set(find(owner), values)
    if values:
        _WAITING[owner] = find, values


def is_waiting() -> bool:
    """Return whether modules are to create variables that there are values for."""
    return any(isinstance(owner, OwnModule) for owner in _WAITING)


def set_waiting() -> None:
    """Set the variables that have come to exist."""
    for owner, (find, values) in list(_WAITING.items()):
        _set(find(owner), values)
        if not values:
            _WAITING.pop(owner, None)


class WaitingList(list[Any]):
    """A list of a Checkpoint: variables that are appended to it may be waited for."""

    def append(self, value: Any) -> None:
        """Add a value at the end."""
        super().append(value)
        set_waiting()


def _set(found: Mapping[str, Any], values: Values) -> None:
    for path in [path for path in values if path in found]:
        variable, value = found[path], values[path]()
        if tuple(variable.shape) != value.shape:
            raise CheckpointMismatchError(
                f"The variable {path} has the shape {tuple(variable.shape)}, and {value.shape} in the "
                "checkpoint that was restored."
            )
        variable.assign(value)
        del values[path]


tell_of_attributes(set_waiting)
