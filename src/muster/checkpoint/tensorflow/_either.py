"""Finding a checkpoint that either muster or TensorFlow wrote."""

import os

from muster.checkpoint._layout import is_complete, latest_checkpoint
from muster.checkpoint.tensorflow._reader import is_tensorflow_checkpoint
from muster.checkpoint.tensorflow._state import latest_prefix

# Where a SavedModel has its variables.
_VARIABLES = os.path.join("variables", "variables")


def find_checkpoint(path: str | os.PathLike[str]) -> str | None:
    """Return the checkpoint that a path means, or None.

    Args:
        path: A checkpoint of muster or of TensorFlow; or a directory: its newest checkpoint, muster's if there
            are both, as training that began with TensorFlow's wrote them; or a SavedModel's variables.

    Raises:
        CheckpointError: The directory cannot be listed, or its file ``checkpoint`` cannot be read.
    """
    path = os.fspath(path)
    if is_complete(path) or is_tensorflow_checkpoint(path):
        return path
    if not os.path.isdir(path):
        return None
    saved_model = os.path.join(path, _VARIABLES)
    return (
        latest_checkpoint(path)
        or latest_prefix(path)
        or (saved_model if is_tensorflow_checkpoint(saved_model) else None)
    )
