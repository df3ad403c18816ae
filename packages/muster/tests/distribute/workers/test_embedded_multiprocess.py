"""Workers that are guests in somebody else's process: nothing of it is theirs, and it goes on."""

import re
from pathlib import Path

import pytest

from jobs import Job

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("embedded_child.py")


@pytest.fixture
def job(tmp_path):
    with Job(tmp_path, [CHILD], worker=2) as made:
        made.model = {"model_dir": str(tmp_path / "model")}
        yield made


def test_guests_train_twice_in_a_process_and_change_nothing_of_it(job):
    for index in (0, 1):
        job.start("worker", index, {**job.model, "rounds": 2})
    job.all_end_well()
    for task in job.tasks:
        assert task.log.count("hooks True []\nleft the job\n") == 2, task.log
        assert task.log.endswith("the process goes on\n")


def test_a_guest_that_loses_another_worker_gets_an_error(job):
    job.start("worker", 0, {**job.model, "steps": 1000})
    job.start("worker", 1, {**job.model, "steps": 1000, "kill": 5})
    assert job.tasks[1].code() == -9
    assert job.tasks[0].code() == 0, job.tasks[0].log
    assert "raised PeerLostError worker 1 " in job.tasks[0].log
    assert job.tasks[0].log.endswith("the process goes on\n")


@pytest.mark.slow
def test_a_guest_does_not_wait_for_a_worker_that_is_silent(job):
    job.start("worker", 0, {**job.model, "steps": 1000, "step_timeout": 3})
    job.start("worker", 1, {**job.model, "steps": 1000, "step_timeout": 3, "stop": 5})
    assert job.tasks[0].code() == 0, job.tasks[0].log
    assert re.search(r"raised PeerLostError .*worker 1 .*3 s", job.tasks[0].log), job.tasks[0].log
    assert job.tasks[0].log.endswith("the process goes on\n")


def test_a_guest_that_is_told_that_it_will_be_ended_saves(job):
    job.start("worker", 0, {**job.model, "steps": 1000})
    job.start("worker", 1, {**job.model, "steps": 1000, "preempt": 5})
    job.all_end_well()
    for task in job.tasks:
        assert "raised Terminated 143" in task.log
    last = max(int(path.name.removeprefix("ckpt-")) for path in (job.folder / "model").glob("ckpt-*"))
    told = [int(line.split()[1]) for line in job.tasks[0].log.splitlines() if line.startswith("step ")]
    assert last == max(told) < 1000
