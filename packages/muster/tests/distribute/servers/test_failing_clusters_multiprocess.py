"""A program that ends by an error, with a cluster of threads in its process."""

import os
from pathlib import Path

import pytest

from jobs import DEADLINE, Process

pytestmark = pytest.mark.processes

_CHILD = Path(__file__).parent / "failing_cluster_child.py"


def test_its_exit_code_is_that_of_an_error_while_datasets_compute(tmp_path):
    (folder := tmp_path / "computing").mkdir()
    log = tmp_path / "log"
    assert Process([_CHILD, folder], {**os.environ}, log).wait(DEADLINE) == 1, log.read_text()
    assert log.read_text().rstrip().endswith("ValueError: The program fails.")
