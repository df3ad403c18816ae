"""Keras' BackupAndRestore, made exact: training continues with the very next batch."""

import shutil
from typing import Any, Protocol

from muster._errors import CheckpointMismatchError
from muster._keras import keras
from muster.checkpoint import Checkpoint, Checkpointer, restore_latest
from muster.checkpoint.objects import Variable, assign_saved, copied_values
from muster.distribute.fit._agreement import Agreement, random_state
from muster.distribute.fit._fit_input import DatasetBatches, KerasBatches, Position
from muster.distribute.fit._fit_step import KerasFunction


class Trainer(Protocol):
    """The trainer of a model, as far as backups use it."""

    @property
    def agreement(self) -> Agreement: ...

    @property
    def training_batches(self) -> KerasBatches | DatasetBatches: ...

    @property
    def train_function(self) -> KerasFunction: ...

    def share_all(self) -> None: ...


def backup_of(given: keras.callbacks.BackupAndRestore, trainer: Trainer) -> "Backup":
    """Return the callback that makes the backups that Keras' callback was asked for."""
    at_batches = given.save_freq and given.save_freq != "epoch"
    return _AtBatches(given, trainer) if at_batches else Backup(given, trainer)


class Backup(keras.callbacks.Callback):  # type: ignore[misc]
    """Saves what training needs to continue, and continues from it; the chief writes for all workers.

    Besides weights and the optimizer's state these are the metrics of the epoch, the seeds, the random
    numbers by which data is shuffled, and how many batches were drawn. A checkpoint is complete or absent.

    Args:
        given: Keras' callback, which says where and how often to save.
        trainer: The trainer of the model.

    Attributes:
        initial_epoch: The epoch in which training continues; None if nothing was saved.

    Raises:
        CheckpointError: The directory cannot be written, or its checkpoints are damaged.

    Source: keras/src/callbacks/backup_and_restore.py, ``BackupAndRestore``, which continues at the start of
    an epoch.
    """

    def __init__(self, given: keras.callbacks.BackupAndRestore, trainer: Trainer) -> None:
        super().__init__()
        self._trainer = trainer
        self._directory = given.backup_dir
        self._at_epochs = given.save_freq == "epoch"
        self._keep = 2 if given.double_checkpoint else 1
        self._delete = given.delete_checkpoint
        self._epoch = self._saves = 0
        self._writer: Checkpointer | None = None
        self._found: Checkpoint | None = None
        metadata = None
        if trainer.agreement.is_chief:
            self._found = restore_latest(self._directory, set_aside=True)
            metadata = None if self._found is None else self._found.metadata
        self._saved: dict[str, Any] | None = trainer.agreement.on("backup", metadata)[0][0]
        self.initial_epoch: int | None = None if self._saved is None else self._saved["epoch"]

    def on_train_begin(self, logs: Any = None) -> None:
        if self._trainer.agreement.is_chief:
            self._writer = Checkpointer(self._directory, max_to_keep=self._keep)
        if self._saved is not None:
            self._saves = self._saved["saves"]
            self._restore()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch
        if self._saved is None:
            return
        saved = self._saved
        if saved["step"]:
            self._restore()  # the metrics, which Keras has reset
        self._saved = self._found = None
        self._trainer.training_batches.go_on(Position(saved["random"], saved["drawn"]))
        catch_up = self._trainer.training_batches.catch_up
        self._trainer.train_function.skip(saved["step"], saved["logs"], catch_up)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if (left := self._trainer.train_function.to_skip) > 0:
            raise CheckpointMismatchError(
                f"The backup in {self._directory} was taken in an epoch with {left} steps more than one has "
                "now. Use the same data, batch size and steps_per_epoch, or delete the directory."
            )
        if self._at_epochs:
            batches = self._trainer.training_batches
            position = Position(random_state(), 0) if batches.ends_epochs else batches.position
            self._save(epoch + 1, 0, position, {})

    def on_train_end(self, logs: Any = None) -> None:
        self.close()
        if self._writer is not None and self._delete:
            shutil.rmtree(self._directory, ignore_errors=True)

    def close(self) -> None:
        """Wait for the save under way. It may be called again."""
        if self._writer is not None:
            self._writer.close()

    def _save(self, epoch: int, step: int, position: Position, logs: Any) -> None:
        self._saves += 1
        if self._writer is None:
            return
        self._writer.save(
            self._saves,
            copied_values(_objects(self.model)),
            {
                "epoch": epoch,
                "step": step,
                "drawn": position.drawn,
                "random": position.random,
                "logs": {name: float(value) for name, value in (logs or {}).items()},
                "saves": self._saves,
            },
        )

    def _restore(self) -> None:
        self._trainer.share_all()
        if self._found is None:
            return  # the chief has it
        advice = f"Delete the directory {self._directory} to start anew, or choose another one."
        assign_saved(self._found, _objects(self.model), advice)


class _AtBatches(Backup):
    """Saves every few batches: a subclass, since Keras waits for each step if a callback has this hook."""

    def __init__(self, given: keras.callbacks.BackupAndRestore, trainer: Trainer) -> None:
        super().__init__(given, trainer)
        self._every = int(given.save_freq)
        self._since = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._trainer.train_function.skipping:
            return
        self._since += self._trainer.train_function.steps_per_call
        if self._since >= self._every:
            self._since = 0
            self._save(self._epoch, batch + 1, self._trainer.training_batches.position, logs)


def _objects(model: keras.Model) -> dict[str, list[Variable]]:
    """Return all variables that training changes."""
    return {
        "model": [*model.trainable_variables, *model.non_trainable_variables],
        "optimizer": model.optimizer.variables,
        "metrics": model.metrics_variables,
    }
