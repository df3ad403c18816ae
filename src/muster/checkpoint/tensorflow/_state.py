"""Finding the newest checkpoint of a directory that TensorFlow wrote, by its file ``checkpoint``."""

import os

from muster._errors import CheckpointError
from muster._protobuf import message_class
from muster.checkpoint._arrays import open_regular
from muster.checkpoint.tensorflow._reader import is_tensorflow_checkpoint

STATE_FILE = "checkpoint"
_DESCRIPTION = """
name: "checkpoint_state.proto" package: "tensorflow" syntax: "proto3"
message_type {
  name: "CheckpointState"
  field { name: "model_checkpoint_path" number: 1 type: TYPE_STRING }
  field { name: "all_model_checkpoint_paths" number: 2 label: LABEL_REPEATED type: TYPE_STRING }
  field { name: "all_model_checkpoint_timestamps" number: 3 label: LABEL_REPEATED type: TYPE_DOUBLE }
  field { name: "last_preserved_timestamp" number: 4 type: TYPE_DOUBLE }
}
"""


def latest_prefix(directory: str | os.PathLike[str], state_file: str | None = None) -> str | None:
    """Return the prefix of the newest TensorFlow checkpoint in a directory, or None.

    Source: ``latest_checkpoint`` (tensorflow/python/checkpoint/checkpoint_management.py). Departs in that a
    directory that was moved still has one, though its file names where it was written.

    Args:
        directory: The directory.
        state_file: The name of the file that names the newest; None for ``checkpoint``.

    Raises:
        CheckpointError: That file cannot be read.
    """
    directory = os.fspath(directory)
    named = _named(os.path.join(directory, state_file or STATE_FILE))
    if not named:
        return None
    candidates = (os.path.join(directory, named), os.path.join(directory, os.path.basename(named)))
    return next(filter(is_tensorflow_checkpoint, candidates), None)


def _named(path: str) -> str:
    """Return the checkpoint that a state file names; empty for none."""
    from google.protobuf import text_format

    try:
        with open(path, encoding="utf-8", opener=open_regular) as file:
            text = file.read()
        state = message_class(_DESCRIPTION, "tensorflow.CheckpointState")()
        named: str = text_format.Parse(text, state, allow_unknown_field=True).model_checkpoint_path
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, UnicodeDecodeError, text_format.ParseError) as exc:
        raise CheckpointError(
            f"{path} does not say which checkpoint is the newest ({exc}): give the checkpoint's "
            "prefix instead."
        ) from exc
    return named
