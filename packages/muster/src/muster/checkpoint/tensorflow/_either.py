"""Finding a checkpoint that either muster or TensorFlow wrote, and reading it."""

import os

from muster._paths import local_path
from muster.checkpoint._layout import is_complete, latest_checkpoint
from muster.checkpoint._mapped_array import MappedFile
from muster.checkpoint._read import Checkpoint, VariableInfo, list_variables, read_checkpoint
from muster.checkpoint.tensorflow._reader import TensorFlowCheckpoint, is_tensorflow_checkpoint
from muster.checkpoint.tensorflow._state import latest_prefix

# In the metadata of a checkpoint whose variables have TensorFlow's names: where it is from.
TENSORFLOW = "tensorflow"
# Where a SavedModel has its variables.
_VARIABLES = os.path.join("variables", "variables")


def find_checkpoint(path: str | os.PathLike[str]) -> str | None:
    """Return the checkpoint that a path means, or None.

    Args:
        path: A checkpoint of muster or of TensorFlow; or a directory: its newest checkpoint, muster's if
            there are both, as training that began with TensorFlow's wrote them; or a SavedModel's variables.

    Raises:
        CheckpointError: The directory cannot be listed, or its file ``checkpoint`` cannot be read.
    """
    path = local_path(path)
    if is_complete(path) or is_tensorflow_checkpoint(path):
        return path
    if not os.path.isdir(path):
        return None
    saved_model = os.path.join(path, _VARIABLES)
    return newest_checkpoint(path) or (saved_model if is_tensorflow_checkpoint(saved_model) else None)


def newest_checkpoint(
    checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None
) -> str | None:
    """Return the newest checkpoint of a directory, muster's if there are both, or None.

    Args:
        checkpoint_dir: The directory.
        latest_filename: The file in which TensorFlow names its newest; None for ``checkpoint``.

    Raises:
        CheckpointError: The directory cannot be listed, or that file cannot be read.
    """
    return latest_checkpoint(checkpoint_dir) or latest_prefix(checkpoint_dir, latest_filename)


def list_either(path: str | os.PathLike[str]) -> dict[str, VariableInfo]:
    """Return the variables of a checkpoint without reading their values.

    Raises:
        CheckpointError: There is none, or it cannot be read.
    """
    return TensorFlowCheckpoint(path).variables if is_tensorflow_checkpoint(path) else list_variables(path)


def read_either(path: str | os.PathLike[str], *, mapped: bool = False) -> Checkpoint:
    """Read a checkpoint that muster or TensorFlow wrote.

    Args:
        path: The checkpoint.
        mapped: As of `read_checkpoint`.

    Raises:
        CheckpointError: There is none, it is damaged, or it cannot be read.
    """
    if not is_tensorflow_checkpoint(path):
        return read_checkpoint(path, mapped=mapped)
    found = TensorFlowCheckpoint(path)
    files: dict[str, MappedFile] = {}
    variables = found.read_all(files if mapped else None)
    return Checkpoint(
        found.prefix, found.step(), variables, {TENSORFLOW: found.prefix}, files=[*files.values()]
    )
