"""``muster convert``: writes a TensorFlow checkpoint as one of muster's."""

import os
from contextlib import closing

from muster._errors import CheckpointError, CheckpointNotFoundError
from muster._paths import local_path
from muster._text import printable
from muster.checkpoint import Checkpointer, latest_checkpoint
from muster.checkpoint.tensorflow import (
    OBJECT_GRAPH,
    TENSORFLOW,
    TensorFlowCheckpoint,
    find_checkpoint,
    is_tensorflow_checkpoint,
    join_parts,
    list_either,
    read_either,
)


def convert_checkpoint(source: str, model_dir: str) -> int:
    """Write a TensorFlow checkpoint into a model directory, and print what became of it.

    Variables keep TensorFlow's names: which variable of a model each is, an Estimator finds out, which
    knows the model.

    Args:
        source: The checkpoint's prefix, or the directory of checkpoints, whose newest is taken.
        model_dir: The directory; made if it is missing.

    Returns:
        The exit code of the command.

    Raises:
        CheckpointError: The checkpoint cannot be read, or is object-based, or the directory has one already.
    """
    source, model_dir = local_path(source), local_path(model_dir)
    found = find_checkpoint(source) or source
    if os.path.isdir(found) and not is_tensorflow_checkpoint(found):
        raise CheckpointNotFoundError(
            f"There is no TensorFlow checkpoint in {source}: give the prefix of one, its path without "
            "'.index'."
        )
    original = TensorFlowCheckpoint(found)
    if OBJECT_GRAPH in original.entries:
        raise CheckpointError(
            f"{found} is an object-based checkpoint, whose names only its model explains. Restore it into "
            "the model with tf.train.Checkpoint(model=model).restore, and save that."
        )
    if (other := latest_checkpoint(model_dir)) is not None:
        raise CheckpointError(f"{model_dir} has a checkpoint already, {other}: give another directory.")
    checkpoint = read_either(found, mapped=True)
    with closing(checkpoint), Checkpointer(model_dir, max_to_keep=None) as writer:
        path = writer.save(checkpoint.step, checkpoint.variables, {TENSORFLOW: found}, wait=True)
    print(f"Wrote {len(list_either(path))} variables of {printable(found)} to {printable(path)}.")
    if left := sorted(join_parts(original.entries).keys() - checkpoint.variables.keys()):
        print(f"Left out, as strings or parts of what is not there: {', '.join(map(printable, left))}.")
    return 0
