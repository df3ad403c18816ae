"""A process that saves checkpoints until it is killed. Run by test_checkpoint_multiprocess.py.

Arguments: the directory, and how many saves to make (0: no end). Each line on the standard output
names a save that is on the disk: "<step> <number>".
"""

import hashlib
import sys

import numpy as np

from muster.checkpoint import Checkpoint, Checkpointer, restore_latest


def contents(step: int, number: int) -> dict[str, np.ndarray]:
    """The arrays of a save: a function of what its metadata says. Not small, so that kills hit."""
    random = np.random.default_rng([step, number])
    return {
        "a/table": random.random((1 + step % 3, 1 << 16)),
        "b": random.integers(0, 255, 1 << 18, np.uint8),
        "step": np.array(step),
    }


def check(checkpoint: Checkpoint) -> tuple[int, int]:
    """Returns the step and number of a save, once sure that it is what was written."""
    step, number = checkpoint.metadata["step"], checkpoint.metadata["number"]
    expected = contents(step, number)
    assert checkpoint.step == step
    assert list(checkpoint.variables) == list(expected)
    for name, value in expected.items():
        assert digest(checkpoint.variables[name]) == digest(value), name
    return step, number


def digest(array: np.ndarray) -> tuple[object, ...]:
    return array.dtype, array.shape, hashlib.sha256(array.tobytes()).digest()


def main(directory: str, count: int) -> None:
    assert "jax" not in sys.modules
    restored = restore_latest(directory)
    step, number = check(restored) if restored else (0, 0)
    with Checkpointer(directory, max_to_keep=2) as checkpointer:
        while count != 1:
            count -= 1
            number += 1
            step = number // 2  # every step is saved twice: the second replaces the first
            checkpointer.save(step, contents(step, number), {"step": step, "number": number}, wait=True)
            sys.stdout.write(f"{step} {number}\n")  # in one piece, whoever is killed meanwhile
            sys.stdout.flush()
        checkpointer.save(step + 1, contents(step + 1, number), {"step": step + 1, "number": number})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
