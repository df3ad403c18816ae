"""``tf.contrib.framework`` and ``tf.contrib.slim``: variables of a model_fn, found and set.

Source: tensorflow/contrib/framework/python/ops/variables.py of TensorFlow 1.15.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from muster import keras
from muster.checkpoint.tensorflow import find_checkpoint, list_either
from muster_tensorflow.programs.v1._step import global_variables, model_variables
from muster_tensorflow.programs.v1.variables._init_from_checkpoint import init_from_checkpoint

_LOGGER = logging.getLogger(__name__)


def get_variables(
    scope: str | None = None, suffix: str | None = None, collection: object = None
) -> list[keras.Variable]:
    """Return the variables that the model_fn has created so far.

    Args:
        scope: The beginning of their names; None for all.
        suffix: The end of their names; None for all.
        collection: Unused.
    """
    found = global_variables(getattr(scope, "name", scope))
    return [each for each in found if suffix is None or each.path.endswith(suffix)]


def get_model_variables(scope: str | None = None, suffix: str | None = None) -> list[keras.Variable]:
    """Return the trainable variables, and layers' others, such as moving averages; as `get_variables`."""
    found = model_variables(getattr(scope, "name", scope))
    return [each for each in found if suffix is None or each.path.endswith(suffix)]


def get_variables_by_suffix(suffix: str, scope: str | None = None) -> list[keras.Variable]:
    """Return the variables whose names end so."""
    return get_variables(scope, suffix)


def get_variables_by_name(given_name: str, scope: str | None = None) -> list[keras.Variable]:
    """Return the variables that have a name, in any scope."""
    return [each for each in get_variables(scope) if each.path.rpartition("/")[2] == given_name]


def get_variables_to_restore(
    include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
) -> list[keras.Variable]:
    """Return the variables of some scopes, without those of others.

    Args:
        include: The beginnings of their names; None for all.
        exclude: The beginnings of the names of those that are left out.
    """
    left_out = {each.path for scope in exclude or () for each in get_variables(scope)}
    found: dict[str, keras.Variable] = {}
    for scope in [None] if include is None else include:
        found |= {each.path: each for each in get_variables(scope) if each.path not in left_out}
    return list(found.values())


def assign_from_checkpoint_fn(
    model_path: str | os.PathLike[str],
    var_list: Mapping[str, Any] | Sequence[Any],
    ignore_missing_vars: bool = False,
    reshape_variables: bool = False,
) -> Callable[..., None]:
    """Let variables start from values in a checkpoint: see ``tf.train.init_from_checkpoint``.

    Args:
        model_path: The checkpoint.
        var_list: Variables, whose names are those in the checkpoint; or name in the checkpoint -> variable.
        ignore_missing_vars: Whether what the checkpoint lacks is left out, with a warning.
        reshape_variables: Only False.

    Returns:
        What programs call with a session, as in ``Scaffold(init_fn=...)``: all is done by then.

    Raises:
        ValueError: The checkpoint lacks a variable, shapes differ, or values are to be reshaped.
    """
    if reshape_variables:
        raise ValueError("Values of a checkpoint are not reshaped here: leave reshape_variables out.")
    wanted: dict[str, Any] = (
        dict(var_list) if isinstance(var_list, Mapping) else {each.path: each for each in var_list}
    )
    if ignore_missing_vars:
        stored = list_either(find_checkpoint(model_path) or model_path)
        for name in [name for name in wanted if name not in stored]:
            _LOGGER.warning("Variable %s missing in checkpoint %s", name, model_path)
            del wanted[name]
    init_from_checkpoint(model_path, wanted)
    return lambda *session: None
