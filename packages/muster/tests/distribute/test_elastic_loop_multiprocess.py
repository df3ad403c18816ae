"""Jobs with loops of their own whose workers are lost: the losses are those of an undisturbed run."""

import signal
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, SOON, Job

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("elastic_loop_child.py")
STEPS = 40


def wait_for(job, index, lines):
    report = job.folder / f"worker-{index}"
    deadline = time.monotonic() + DEADLINE
    while not report.exists() or len(report.read_text().splitlines()) < lines:
        assert time.monotonic() < deadline, "\n".join(task.log[-3000:] for task in job.tasks)
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ["dataset", pytest.param("function", marks=pytest.mark.slow)])
def test_a_loop_goes_on_without_a_worker_and_without_the_chief(kind, tmp_path):
    alone, folder = tmp_path / "alone", tmp_path / "job"
    with Job(alone, [CHILD, alone, STEPS, 0, kind], worker=1) as job:
        assert job.start("worker", 0).code() == 0, job.tasks[0].log[-3000:]
    with Job(folder, [CHILD, folder, STEPS, 0.05, kind], worker=3) as job:
        first, second, third = (job.start("worker", index) for index in range(3))
        wait_for(job, 0, 5)
        second.process.send_signal(signal.SIGKILL)
        wait_for(job, 0, 12)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(SOON)
        late = job.start("worker", 0)
        assert third.code() == 0, third.log[-3000:]
        assert late.code() == 0, late.log[-3000:]
        assert "nobody can join them in a loop" in late.log
        assert (folder / "worker-2").read_text() == (alone / "worker-0").read_text()
