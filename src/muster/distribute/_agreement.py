"""What the processes of a job tell each other by collectives. All of them must call these alike."""

import json
from typing import Any

import numpy as np
from jax.experimental import multihost_utils

from muster._errors import MismatchError


def tell_all(value: Any) -> list[Any]:
    """Tell all processes something, and learn what they tell.

    Args:
        value: JSON.

    Returns:
        What each process told, in their order.
    """
    told = np.frombuffer(json.dumps(value).encode(), np.uint8)
    lengths = np.asarray(multihost_utils.process_allgather(np.array([len(told)], np.int32))).reshape(-1)
    padded = np.zeros(int(lengths.max()), np.uint8)
    padded[: len(told)] = told
    texts = np.asarray(multihost_utils.process_allgather(padded)).reshape(len(lengths), -1)
    return [json.loads(text[:length].tobytes()) for text, length in zip(texts, lengths, strict=True)]


def require_equal(what: str, values: list[str], tasks: list[str]) -> None:
    """Check that all processes have the same texts.

    Args:
        what: what they are, for the message.
        values: those of this process.
        tasks: the names of the processes, in their order.

    Raises:
        MismatchError: in every process, naming two that differ and where.
    """
    told = tell_all(values)
    for task, others in zip(tasks, told, strict=True):
        if others == told[0]:
            continue
        at = next((i for i, (a, b) in enumerate(zip(told[0], others, strict=False)) if a != b), None)
        at = min(len(told[0]), len(others)) if at is None else at
        ours, theirs = (texts[at] if at < len(texts) else "nothing" for texts in (told[0], others))
        raise MismatchError(
            f"The {what} of {tasks[0]} and {task} differ: number {at} is {ours} in one, {theirs} in the "
            "other. All workers must run the same program on data of the same structure."
        )
