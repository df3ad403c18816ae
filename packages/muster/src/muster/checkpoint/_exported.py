"""The weights of an exported model: what a saved model's folder has of them, as of a checkpoint."""

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from muster._arrays import dtype_named
from muster._errors import (
    CheckpointError,
    CheckpointMismatchError,
    CheckpointNotFoundError,
    DamagedCheckpointError,
)
from muster._paths import local_path
from muster.checkpoint import _mapped_array
from muster.checkpoint._arrays import FileRecord, open_regular, places_in, read_arrays
from muster.checkpoint._manifest import without_checksum
from muster.checkpoint._mapped_array import ArrayPlace, MappedArray, MappedFile, MappedRows
from muster.checkpoint._read import Checkpoint, VariableInfo

EXPORT = "export"
"""In the metadata of a checkpoint that is the weights of an exported model: its folder."""

SAVED_MODEL = "saved_model.json"
# Where TensorFlow's saved models have their variables: programs name it for ours, too.
_VARIABLES = ("variables", "variables")
_SEED = "seed_generator_state"
# A name to which Keras may have appended a number.
_NUMBERED = re.compile(r"(.*?)(?:_([0-9]+))?")


@dataclass(frozen=True)
class _Weight:
    dtype: str
    shape: tuple[int, ...]

    @property
    def may_stay(self) -> bool:
        """True if it is so large that it may stay in its file."""
        nbytes = math.prod(self.shape) * dtype_named(self.dtype).itemsize
        return bool(self.shape) and nbytes >= _mapped_array.LEAST_MAPPED_BYTES

    def in_file(self, file: MappedFile, offset: int) -> MappedArray:
        """Return what stays in a file, from a byte on."""
        rows = MappedRows(0, self.shape[0], ArrayPlace(file, offset))
        return MappedArray(self.shape, dtype_named(self.dtype), [rows])


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
    path = local_path(path, remote=True)
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


def read_exported(folder: str, *, mapped: bool = False) -> Checkpoint:
    """Read the weights of an exported model, as a checkpoint of step 0.

    Args:
        folder: The folder of the model.
        mapped: As of ``read_checkpoint``: whether large ones stay in their file.

    Raises:
        CheckpointError: It is damaged, or cannot be read.
    """
    manifest = _manifest(folder)
    file = os.path.join(folder, manifest.weights_file)
    large = {name: each for name, each in manifest.weights.items() if mapped and each.may_stay}
    variables: dict[str, Any] = {}
    files = []
    try:
        with open(file, "rb", buffering=0, opener=open_regular) as opened:
            stored = read_arrays(opened, file, manifest.files[manifest.weights_file], large)
            if large:
                files.append(MappedFile(opened))
                places = places_in(opened)
                variables = {name: each.in_file(files[0], places[name]) for name, each in large.items()}
    except OSError as exc:
        raise CheckpointError(f"The weights of the exported model {folder} cannot be read: {exc}.") from exc
    for name, each in manifest.weights.items():
        if name not in large:
            variables[name] = stored[name].view(dtype_named(each.dtype)).reshape(each.shape)
    variables = {name: variables[name] for name in manifest.weights}
    return Checkpoint(folder, 0, variables, {EXPORT: folder}, files=files)


def assign_exported(variables: Sequence[Any], found: Checkpoint) -> None:
    """Set variables to the weights of an exported model, one after the other.

    Args:
        variables: The variables of a model that was built as the exported one, or some of them. Numbers in
            the names of layers may be others. The seeds of random numbers stay as they are.
        found: The weights.

    Raises:
        CheckpointMismatchError: One is missing, or has another shape. Nothing was set.
    """
    wanted = [each for each in variables if not each.path.endswith(_SEED)]
    saved = {place: name for name, place in _places(found.variables).items()}
    names = {path: saved.get(place) for path, place in _places([each.path for each in wanted]).items()}
    for variable in wanted:
        name = names[variable.path]
        if name is None or found.variables[name].shape != tuple(variable.shape):
            has = "lacks it" if name is None else f"has {name} of the shape {found.variables[name].shape}"
            raise CheckpointMismatchError(
                f"The weights of {found.path} are of another model: {variable.path} has the shape "
                f"{tuple(variable.shape)}, and the export {has}. Build the model as the exported one."
            )
    for variable in wanted:
        variable.assign(np.asarray(found.variables[str(names[variable.path])]))


def _places(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the place of each variable: its path, with numbers in names counted from the first there is.

    Keras numbers names in a process: ``sequential_1/dense_2/kernel`` may be ``sequential/dense/kernel``
    in that which has exported the model.
    """
    parts = {path: [_NUMBERED.fullmatch(name) for name in path.split("/")] for path in paths}
    places: dict[str, tuple[str, ...]] = dict.fromkeys(parts, ())
    for depth in range(max(map(len, parts.values()), default=0)):
        there = {path: each[depth] for path, each in parts.items() if depth < len(each)}
        numbers: dict[tuple[str, ...], set[int]] = {}
        for path, found in there.items():
            if found is not None:
                numbers.setdefault((*places[path], found[1]), set()).add(int(found[2] or 0))
        for path, found in there.items():
            if found is not None:
                own = sorted(numbers[(*places[path], found[1])])
                places[path] += (found[1], str(own.index(int(found[2] or 0))))
    return places


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
