"""Data sets that are too large for this repository: a test that needs one is skipped without it.

MUSTER_TEST_DATA names the folder that holds them: ``mnist``, with MNIST's four ``.gz`` files, of which those
of the training set may be its first 20,000 examples, as ``train20k-*``; ``adult/adult.data``, the census
data of UCI; and ``tensorflow_checkpoints``, of which ``oracles`` here has some.
"""

import os
import shutil
from pathlib import Path

import pytest

_FOLDER = os.environ.get("MUSTER_TEST_DATA")


def large_data(name: str) -> Path:
    """Return the path of a file or folder in MUSTER_TEST_DATA; skip the test if it is not there."""
    path = Path(_FOLDER or "$MUSTER_TEST_DATA", name)
    if not path.exists():
        pytest.skip(f"{path} is not there: set MUSTER_TEST_DATA as tests/large_data.py says")
    return path


def copy_mnist(folder: Path) -> None:
    """Copy MNIST's files to ``folder``/mnist, where programs look for them."""
    target = folder / "mnist"
    target.mkdir(parents=True)
    for path in large_data("mnist").glob("*.gz"):
        shutil.copy(path, target / path.name.replace("train20k-", "train-"))
