"""Finding the newest checkpoint of a directory that TensorFlow wrote, by its file ``checkpoint``."""

import os
from dataclasses import dataclass
from typing import Any

from muster._errors import CheckpointError
from muster._paths import local_path
from muster._protobuf import message_class
from muster.checkpoint._arrays import open_regular
from muster.checkpoint.tensorflow._reader import is_tensorflow_checkpoint

STATE_FILE = "checkpoint"
_MESSAGES = """
message CheckpointState {
  string model_checkpoint_path = 1; repeated string all_model_checkpoint_paths = 2;
  repeated double all_model_checkpoint_timestamps = 3; double last_preserved_timestamp = 4;
}
"""


@dataclass(frozen=True, kw_only=True)
class CheckpointState:
    """The checkpoints that a directory has.

    Attributes:
        model_checkpoint_path: The newest.
        all_model_checkpoint_paths: All, in ascending order.
        all_model_checkpoint_timestamps: When each was written, in seconds since the epoch; may be empty.
        last_preserved_timestamp: When the last was written that is kept beyond the newest ones; 0 if unknown.

    Source: tensorflow/python/training/checkpoint_state.proto, ``CheckpointState``.
    """

    model_checkpoint_path: str
    all_model_checkpoint_paths: tuple[str, ...]
    all_model_checkpoint_timestamps: tuple[float, ...] = ()
    last_preserved_timestamp: float = 0.0


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
    state = prefixes(directory, state_file)
    newest = None if state is None else state.model_checkpoint_path
    return newest if newest is not None and is_tensorflow_checkpoint(newest) else None


def prefixes(directory: str | os.PathLike[str], state_file: str | None = None) -> CheckpointState | None:
    """Return what the state file of a directory says, or None; arguments and errors as for `latest_prefix`.

    Of paths that lead nowhere, because the directory was moved, it has those in the directory.
    """
    directory = local_path(directory)
    stored = _read(os.path.join(directory, state_file or STATE_FILE))
    if stored is None or not stored.model_checkpoint_path:
        return None

    def found(named: str) -> str:
        candidates = (os.path.join(directory, named), os.path.join(directory, os.path.basename(named)))
        return next(filter(is_tensorflow_checkpoint, candidates), candidates[0])

    return CheckpointState(
        model_checkpoint_path=found(stored.model_checkpoint_path),
        all_model_checkpoint_paths=tuple(map(found, stored.all_model_checkpoint_paths)),
        all_model_checkpoint_timestamps=tuple(stored.all_model_checkpoint_timestamps),
        last_preserved_timestamp=stored.last_preserved_timestamp,
    )


def _read(path: str) -> Any:
    """Return the message in a state file; None for none."""
    from google.protobuf import text_format

    try:
        with open(path, encoding="utf-8", opener=open_regular) as file:
            text = file.read()
        state = message_class(_MESSAGES, "tensorflow.CheckpointState")()
        return text_format.Parse(text, state, allow_unknown_field=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError, text_format.ParseError) as exc:
        raise CheckpointError(
            f"{path} does not say which checkpoint is the newest ({exc}): give the checkpoint's "
            "prefix instead."
        ) from exc
