"""List and load the models that training saves: checkpoints, and the files of ``ModelCheckpoint``."""

import contextlib
import os
import re
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muster._errors import (
    CheckpointError,
    CheckpointMismatchError,
    CheckpointNotFoundError,
    DamagedCheckpointError,
)
from muster._keras import keras
from muster.checkpoint import list_checkpoints, read_checkpoint
from muster.checkpoint.objects import assign_saved
from muster.checkpoint.tensorflow import (
    is_tensorflow_checkpoint,
    latest_prefix,
    load_weights,
    restore_objects,
)
from muster.distribute.fit._keras_hooks import scope_of_model

_KERAS = (".weights.h5", ".keras")
_LAST_NUMBER = re.compile(r"\d+(?=\D*$)")
_MODEL, _OPTIMIZER = "model", "optimizer"
_ADVICE = "Build the model for evaluation as the one that is trained."


@dataclass(frozen=True)
class ModelFile:
    """A checkpoint, or a file of weights or of a model.

    Attributes:
        path: Its path.
        time: When it was written, in seconds since the epoch.
        size: The size of a file in bytes; 0 for a checkpoint, which is whole or absent.
    """

    path: str
    time: float
    size: int = 0

    @property
    def number(self) -> int | None:
        """The last number in its name: 3 for ``ckpt-3`` and ``ckpt-03.weights.h5``."""
        name = os.path.basename(self.path)
        name = next((name.removesuffix(each) for each in _KERAS if name.endswith(each)), name)
        found = _LAST_NUMBER.search(name)
        return None if found is None else int(found[0])

    @property
    def is_file(self) -> bool:
        """True if it is a file of Keras, which may be incomplete, since Keras writes in place."""
        return self.path.endswith(_KERAS)


def list_saved(directory: str) -> list[ModelFile]:
    """Return what is saved in a directory, the newest last.

    Raises:
        CheckpointError: The directory exists and cannot be listed.
    """
    found = [ModelFile(each.path, each.time) for each in list_checkpoints(directory)]
    prefix = latest_prefix(directory)
    with contextlib.suppress(FileNotFoundError):
        if prefix is not None:
            found.append(ModelFile(prefix, os.stat(f"{prefix}.index").st_mtime))
        for entry in os.scandir(directory):
            if entry.name.endswith(_KERAS) and entry.is_file():
                stat = entry.stat()
                found.append(ModelFile(entry.path, stat.st_mtime, stat.st_size))
    return sorted(found, key=lambda each: (each.time, each.number or 0))


class NewModels:
    """Chooses what to evaluate next among what is listed again and again; pure.

    Attributes:
        unsettled: Whether the last listing has new files that may still be written.
    """

    def __init__(self) -> None:
        self._listed: list[ModelFile] = []
        self._settled: set[ModelFile] = set()
        self._past: set[ModelFile] = set()  # what was skipped or done, or older than what was done
        self.unsettled = False

    def look(self, listed: Sequence[ModelFile]) -> None:
        """Take a listing. A file is settled when it was the same in the listing before."""
        before = set(self._listed)
        self._listed = list(listed)
        self._settled = {each for each in listed if each in before or not each.is_file}
        self.unsettled = any(each not in self._settled for each in self._new())

    def next(self) -> ModelFile | None:
        """Return the newest that is settled, not skipped, and has come since what is done; None for none."""
        settled = [each for each in self._new() if each in self._settled]
        return settled[-1] if settled else None

    def skip(self, saved: ModelFile) -> None:
        """Leave this out from now on."""
        self._past.add(saved)

    def done(self, saved: ModelFile) -> None:
        """Leave out this, and what is there and older.

        What comes later is new, whatever its date: training may go on where the clock is behind.
        """
        self._past |= {saved, *(each for each in self._listed if each.time < saved.time)}

    def _new(self) -> list[ModelFile]:
        return [each for each in self._listed if each not in self._past]


def load_saved(model: Any, saved: ModelFile) -> int | None:
    """Set a built model's weights, and the iterations of its optimizer, to what was saved.

    Args:
        model: The model.
        saved: What to load.

    Returns:
        The optimizer's iterations; None if they are not saved, or the model has no optimizer.

    Raises:
        CheckpointNotFoundError: It was deleted.
        DamagedCheckpointError: It is damaged, or was being written.
        CheckpointMismatchError: It is of another model.
        CheckpointError: It cannot be read.
    """
    if saved.is_file:
        return _load_file(model, saved)
    optimizer = getattr(model, "optimizer", None)
    found = _load_tensorflow(model, saved) if is_tensorflow_checkpoint(saved.path) else _load(model, saved)
    if optimizer is None or found is None:
        return None
    optimizer.iterations.assign(found)
    return found


def _load(model: Any, saved: ModelFile) -> int | None:
    checkpoint = read_checkpoint(saved.path)
    parts: dict[str, dict[str, Any]] = {_MODEL: {}, _OPTIMIZER: {}}
    for name, value in checkpoint.variables.items():
        parts.get(name.partition("/")[0], {})[name] = value
    if not parts[_MODEL]:
        raise CheckpointMismatchError(
            f"{saved.path} has no model: an evaluator needs checkpoints of "
            "tf.train.Checkpoint(model=model, optimizer=optimizer)."
        )
    of_model = type(checkpoint)(checkpoint.path, checkpoint.step, parts[_MODEL], {})
    assign_saved(of_model, {_MODEL: model.variables}, _ADVICE)
    iterations = [value for name, value in parts[_OPTIMIZER].items() if name.endswith("/iteration")]
    return int(iterations[0]) if iterations else None


def _load_tensorflow(model: Any, saved: ModelFile) -> int | None:
    counter = keras.Variable(-1, dtype="int64", trainable=False, name="iterations")
    optimizer = {"iter": counter, "_iterations": counter}
    try:
        restore_objects(saved.path, {_MODEL: model, _OPTIMIZER: optimizer}, model.weights)
    except CheckpointMismatchError:
        load_weights(model, saved.path)
    return None if int(counter.value) < 0 else int(counter.value)


def _load_file(model: Any, saved: ModelFile) -> int | None:
    """Load a copy of the file: a lock on the file itself would keep training from writing it again."""
    optimizer = getattr(model, "optimizer", None)
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, os.path.basename(saved.path))
        try:
            shutil.copyfile(saved.path, copy)
            stat = os.stat(saved.path)
        except FileNotFoundError as exc:
            raise CheckpointNotFoundError(f"{saved.path} was deleted.") from exc
        except OSError as exc:
            raise CheckpointError(f"{saved.path} cannot be read: {exc}.") from exc
        if (stat.st_mtime, stat.st_size) != (saved.time, saved.size):
            raise DamagedCheckpointError(f"{saved.path} is being written.")
        if optimizer is not None and not optimizer.built:
            with scope_of_model(model):
                optimizer.build(model.trainable_variables)
        if optimizer is not None:
            optimizer.iterations.assign(-1)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Skipping variable loading for optimizer")
                model.load_weights(copy)
        except (OSError, KeyError, RuntimeError, zipfile.BadZipFile) as exc:
            raise DamagedCheckpointError(f"{saved.path} is damaged, or half-written: {exc}.") from exc
        except ValueError as exc:
            raise CheckpointMismatchError(f"{saved.path} is of another model: {exc} {_ADVICE}") from exc
    found = -1 if optimizer is None else int(optimizer.iterations)
    return None if found < 0 else found
