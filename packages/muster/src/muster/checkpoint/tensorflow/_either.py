"""Finding a checkpoint or exported model of muster's or TensorFlow's, and reading its variables."""

import os

from muster._paths import local_path
from muster.checkpoint._exported import export_of, list_exported, read_exported
from muster.checkpoint._layout import is_complete, is_named, latest_checkpoint
from muster.checkpoint._mapped_array import MappedFile
from muster.checkpoint._read import Checkpoint, VariableInfo, list_variables, read_checkpoint
from muster.checkpoint.tensorflow._reader import TensorFlowCheckpoint, is_tensorflow_checkpoint
from muster.checkpoint.tensorflow._state import latest_prefix

# In the metadata of a checkpoint whose variables have TensorFlow's names: where it is from.
TENSORFLOW = "tensorflow"
# What the names of checkpoints of TensorFlow's Estimators begin with, before that of one of muster's.
_OF_ESTIMATORS = "model."
# Where a SavedModel has its variables.
_VARIABLES = os.path.join("variables", "variables")


def find_checkpoint(path: str | bytes | os.PathLike[str]) -> str | None:
    """Return the checkpoint that a path means, or None.

    Args:
        path: A checkpoint of muster or of TensorFlow; or a directory: its newest checkpoint, muster's if
            there are both, as training that began with TensorFlow's wrote them; or the folder of an exported
            model, muster's or TensorFlow's, or ``variables/variables`` in it.

    Raises:
        CheckpointError: The directory cannot be listed, or its file ``checkpoint`` cannot be read.
    """
    path = _of_step(local_path(path, remote=True))
    if is_complete(path) or is_tensorflow_checkpoint(path):
        return path
    if (export := export_of(path)) is not None:
        return export
    if not os.path.isdir(path):
        return None
    saved_model = os.path.join(path, _VARIABLES)
    return newest_checkpoint(path) or (saved_model if is_tensorflow_checkpoint(saved_model) else None)


def newest_checkpoint(
    checkpoint_dir: str | bytes | os.PathLike[str], latest_filename: str | None = None
) -> str | None:
    """Return the newest checkpoint of a directory, muster's if there are both, or None.

    Args:
        checkpoint_dir: The directory.
        latest_filename: The file in which TensorFlow names its newest; None for ``checkpoint``.

    Raises:
        CheckpointError: The directory cannot be listed, or that file cannot be read.
    """
    checkpoint_dir = local_path(checkpoint_dir, remote=True)
    return latest_checkpoint(checkpoint_dir) or latest_prefix(checkpoint_dir, latest_filename)


def list_either(path: str | bytes | os.PathLike[str]) -> dict[str, VariableInfo]:
    """Return the variables of a checkpoint or exported model without reading their values.

    Raises:
        CheckpointError: There is none, or it cannot be read.
    """
    path = meant_path(path)
    if is_tensorflow_checkpoint(path):
        return TensorFlowCheckpoint(path).variables
    return list_variables(path) if export_of(path) is None else list_exported(path)


def read_either(
    path: str | bytes | os.PathLike[str], *, tables: bool = True, mapped: bool = False
) -> Checkpoint:
    """Read a checkpoint or the weights of an exported model that muster or TensorFlow wrote.

    Args:
        path: The checkpoint.
        tables: As of `read_checkpoint`.
        mapped: Likewise.

    Raises:
        CheckpointError: There is none, it is damaged, or it cannot be read.
    """
    path = meant_path(path)
    if not is_tensorflow_checkpoint(path):
        if export_of(path) is not None:
            return read_exported(path, mapped=mapped)
        return read_checkpoint(path, tables=tables, mapped=mapped)
    found = TensorFlowCheckpoint(path)
    files: dict[str, MappedFile] = {}
    variables = found.read_all(files if mapped else None)
    return Checkpoint(
        found.prefix, found.step(), variables, {TENSORFLOW: found.prefix}, files=[*files.values()]
    )


def meant_path(path: str | bytes | os.PathLike[str]) -> str:
    """Return a checkpoint as it is, and of what is of an exported model what has its variables."""
    path = _of_step(local_path(path, remote=True))
    if is_complete(path) or is_tensorflow_checkpoint(path):
        return path
    saved_model = os.path.join(path, _VARIABLES)
    return export_of(path) or (saved_model if is_tensorflow_checkpoint(saved_model) else path)


def _of_step(path: str) -> str:
    """Return a path; of ``model.ckpt-40``, as TensorFlow names a checkpoint, muster's ``ckpt-40``.

    That is where there is none of TensorFlow's, and one of muster's.
    """
    folder, name = os.path.split(path)
    ours = os.path.join(folder, name.removeprefix(_OF_ESTIMATORS))
    if not name.startswith(_OF_ESTIMATORS) or not is_named(ours) or is_tensorflow_checkpoint(path):
        return path
    return ours if is_complete(ours) else path
