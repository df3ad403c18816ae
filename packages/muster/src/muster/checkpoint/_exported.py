"""The weights of an exported model: what a saved model's folder has of them, as of a checkpoint."""

import os
from dataclasses import dataclass
from typing import Any

import msgspec

from muster._arrays import dtype_named
from muster._errors import CheckpointError, CheckpointNotFoundError, DamagedCheckpointError
from muster._paths import local_path
from muster.checkpoint._arrays import FileRecord, open_regular, read_arrays
from muster.checkpoint._manifest import without_checksum
from muster.checkpoint._read import Checkpoint, VariableInfo

EXPORT = "export"
"""In the metadata of a checkpoint that is the weights of an exported model: its folder."""

SAVED_MODEL = "saved_model.json"
# Where TensorFlow's saved models have their variables: programs name it for ours, too.
_VARIABLES = ("variables", "variables")


@dataclass(frozen=True)
class _Weight:
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class _Manifest:
    """The entries of a saved model's manifest that describe its weights."""

    weights: dict[str, _Weight]
    weights_file: str
    files: dict[str, FileRecord]


def export_of(path: str | bytes | os.PathLike[str]) -> str | None:
    """Return the folder of the exported model that a path means; None if it means none.

    Args:
        path: The folder, or ``variables/variables`` in it, which there need not be.
    """
    path = local_path(path)
    above, name = os.path.split(path.rstrip("/"))
    candidates = [path]
    if name == _VARIABLES[1]:
        candidates += [os.path.dirname(above)] if os.path.basename(above) == _VARIABLES[0] else [above]
    return next((each for each in candidates if os.path.isfile(os.path.join(each, SAVED_MODEL))), None)


def list_exported(folder: str) -> dict[str, VariableInfo]:
    """Return the weights of an exported model by name, without reading their values.

    Raises:
        CheckpointError: It is damaged, or cannot be read.
    """
    weights = _manifest(folder).weights
    return {name: VariableInfo(tuple(each.shape), each.dtype) for name, each in weights.items()}


def read_exported(folder: str) -> Checkpoint:
    """Read the weights of an exported model, as a checkpoint of step 0.

    Raises:
        CheckpointError: It is damaged, or cannot be read.
    """
    manifest = _manifest(folder)
    file = os.path.join(folder, manifest.weights_file)
    try:
        with open(file, "rb", buffering=0, opener=open_regular) as opened:
            stored = read_arrays(opened, file, manifest.files[manifest.weights_file])
    except OSError as exc:
        raise CheckpointError(f"The weights of the exported model {folder} cannot be read: {exc}.") from exc
    variables: dict[str, Any] = {
        name: stored[name].view(dtype_named(each.dtype)).reshape(each.shape)
        for name, each in manifest.weights.items()
    }
    return Checkpoint(folder, 0, variables, {EXPORT: folder})


def _manifest(folder: str) -> _Manifest:
    file = os.path.join(folder, SAVED_MODEL)
    try:
        with open(file, "rb", opener=open_regular) as opened:
            data = opened.read()
    except FileNotFoundError as exc:
        raise CheckpointNotFoundError(f"There is no exported model at {folder}.") from exc
    except OSError as exc:
        raise CheckpointError(f"{file} cannot be read: {exc}.") from exc
    if (body := without_checksum(data)) is None:
        raise DamagedCheckpointError(
            f"{file} does not match its checksum: its bytes have changed. Export the model again."
        )
    try:
        return msgspec.json.decode(body, type=_Manifest)
    except msgspec.DecodeError as exc:
        raise CheckpointError(f"{file} has another format than this version of muster reads: {exc}.") from exc
