"""Several workers evaluate as one process does, whatever is left over at the end."""

import json
import re
from pathlib import Path

import pytest
from digits_evaluation import CASES, COUNT, evaluate

from jobs import Job

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("digits_evaluation.py")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return evaluate(None, tmp_path_factory.mktemp("alone"))


@pytest.mark.samples("2")
@pytest.mark.parametrize("workers", [2, 3])
def test_workers_evaluate_each_example_once(tmp_path, alone, workers):
    with Job(tmp_path, [CHILD], worker=workers) as job:
        for index in range(workers):
            job.start("worker", index, [str(tmp_path / "model")])
        job.all_end_well()
    (found,) = {re.search("^found (.*)$", task.log, re.M)[1] for task in job.tasks}  # the same everywhere
    for (batch_size, steps), metrics, expected in zip(CASES, json.loads(found), alone, strict=True):
        assert metrics["count"] == (COUNT if steps is None else steps * batch_size)
        assert metrics == pytest.approx(expected, rel=0, abs=1e-6)
        assert 0 < metrics["accuracy"] < 0.5
        assert 0 < metrics["recall"] < 1
