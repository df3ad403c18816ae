"""Continue from a TensorFlow checkpoint: match its variable names to those of the model."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from muster._arrays import dtype_named
from muster.checkpoint import Checkpoint, restore_latest
from muster.checkpoint.tensorflow import TENSORFLOW, latest_prefix, match_names, read_either
from muster.program.variables import VariableKind, VariableSpec

_LEARNING_RATE = "/learning_rate"

_log = logging.getLogger(__name__)


def restore_newest(model_dir: str, *, set_aside: bool = False, mapped: bool = False) -> Checkpoint | None:
    """Read the newest checkpoint of a model directory as `restore_latest` does, else TensorFlow's newest.

    Hashed tables are left in it.

    Args:
        model_dir: The directory.
        set_aside: As of `restore_latest`.
        mapped: As of `read_checkpoint`.

    Raises:
        CheckpointError: All are damaged, or one cannot be read.
    """
    checkpoint = restore_latest(model_dir, set_aside=set_aside, tables=False, mapped=mapped)
    if checkpoint is None and (prefix := latest_prefix(model_dir)) is not None:
        checkpoint = read_either(prefix, mapped=mapped)
        _log.info("Starting from %s, which TensorFlow wrote.", prefix)
    return checkpoint


def renamed(checkpoint: Checkpoint, variables: Sequence[VariableSpec], initial: dict[str, Any]) -> Checkpoint:
    """Return a checkpoint that TensorFlow wrote with the model's names; any other one as it is.

    What TensorFlow does not store starts from its initial value: a learning rate that is no variable there,
    and the state of seed generators.

    Args:
        checkpoint: The checkpoint.
        variables: The variables of the model.
        initial: Their initial values, by path.
    """
    if TENSORFLOW not in checkpoint.metadata:
        return checkpoint
    stored = checkpoint.variables
    weights = [v.path for v in variables if v.kind is not VariableKind.OTHER or v.path in stored]
    others = [v.path for v in variables if v.kind is VariableKind.OTHER and v.path not in stored]
    names = match_names(stored, weights, others)
    values = {
        v.path: np.asarray(initial[v.path])
        for v in variables
        if v.kind is VariableKind.SEED or v.path.endswith(_LEARNING_RATE)
    }
    dtypes = {v.path: dtype_named(v.dtype) for v in variables}
    values |= {path: stored[name].astype(dtypes[path], copy=False) for path, name in names.items()}
    values |= {name: value for name, value in stored.items() if name not in {*names.values(), *names}}
    return dataclasses.replace(checkpoint, variables=values)
