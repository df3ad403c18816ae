"""Jobs whose workers come and go: whatever happens to them, the losses are those of an undisturbed run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, QUICKLY_BY_FLAGS, SOON, Job
from muster.checkpoint import latest_checkpoint
from muster.cluster.roster import EXIT_PEER_LOST

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("elastic_child.py")
STEPS = 90


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((), id="even"),
        pytest.param(("uneven",), id="uneven", marks=pytest.mark.slow),
        pytest.param(("accumulating",), id="accumulating", marks=pytest.mark.slow),
    ],
)
def undisturbed(request, tmp_path_factory):
    """The options, and the lines of a process that computes all virtual replicas."""
    folder = tmp_path_factory.mktemp("undisturbed")
    environ = {name: text for name, text in os.environ.items() if name != "TF_CONFIG"}
    options = ["deterministic", *request.param]
    command = [sys.executable, CHILD, folder / "model", folder, str(STEPS), "0", *options]
    subprocess.run(
        command,
        env=environ | {"XLA_FLAGS": QUICKLY_BY_FLAGS},
        check=True,
        timeout=DEADLINE,
        capture_output=True,
    )
    return options, lines_of(folder / "alone-0")


def job_of(folder, options, workers, secs=0.05, steps=STEPS):
    return Job(folder, [CHILD, folder / "model", folder, steps, secs, *options], worker=workers)


def lines_of(report):
    """The steps and losses of a report."""
    return [line.split()[:2] for line in report.read_text().splitlines()] if report.exists() else []


def wait_for(job, index, steps):
    """Wait until a worker has taken so many steps."""
    deadline = time.monotonic() + DEADLINE
    while len(lines_of(job.folder / f"worker-{index}")) < steps:
        (*_, last) = (task for task in job.tasks if task.name == f"worker {index}")
        assert last.process.poll() is None, last.log[-5000:]
        assert time.monotonic() < deadline, "\n".join(task.log[-3000:] for task in job.tasks)
        time.sleep(0.02)


def kill(task):
    """Kill a worker; when it is gone, its address is free."""
    task.process.send_signal(signal.SIGKILL)
    task.process.wait(SOON)


def same_as(undisturbed, job, workers):
    """Whether all steps of all workers together are those of an undisturbed run, and each is there."""
    found = {tuple(line) for index in range(workers) for line in lines_of(job.folder / f"worker-{index}")}
    assert found == {tuple(line) for line in undisturbed}


def test_a_worker_and_the_chief_are_killed_and_come_back(undisturbed, tmp_path):
    options, lines = undisturbed
    with job_of(tmp_path / "job", options, 3) as job:
        first, second, third = (job.start("worker", index) for index in range(3))
        wait_for(job, 0, 15)
        kill(second)
        wait_for(job, 0, 25)
        kill(first)
        again = job.start("worker", 0)  # as a launcher would
        wait_for(job, 2, 40)
        assert third.code() == again.code() == 0, third.log[-3000:] + again.log[-3000:]
        same_as(lines, job, 3)
        assert "goes on with worker 0, worker 2" in third.log
        assert "This worker saves from now on" in third.log


@pytest.mark.slow
def test_without_an_order_of_sums_losses_differ_by_rounding_alone(undisturbed, tmp_path):
    options, lines = undisturbed
    losses = {step: float.fromhex(loss) for step, loss in lines}
    with job_of(tmp_path / "job", options[1:], 3) as job:
        first, second, third = (job.start("worker", index) for index in range(3))
        wait_for(job, 0, 15)
        kill(second)
        again = job.start("worker", 1)
        assert first.code() == third.code() == again.code() == 0, third.log[-3000:] + again.log[-3000:]
        found = [line for index in range(3) for line in lines_of(job.folder / f"worker-{index}")]
        assert {step for step, _ in found} == {*losses}
        gaps = [abs(float.fromhex(loss) / losses[step] - 1) for step, loss in found]
        assert max(gaps) <= 1e-6, max(gaps)


@pytest.mark.slow
def test_without_workers_left_a_new_start_goes_on_from_the_checkpoint_of_the_last_chief(
    undisturbed, tmp_path
):
    options, lines = undisturbed
    with job_of(tmp_path / "job", options, 2) as job:
        first, second = (job.start("worker", index) for index in range(2))
        wait_for(job, 0, 10)
        kill(first)
        wait_for(job, 1, 45)
        kill(second)
        before = lines_of(job.folder / "worker-1")
        more = [job.start("worker", index) for index in range(2)]
        for task in more:
            assert task.code() == 0, task.log[-3000:]
        same_as(lines, job, 2)
        steps = [int(step) for step, _ in lines_of(job.folder / "worker-1")[len(before) :]]
        assert steps == [*range(steps[0], STEPS + 1)]
        assert 20 < steps[0] <= 45  # the second one has saved since it was the chief


def test_one_that_is_told_to_end_leaves_the_others_and_code_143(undisturbed, tmp_path):
    options, lines = undisturbed
    with job_of(tmp_path / "job", options, 2) as job:
        first, second = (job.start("worker", index) for index in range(2))
        wait_for(job, 0, 10)
        first.process.send_signal(signal.SIGTERM)
        assert first.code() == 143
        assert second.code() == 0, second.log[-3000:]
        same_as(lines, job, 2)


@pytest.mark.slow
def test_one_that_stood_still_is_left_out_and_ends_when_it_goes_on(tmp_path):
    with Job(
        tmp_path / "job",
        [CHILD, tmp_path / "model", tmp_path / "job", 10_000, 0.05, "deterministic", "impatient"],
        worker=3,
    ) as job:
        tasks = [job.start("worker", index) for index in range(3)]
        wait_for(job, 0, 10)
        tasks[2].process.send_signal(signal.SIGSTOP)
        stood = len(lines_of(job.folder / "worker-2"))
        wait_for(job, 0, stood + 10)
        tasks[2].process.send_signal(signal.SIGCONT)
        assert tasks[2].code() == EXIT_PEER_LOST, tasks[2].log[-3000:]
        wait_for(job, 1, len(lines_of(job.folder / "worker-1")) + 5)


@pytest.mark.slow
def test_a_chief_that_stood_still_goes_on_with_the_one_that_has_lost_it(tmp_path):
    with job_of(tmp_path / "job", ["deterministic", "impatient"], 2, steps=10_000) as job:
        first, second = (job.start("worker", index) for index in range(2))
        for times in range(1, 4):
            wait_for(job, 1, len(lines_of(job.folder / "worker-1")) + 5)
            first.process.send_signal(signal.SIGSTOP)
            deadline = time.monotonic() + DEADLINE
            while second.log.count("stands still") < times:
                assert time.monotonic() < deadline, second.log[-3000:]
                time.sleep(0.02)
            first.process.send_signal(signal.SIGCONT)
            wait_for(job, 1, len(lines_of(job.folder / "worker-1")) + 5)
        assert first.process.poll() is None
        assert "goes on with worker 0, at step" not in first.log  # without the other


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "value", "what"), [("ELASTIC_UNITS", "7", "model"), ("ELASTIC_DROPOUT", "0.25", "step")]
)
def test_another_program_cannot_join(variable, value, what, tmp_path):
    with job_of(tmp_path / "job", ["deterministic"], 2, steps=10_000) as job:
        first, second = (job.start("worker", index) for index in range(2))
        wait_for(job, 0, 10)
        kill(second)
        other = job.start("worker", 1, environ={variable: value})
        assert other.code() == 1
        assert f"The {what} of this worker is another than that of those that it joins" in other.log
        wait_for(job, 0, len(lines_of(job.folder / "worker-0")) + 10)
        assert first.process.poll() is None


@pytest.mark.slow
def test_too_few_for_long_save_what_they_have_and_end(tmp_path):
    with job_of(tmp_path / "job", ["deterministic", "pairs", "impatient"], 3, steps=10_000) as job:
        first, second, third = (job.start("worker", index) for index in range(3))
        wait_for(job, 2, 25)
        kill(first)
        kill(second)
        assert third.code() == EXIT_PEER_LOST, third.log[-3000:]
        steps = len(lines_of(job.folder / "worker-2"))
        assert latest_checkpoint(job.folder / "model64").endswith(f"-{steps}"), third.log[-3000:]


@pytest.mark.slow
def test_one_that_is_started_again_when_all_others_have_ended_ends(tmp_path):
    with job_of(tmp_path / "job", ["deterministic", "late"], 2, steps=10) as job:
        late = job.start("worker", 1, environ={"MUSTER_STARTED_ALONE": "1"})
        assert late.code() == EXIT_PEER_LOST, late.log[-3000:]
        assert "worker 0 is not there, and nobody trains" in late.log
