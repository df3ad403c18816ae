"""A worker that fails after training, when the other has come to its end, and waits for it."""

import re
import signal
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, SOON, Job
from muster.cluster.roster._roster import EXIT_PEER_LOST
from muster.cluster.roster._roster_address import query_status

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("late_child.py")


@pytest.mark.parametrize(
    ("index", "later", "told"),
    [
        (0, "raise", "failed: LookupError: the export failed"),
        (1, "raise", "failed: LookupError: the export failed"),
        (0, "kill", "has ended without a word"),
    ],
)
def test_a_worker_that_waits_for_the_others_names_the_one_that_fails(tmp_path, index, later, told):
    with Job(tmp_path, [CHILD], worker=2) as job:
        for each in (0, 1):
            options = {"model_dir": str(tmp_path / "model")} | ({"later": later} if each == index else {})
            job.start("worker", each, options)
        assert job.tasks[index].code() != 0
        other = job.tasks[1 - index]
        assert other.code(SOON) == EXIT_PEER_LOST, other.log
    # Near the end: threads of XLA may write another line at that moment.
    (line,) = re.findall(f"^.*This task ends, because it has lost worker {index}.*$", other.log, re.M)
    assert told in line


@pytest.mark.slow
def test_ctrl_c_ends_a_worker_that_waits_for_the_others(tmp_path):
    with Job(tmp_path, [CHILD], worker=2) as job:
        options = {"model_dir": str(tmp_path / "model")}
        waiting, other = job.start("worker", 0, options), job.start("worker", 1, {**options, "later": "stay"})
        deadline = time.monotonic() + DEADLINE
        while "step 3\n" not in waiting.log:
            assert time.monotonic() < deadline, waiting.log
            time.sleep(0.05)
        while "end" not in query_status(job.cluster["worker"][0], SOON).announcements:
            assert time.monotonic() < deadline, waiting.log
        waiting.process.send_signal(signal.SIGINT)
        assert waiting.code(SOON) == 130, waiting.log
        assert other.code(SOON) == EXIT_PEER_LOST, other.log
    assert "failed: KeyboardInterrupt" in other.log
