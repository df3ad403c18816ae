"""``tf.contrib.layers.utils`` and ``tf.contrib.slim.utils``: collect layers' outputs by name.

Source: tensorflow/contrib/layers/python/layers/utils.py of TensorFlow 1.15.
"""

import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from muster_tensorflow.library.contrib.arg_scopes import add_arg_scope
from muster_tensorflow.library.ops._value_names import name_of
from muster_tensorflow.programs.v1._collections import collected
from muster_tensorflow.programs.v1.variables._variables import VariableScope, get_variable_scope

Function = TypeVar("Function", bound=Callable[..., Any])


def layer(function: Function) -> Function:
    """Let a layer take defaults from ``arg_scope``, and add its outputs to its ``outputs_collections``."""

    @functools.wraps(function)
    def collecting(*args: Any, **kwargs: Any) -> Any:
        outputs = function(*args, **kwargs)
        if names := kwargs.get("outputs_collections"):
            own, around = kwargs.get("scope"), get_variable_scope().name
            if isinstance(own, VariableScope):
                alias = own.name
            else:
                alias = f"{around}/{own or function.__name__}".lstrip("/")
            collect_named_outputs(names, alias, outputs)
        return outputs

    return add_arg_scope(collecting)  # type: ignore[return-value]


def collect_named_outputs(collections: str | Sequence[str] | None, alias: str, outputs: Any) -> Any:
    """Add a value to collections of the model_fn under a name, and return it.

    Args:
        collections: One, or several; None for none.
        alias: The name, for `convert_collection_to_dict`; a slash at its end does not count.
        outputs: The value.
    """
    for name in [collections] if isinstance(collections, str) else collections or ():
        collected(name).append(outputs)
        collected(("aliases", name)).append((alias.removesuffix("/"), outputs))
    return outputs


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> OrderedDict[str, Any]:
    """Return the values of a collection of the model_fn by the names that they were added under.

    Those without one have that of the operation, if the program gave it one.

    Args:
        collection: The collection.
        clear_collection: Whether it is empty afterwards.
    """
    values, aliases = collected(collection), collected(("aliases", collection))
    by_name = OrderedDict[str, Any]()
    for value in values:
        names = [alias for alias, known in aliases if known is value]
        by_name |= dict.fromkeys(names or [name_of(value).removesuffix(":0")], value)
    if clear_collection:
        values.clear()
        aliases.clear()
    return by_name


def last_dimension(shape: Any, min_rank: int = 1) -> int:
    """Return the size of the last axis.

    Args:
        shape: A shape.
        min_rank: The smallest number of axes that it may have.

    Raises:
        ValueError: It has fewer, or the size is unknown.
    """
    sizes = [getattr(size, "value", size) for size in shape]
    if len(sizes) < min_rank:
        raise ValueError(f"rank of shape must be at least {min_rank} not: {len(sizes)}")
    if sizes[-1] is None:
        raise ValueError("last dimension shape must be known but is None")
    return int(sizes[-1])
