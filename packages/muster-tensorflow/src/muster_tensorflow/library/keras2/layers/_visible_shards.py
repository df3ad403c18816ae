"""The shards of variables that a partitioner divides, in the lists of a layer's or model's variables.

Under ``ParameterServerStrategy`` TensorFlow's layers have a variable for each shard. Here a layer has one,
which Keras, optimizers and checkpoints use as a whole. A program that asks for a list gets the shards; Keras
and muster get the variables.

Source: keras/src/engine/base_layer.py of Keras 2.15, ``Layer.add_weight`` and its ``is_split_variable``.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

from muster import keras
from muster.extend import StoredVariables, storage_of, whole_variables
from muster_tensorflow.patches import change, wrap

_LISTS = (
    "variables",
    "weights",
    "trainable_variables",
    "trainable_weights",
    "non_trainable_variables",
    "non_trainable_weights",
)
_OURS = ("keras.", "muster.", "muster_tensorflow.")


def with_shards(variables: list[Any]) -> list[Any]:
    """Return variables, and the shards in the place of each that is divided."""
    found: list[Any] = []
    for each in variables:
        storage = storage_of(each)
        shards = storage.shards_of(each) if isinstance(storage, StoredVariables) else ()
        found += shards or [each]
    return found


def _showing(original: Any) -> property:
    """Wrap a property that lists variables."""

    def listed(self: Any) -> Any:
        variables = original.fget(self)
        asking = sys._getframe(1).f_globals.get("__name__") or ""
        return variables if asking.startswith(_OURS) else type(variables)(with_shards(variables))

    return property(listed, original.fset, doc=original.__doc__)


def _of_wholes(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``build`` of an optimizer: it makes slots of whole variables."""

    @functools.wraps(original)
    def build(self: Any, variables: Any) -> None:
        original(self, whole_variables(list(variables)))

    return build


def patch() -> None:
    """Let lists of variables show shards."""
    for name in _LISTS:
        change(keras.Layer, name, _showing(vars(keras.Layer)[name]))
    for each in _with_subclasses(keras.optimizers.Optimizer):
        if "build" in vars(each) and each.__module__.startswith("keras."):
            wrap(each, "build", _of_wholes)


def _with_subclasses(kind: type) -> list[type]:
    found: dict[type, None] = {kind: None}
    for each in kind.__subclasses__():
        found.update(dict.fromkeys(_with_subclasses(each)))
    return [*found]
