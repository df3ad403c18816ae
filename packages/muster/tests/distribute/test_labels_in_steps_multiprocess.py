"""A program whose functions meet a label that is no class names it before it ends."""

from pathlib import Path

import pytest

from jobs import SOON, Job
from muster.cluster.roster._roster import EXIT_PEER_LOST

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("wrong_label_child.py")
NAMED = "DatasetError: Received a label value of 5 which is outside the valid range of [0, 5)."


def test_a_label_of_the_last_calls_is_named_at_the_end(tmp_path):
    with Job(tmp_path, [CHILD], worker=1) as job:
        task = job.start("worker", 0, {"step": 2, "steps": 3, "worker": 0})
        task.code()
    assert "trained\n" in task.log
    assert NAMED in task.last_line, task.log


@pytest.mark.samples("at the end-0", "on the way-0")
@pytest.mark.parametrize("worker", [0, 1])
@pytest.mark.parametrize("steps", [3, 60], ids=["at the end", "on the way"])
def test_workers_fail_for_a_label_of_one(tmp_path, worker, steps):
    with Job(tmp_path, [CHILD], worker=2) as job:
        for index in (0, 1):
            job.start("worker", index, {"step": 2, "steps": steps, "worker": worker})
        assert job.tasks[worker].code() == 1, job.tasks[worker].log
        other = job.tasks[1 - worker]
        assert other.code(SOON) == EXIT_PEER_LOST, other.log
    assert NAMED in job.tasks[worker].last_line, job.tasks[worker].log
    assert ("trained\n" in other.log) is (steps == 3)
    assert f"has lost worker {worker}: " in other.log
    assert NAMED in other.log
