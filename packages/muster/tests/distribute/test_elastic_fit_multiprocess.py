"""Jobs of fit whose workers are lost: the losses are those of an undisturbed run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, QUICKLY_BY_FLAGS, SOON, Job

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("elastic_fit_child.py")
EPOCHS, STEPS = 16, 6


def wait_for(job, index, lines):
    report = job.folder / f"worker-{index}"
    deadline = time.monotonic() + DEADLINE
    while not report.exists() or len(report.read_text().splitlines()) < lines:
        assert time.monotonic() < deadline, "\n".join(task.log[-3000:] for task in job.tasks)
        time.sleep(0.02)


def losses_alone(folder, kind):
    """The report of one process with all replicas, to which nothing happens."""
    folder.mkdir()
    environ = {name: text for name, text in os.environ.items() if name != "TF_CONFIG"}
    command = [sys.executable, CHILD, folder, str(EPOCHS), "0", kind]
    subprocess.run(command, env=environ | {"XLA_FLAGS": QUICKLY_BY_FLAGS}, check=True, timeout=DEADLINE)
    return (folder / "alone-0").read_text().splitlines()


@pytest.mark.parametrize("kind", ["arrays", pytest.param("dataset", marks=pytest.mark.slow)])
def test_fit_goes_on_without_a_worker_and_without_the_chief(kind, tmp_path):
    lines = losses_alone(tmp_path / "alone", kind)
    folder = tmp_path / "job"
    with Job(folder, [CHILD, folder, EPOCHS, 0.2, kind], worker=3) as job:
        first, second, third = (job.start("worker", index) for index in range(3))
        wait_for(job, 0, 4)
        second.process.send_signal(signal.SIGKILL)
        wait_for(job, 0, STEPS + 4)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(SOON)
        before = len((folder / "worker-0").read_text().splitlines())
        late = job.start("worker", 0)
        wait_for(job, 0, before + 1)
        (folder / "go").touch()
        assert third.code() == 0, third.log[-3000:]
        assert late.code() == 0, late.log[-3000:]
        assert (folder / "worker-2").read_text().splitlines() == lines
        joined = (folder / "worker-0").read_text().splitlines()[before:]
        assert joined
        assert joined == lines[-len(joined) :]
        assert (folder / f"epoch-{EPOCHS}.weights.h5").exists()  # of the last chief


def test_a_worker_joins_a_second_call_of_fit(tmp_path):
    lines = losses_alone(tmp_path / "alone", "twice")
    folder = tmp_path / "job"
    with Job(folder, [CHILD, folder, EPOCHS, 0.2, "twice"], worker=2) as job:
        first, second = (job.start("worker", index) for index in range(2))
        wait_for(job, 0, 4)
        second.process.send_signal(signal.SIGKILL)
        second.process.wait(SOON)
        wait_for(job, 0, 2 * (STEPS + 1) + 3)  # in the second call
        before = len((folder / "worker-1").read_text().splitlines())
        late = job.start("worker", 1)
        assert first.code() == 0, first.log[-3000:]
        assert late.code() == 0, late.log[-3000:]
        assert "leaves out a call of fit" in late.log
        assert late.log.count("leaves out a call of evaluate") == 2
        assert late.log.count("leaves out a call of predict") == 1
        results = {(folder / f"worker-{index}.json").read_text() for index in range(2)}
        assert results == {(tmp_path / "alone" / "alone-0.json").read_text()}
        assert (folder / "worker-0").read_text().splitlines() == lines
        joined = (folder / "worker-1").read_text().splitlines()[before:]
        assert joined
        assert joined == lines[-len(joined) :]
