"""The shards of variables that a partitioner divides, in the lists of a layer's or model's variables.

Under ``ParameterServerStrategy`` TensorFlow's layers have a variable for each shard. Here a layer has one,
which Keras, optimizers and checkpoints use as a whole. A program that asks for a list gets the shards; Keras
and muster get the variables.
"""

import functools
from collections.abc import Callable
from typing import Any

from muster import keras
from muster.extend import whole_variables
from muster_tensorflow.library.ops._shown_shards import showing_shards
from muster_tensorflow.patches import change, wrap

_LISTS = (
    "variables",
    "weights",
    "trainable_variables",
    "trainable_weights",
    "non_trainable_variables",
    "non_trainable_weights",
)


def _of_wholes(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``build`` of an optimizer: it makes slots of whole variables."""

    @functools.wraps(original)
    def build(self: Any, variables: Any) -> None:
        original(self, whole_variables(list(variables)))

    return build


def patch() -> None:
    """Let lists of variables show shards."""
    for name in _LISTS:
        change(keras.Layer, name, showing_shards(vars(keras.Layer)[name]))
    for each in _with_subclasses(keras.optimizers.Optimizer):
        if "build" in vars(each) and each.__module__.startswith("keras."):
            wrap(each, "build", _of_wholes)


def _with_subclasses(kind: Any) -> list[Any]:
    found: dict[Any, None] = {kind: None}
    for derived in kind.__subclasses__():
        found.update(dict.fromkeys(_with_subclasses(derived)))
    return [*found]
