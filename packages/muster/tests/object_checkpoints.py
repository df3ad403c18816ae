"""Checkpoints of models, optimizers and single variables, as a loop of one's own saves them."""

from pathlib import Path
from typing import Any

from muster import keras
from muster.checkpoint import Checkpointer, read_checkpoint
from muster.distribute import ShardedVariable
from muster.distribute.servers import restore_variables, save_variables
from muster.program.variables import together


class ObjectCheckpoint:
    """Saves and restores the variables of objects; servers write those that they hold.

    Attributes:
        objects: The objects by name: single variables, and what has some.
        saves: The number of saves so far.
    """

    def __init__(self, **objects: Any) -> None:
        self.objects = objects
        self.saves = 0

    def save(self, folder: Path, max_to_keep: int | None = None) -> str:
        """Save into a folder of checkpoints, wait until it is on the disk, and return the path."""
        self.saves += 1
        with Checkpointer(folder, max_to_keep=max_to_keep) as writer:
            return save_variables(writer, self.saves, self._variables(), {}, wait=True)

    def restore(self, path: str) -> None:
        """Set all variables to their saved values."""
        found = read_checkpoint(path, tables=False)
        listed = self._variables()
        shards = [
            each
            for variables in listed.values()
            for variable in variables
            for each in (variable.variables if isinstance(variable, ShardedVariable) else [variable])
        ]
        with together(shards):
            restore_variables(found, listed, "Build models and optimizers first.")
        self.saves = found.step

    def _variables(self) -> dict[str, list[Any]]:
        return {
            name: [each] if isinstance(each, keras.Variable | ShardedVariable) else each.variables
            for name, each in self.objects.items()
        }
