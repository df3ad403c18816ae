"""``tf.compat.v1.train.init_from_checkpoint``: variables of a model_fn start from a checkpoint."""

import os
from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any

from muster import keras
from muster.checkpoint.tensorflow import find_checkpoint, list_either, read_either
from muster.extend import VariableKind, active_scope, local_path

_COUNTER = "global_step"


def init_from_checkpoint(
    ckpt_dir_or_file: str | bytes | os.PathLike[str],
    assignment_map: Mapping[str, Any] | Iterable[tuple[str, Any]],
) -> None:
    """Let variables that the model_fn has created start from values in a checkpoint.

    They do so while the model_dir has no checkpoint, as if their initializers returned these values.

    Args:
        ckpt_dir_or_file: A checkpoint of TensorFlow or muster, or a directory, whose newest is taken, or the
            folder of an exported model.
        assignment_map: Name in the checkpoint -> a variable, or the path of one; or ``"scope/"`` -> a scope
            of the model, such as ``"encoder/"``, for all variables in it. ``"/"`` is the scope of all.

    Raises:
        ValueError: The checkpoint or the model lacks a variable, or shapes differ.
        CheckpointError: The checkpoint cannot be read.
        TraceError: No model_fn is being traced.

    Source: ``init_from_checkpoint`` (tensorflow/python/training/checkpoint_utils.py). Departs in that the
    global step is in no scope: training begins at step 0.
    """
    scope = active_scope("init_from_checkpoint")
    found = find_checkpoint(ckpt_dir_or_file) or local_path(ckpt_dir_or_file)
    stored_variables = list_either(found)

    @cache
    def values() -> Mapping[str, Any]:
        # Not read at all if the model_dir has a checkpoint. Large ones stay in their files for now.
        return read_either(found, mapped=True).variables

    def value(name: str) -> Any:
        return values()[name]

    created = {
        spec.path: variable
        for spec, variable in scope.bindings.table.pairs
        if spec.kind in (VariableKind.WEIGHT, VariableKind.OTHER) and spec.path != _COUNTER
    }
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    for stored, target in pairs:
        for name, path, variable in _assignments(stored, target, created):
            if name not in stored_variables:
                raise ValueError(
                    f"Tensor {name} is not found in {found} checkpoint, for the variable {path}. "
                    "tf.train.list_variables lists those that are there."
                )
            if (shape := stored_variables[name].shape) != tuple(variable.shape):
                raise ValueError(
                    f"Shape of variable {path} ({tuple(variable.shape)}) doesn't match with shape of tensor "
                    f"{name} ({shape}) from checkpoint reader."
                )
            scope.start_from(variable, partial(value, name))


def _assignments(
    stored: str, target: Any, created: Mapping[str, keras.Variable]
) -> list[tuple[str, str, keras.Variable]]:
    """Return the name in the checkpoint, the path and the variable, for each variable that is meant."""
    if isinstance(target, keras.Variable):
        return [(stored, target.path, target)]
    if not isinstance(target, str):
        raise TypeError(f"An assignment_map has variables, paths or scopes as values, got {target!r}.")
    if target in created:
        return [(stored, target, created[target])]
    if not target.endswith("/"):
        raise ValueError(
            f"The model has no variable {target!r} yet: it has {', '.join(created) or 'none'}. Call "
            "init_from_checkpoint after the layers, and end scopes in '/'."
        )
    if not stored.endswith("/"):
        raise ValueError(
            f"Assignment map with scope only name {target} should map to scope only {stored}. Should be "
            "'scope/': 'other_scope/'."
        )
    inside, outside = target.removesuffix("/"), stored.removesuffix("/")
    prefix = f"{inside}/" if inside else ""
    return [
        (f"{outside}/{path.removeprefix(prefix)}".removeprefix("/"), path, variable)
        for path, variable in created.items()
        if path.startswith(prefix)
    ]
