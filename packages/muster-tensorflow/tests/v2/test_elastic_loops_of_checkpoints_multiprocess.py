"""Workers that come to a loop with a Checkpoint join it: the losses are those of an undisturbed run."""

import signal
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, SOON, Job

pytestmark = pytest.mark.processes

STEPS = 120
SECS = 0.25  # of a step, so that there is time to come, until everybody has
CHILD = Path(__file__).with_name("elastic_loop_of_checkpoint_child.py")


def lines_of(folder, index):
    report = folder / f"worker-{index}"
    return report.read_text().splitlines() if report.exists() else []


def wait_for(job, index, lines):
    deadline = time.monotonic() + DEADLINE
    while len(lines_of(job.folder, index)) < lines:
        assert time.monotonic() < deadline, "\n".join(task.log[-3000:] for task in job.tasks)
        time.sleep(0.02)


@pytest.mark.parametrize("seed", ["1", pytest.param("none", marks=pytest.mark.slow)])
def test_workers_that_come_join_a_loop_and_take_over(seed, tmp_path):
    alone, folder = tmp_path / "alone", tmp_path / "job"
    with Job(alone, [CHILD, alone, STEPS, 0, seed], worker=1) as job:
        assert job.start("worker", 0).code() == 0, job.tasks[0].log[-3000:]
    with Job(folder, [CHILD, folder, STEPS, SECS, seed], worker=3) as job:
        first, second = (job.start("worker", index) for index in range(2))
        wait_for(job, 0, 5)
        third = job.start("worker", 2)
        wait_for(job, 2, 3)
        first.process.send_signal(signal.SIGKILL)  # the chief
        first.process.wait(SOON)
        before = len(lines_of(folder, 0))
        first = job.start("worker", 0)
        wait_for(job, 0, before + 3)
        second.process.send_signal(signal.SIGKILL)  # now only those are left who have joined
        (folder / "quick").touch()
        for task in (third, first):
            assert task.code() == 0, task.log[-3000:]
        old, joined = lines_of(folder, 1), lines_of(folder, 2)
        number = int(joined[0].split()[0])
        assert 5 <= number < len(old)
        whole = [*old[:number], *joined]
        assert old == whole[: len(old)]
        again = lines_of(folder, 0)[before:]
        assert again == whole[-len(again) :]
        assert len(whole) == STEPS
        if seed != "none":
            assert whole == lines_of(alone, 0)


def test_who_could_not_go_on_exactly_says_why_and_the_others_train_on(tmp_path):
    folder = tmp_path / "job"
    with Job(folder, [CHILD, folder, STEPS, SECS, 1], worker=2) as job:
        first = job.start("worker", 0)
        wait_for(job, 0, 5)
        late = job.start("worker", 1, environ={"WITHOUT_METRIC": "1"})
        assert late.code() == 1
        assert "a step uses 2 variables that are not in the Checkpoint" in late.log
        late = job.start("worker", 1, environ={"WITHOUT_SKIP": "1"})
        assert late.code() == 1
        assert "This worker has another batch than those whose loop it joins" in late.log
        (folder / "quick").touch()
        assert first.code() == 0, first.log[-3000:]
        assert len(lines_of(folder, 0)) == STEPS


@pytest.mark.slow
def test_a_worker_that_is_preempted_leaves_alone_and_comes_again(tmp_path):
    alone, folder = tmp_path / "alone", tmp_path / "job"
    with_handler = {"WITH_HANDLER": "1"}
    with Job(alone, [CHILD, alone, STEPS, 0, 1], worker=1) as job:
        assert job.start("worker", 0, environ=with_handler).code() == 0, job.tasks[0].log[-3000:]
    with Job(folder, [CHILD, folder, STEPS, SECS, 1], worker=2) as job:
        first, second = (job.start("worker", index, environ=with_handler) for index in range(2))
        wait_for(job, 0, 5)
        second.process.send_signal(signal.SIGTERM)
        assert second.code() == 143, second.log[-3000:]
        assert (folder / "saved").exists()  # at once, in case more is taken away
        before = len(lines_of(folder, 1))
        second = job.start("worker", 1, environ=with_handler)
        wait_for(job, 1, before + 3)
        first.process.send_signal(signal.SIGTERM)  # the chief
        assert first.code() == 143, first.log[-3000:]
        (folder / "quick").touch()
        assert second.code() == 0, second.log[-3000:]
        whole = lines_of(alone, 0)
        old = lines_of(folder, 0)
        assert old == whole[: len(old)]
        again = lines_of(folder, 1)[before:]
        assert again == whole[-len(again) :]


@pytest.mark.slow
def test_all_save_and_end_if_all_are_preempted(tmp_path):
    with_handler = {"WITH_HANDLER": "1"}
    with Job(tmp_path, [CHILD, tmp_path, STEPS, 0.05, 1], worker=2) as job:
        tasks = [job.start("worker", index, environ=with_handler) for index in range(2)]
        wait_for(job, 0, 5)
        for task in tasks:
            task.process.send_signal(signal.SIGTERM)
        for task in tasks:
            assert task.code() == 143, task.log[-3000:]
        done = {len(lines_of(tmp_path, index)) for index in range(2)}
        assert len(done) == 1
        tasks = [job.start("worker", index, environ=with_handler) for index in range(2)]
        for task in tasks:
            assert task.code() == 0, task.log[-3000:]
        numbers = [int(line.split()[0]) for line in lines_of(tmp_path, 0)]
        assert numbers == [*range(STEPS)]
