"""Checkpoints of models and optimizers, as programs in muster's own names save them."""

import os
from typing import Any

from muster.checkpoint import Checkpointer, list_checkpoints, note_training
from muster.checkpoint.objects import copied_values, named_variables


def save_objects(directory: str | os.PathLike[str], max_to_keep: int | None = None, **objects: Any) -> str:
    """Save the variables of objects, by their names, as the next checkpoint of a directory.

    Args:
        directory: The directory of the checkpoints, where it is noted that this program trains.
        max_to_keep: As for `Checkpointer`.
        objects: What has variables, such as models and optimizers.

    Returns:
        The path of the checkpoint.
    """
    number = 1 + max((each.step for each in list_checkpoints(directory)), default=0)
    values = copied_values(named_variables({name: each.variables for name, each in objects.items()}))
    with Checkpointer(directory, max_to_keep=max_to_keep) as writer:
        note_training(directory)
        return writer.save(number, values, {}, wait=True)
