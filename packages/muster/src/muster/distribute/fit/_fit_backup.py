"""Keras' BackupAndRestore, made exact: training continues with the very next batch."""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from muster._arrays import dtype_named
from muster._errors import CheckpointError, CheckpointMismatchError, DirectoryInUseError
from muster._keras import keras
from muster._remote import publish
from muster.checkpoint import Checkpointer, restore_latest
from muster.checkpoint.objects import Variable
from muster.distribute.fit._agreement import Agreement
from muster.distribute.fit._callback_states import CallbackStates
from muster.distribute.fit._fit_input import FitInput
from muster.distribute.fit._fit_step import StepFunction
from muster.distribute.input import Position
from muster.distribute.servers import restore_variables, save_variables
from muster.program.variables import together

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class FitProgress:
    """The metadata of a backup: how far training was.

    Attributes:
        epoch: The epoch in which training continues.
        step: The number of steps that were taken in this epoch.
        position: The ``Position`` in the pass over the data, as JSON.
        logs: Keras' results of the last step.
        saves: The number of backups so far.
        callbacks: The states of callbacks, as JSON; None of a backup that has none.
        arrays: The shape and dtype of each array in them.
        stops: Whether a callback has stopped training.
    """

    epoch: int
    step: int
    position: dict[str, Any]
    logs: dict[str, float]
    saves: int
    callbacks: dict[str, Any] | None = None
    arrays: list[tuple[list[int], str]] = dataclasses.field(default_factory=list)
    stops: bool = False

    @classmethod
    def parse(cls, metadata: dict[str, Any], advice: str) -> "FitProgress":
        """Return the metadata of a checkpoint.

        Raises:
            CheckpointError: The checkpoint is no backup of ``fit``.
        """
        try:
            return cls(**metadata)
        except TypeError as exc:
            raise CheckpointError(
                f"The checkpoint was not written by BackupAndRestore: its metadata has {sorted(metadata)}, "
                f"and should have {[field.name for field in dataclasses.fields(cls)]}. {advice}"
            ) from exc


def backup_of(
    callback: keras.callbacks.BackupAndRestore,
    agreement: Agreement,
    batches: FitInput,
    share_all: Callable[[], None],
    states: CallbackStates,
) -> "Backup":
    """Return the callback that makes the backups that Keras' callback was asked for."""
    kind = _AtBatches if callback.save_freq and callback.save_freq != "epoch" else Backup
    return kind(callback, agreement, batches, share_all, states)


class Kept:
    """An array of a callback's state, as a variable of the backup."""

    def __init__(self, number: int, value: Array) -> None:
        self.path = str(number)
        self.shape = value.shape
        self.value = value

    def assign(self, value: Array) -> None:
        self.value = value.astype(self.value.dtype)


class Backup(keras.callbacks.Callback):  # type: ignore[misc]
    """Saves what training needs to continue, and continues from it; the chief writes for all workers.

    Besides weights and the optimizer's state these are the metrics of the epoch, the seeds, the random
    numbers by which data is shuffled, how many batches were drawn, and what callbacks know. A checkpoint is
    complete or absent.

    Args:
        callback: Keras' callback, which says where and how often to save.
        agreement: The agreement of the workers.
        batches: The batches of the training.
        share_all: Lets all workers take the chief's variables before the next step.
        states: The states of the callbacks that are called before this one.

    Attributes:
        initial_epoch: The epoch in which training continues; None if nothing was saved.
        is_stopped: Whether a callback had stopped training when this was saved.
        on_saved: Called with the number of each backup that was written, on any thread; None for nothing.

    Raises:
        CheckpointError: The directory cannot be written, or its checkpoints are damaged or others'.

    Source: keras/src/callbacks/backup_and_restore.py, ``BackupAndRestore``, which continues at the start of
    an epoch; keras/src/distribute/distributed_file_utils.py of Keras 2.15, ``remove_temp_dirpath``: a worker
    that is not the chief removes its directory, too, if it has the name of a temporary one, and programs
    that write models make it again.
    """

    def __init__(
        self,
        callback: keras.callbacks.BackupAndRestore,
        agreement: Agreement,
        batches: FitInput,
        share_all: Callable[[], None],
        states: CallbackStates,
    ) -> None:
        super().__init__()
        self._agreement = agreement
        self._is_chief = agreement.is_chief
        self._states = states
        self._kept: list[Kept] = []
        self._batches = batches
        self._share_all = share_all
        self._directory = callback.backup_dir
        self._advice = f"Delete the directory {self._directory} to start anew, or choose another one."
        self._freq = callback.save_freq
        self._keep = 2 if callback.double_checkpoint else 1
        temporary = f"workertemp_{agreement.name.split()[-1]}"
        is_own = self._is_chief or os.path.basename(os.path.normpath(self._directory)) == temporary
        self._delete = callback.delete_checkpoint and is_own
        self._epoch = self._saves = self._since = 0
        self._writer: Checkpointer | None = None
        self.on_saved: Callable[[int], None] | None = None
        self._found = (
            restore_latest(self._directory, set_aside=True, tables=False) if self._is_chief else None
        )
        metadata = None if self._found is None else self._found.metadata
        metadata = agreement.on("backup", metadata)[0][0]
        self._saved = None if metadata is None else FitProgress.parse(metadata, self._advice)
        self.initial_epoch = None if self._saved is None else self._saved.epoch
        self.is_stopped = self._saved is not None and self._saved.stops and not self._saved.step
        self._undo = contextlib.ExitStack()
        if self._saved is not None:
            states.prepare()
            self._kept = [
                Kept(n, np.zeros(shape, dtype_named(dtype)))
                for n, (shape, dtype) in enumerate(self._saved.arrays)
            ]

    @property
    def _function(self) -> StepFunction:
        """The function that Keras calls for steps of training."""
        return self.model.train_function  # type: ignore[no-any-return]

    def on_train_begin(self, logs: Any = None) -> None:
        if self._is_chief:
            self._writer = Checkpointer(self._directory, max_to_keep=self._keep)
            self._writer.on_saved = self.on_saved
        self._states.begin(chain(*self._objects().values()))
        if self._saved is not None:
            self._saves = self._saved.saves
            self._restore()
            for kept, value in zip(
                self._kept, self._agreement.chiefs([each.value for each in self._kept]), strict=True
            ):
                kept.value = value
            self._restore_callbacks(self._saved)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch
        if self._saved is None:
            return
        saved = self._saved
        if saved.step:
            self._restore()  # the metrics, which Keras has reset
            self._restore_callbacks(saved)  # those that begin anew at each epoch
            self._undo = self._states.telling_from(saved.step)
        self._saved = self._found = None
        self._kept = []
        self._batches.go_on(Position.of_json(saved.position))
        self._function.skip(saved.step, saved.logs, self._batches.catch_up)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._undo.close()
        if (left := self._function.to_skip) > 0:
            raise CheckpointMismatchError(
                f"The backup in {self._directory} was taken in an epoch with {left} steps more than one has "
                "now. Use the same data, batch size and steps_per_epoch, or delete the directory."
            )
        if self._freq == "epoch":
            self._save(epoch + 1, 0, self._batches.next_position, {})

    def on_train_end(self, logs: Any = None) -> None:
        self.close()
        if self._delete:
            shutil.rmtree(self._directory, ignore_errors=True)
            publish(self._directory, whole=True)

    def close(self) -> None:
        """Wait for the save under way. It may be called again."""
        self._undo.close()
        if self._writer is not None:
            self._writer.close()

    def _save(self, epoch: int, step: int, position: Position, logs: Any) -> None:
        self._saves += 1
        if self._writer is None and self._agreement.elastic and self._agreement.is_chief:
            with contextlib.suppress(DirectoryInUseError):  # the one before has not ended yet
                self._writer = Checkpointer(self._directory, max_to_keep=self._keep)
        if self._writer is None:
            return
        logs = {name: float(value) for name, value in (logs or {}).items() if not np.ndim(value)}
        states, arrays = self._states.save()
        progress = FitProgress(
            epoch,
            step,
            position.to_json(),
            logs,
            self._saves,
            states,
            [(list(each.shape), each.dtype.name) for each in arrays],
            bool(self.model.stop_training),
        )
        objects = self._objects([Kept(*each) for each in enumerate(arrays)])
        save_variables(self._writer, self._saves, objects, dataclasses.asdict(progress))

    def _restore(self) -> None:
        self._share_all()
        if self._found is not None:  # else the chief has it
            objects = self._objects(self._kept)
            with together(chain(*objects.values())):
                restore_variables(self._found, objects, self._advice)

    def _restore_callbacks(self, saved: FitProgress) -> None:
        if saved.callbacks is not None:
            self._states.restore(saved.callbacks, [each.value for each in self._kept], self._advice)

    def _objects(self, kept: Sequence[Kept] = ()) -> dict[str, list[Variable]]:
        """Return all variables that training changes, and the arrays of callbacks."""
        model = self.model
        objects = {
            "model": [*model.trainable_variables, *model.non_trainable_variables],
            "optimizer": model.optimizer.variables,
            "metrics": model.metrics_variables,
        }
        # Such as those of a second optimizer.
        more = {"others": self._function.others(), "callbacks": list(kept)}
        return objects | {name: each for name, each in more.items() if each}


class _AtBatches(Backup):
    """Saves every few batches: a subclass, since Keras waits for each step if a callback has this hook."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._function.skipping:
            return
        self._since += self._function.steps_per_call
        if self._since >= self._freq:
            self._since = 0
            self._save(self._epoch, batch + 1, self._batches.position(), logs)
