"""Jobs whose workers come and go: whatever happens to them, the losses are those of an undisturbed run."""

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from jobs import DEADLINE, QUICKLY_BY_FLAGS, SOON, Job
from muster.__main__ import main
from muster.checkpoint import latest_checkpoint
from muster.cluster.roster import EXIT_PEER_LOST
from muster.summary import read_events

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
    options = ["deterministic", *request.param]
    return options, alone(tmp_path_factory.mktemp("undisturbed"), options)


def alone(folder, options, steps=STEPS, virtual=4):
    """Let one process compute all virtual replicas; return its steps and losses."""
    environ = {name: text for name, text in os.environ.items() if name != "TF_CONFIG"}
    subprocess.run(
        [sys.executable, CHILD, folder / "model", folder, str(steps), "0", *options],
        env=environ | {"XLA_FLAGS": QUICKLY_BY_FLAGS, "ELASTIC_VIRTUAL": str(virtual)},
        check=True,
        timeout=DEADLINE,
        capture_output=True,
    )
    return lines_of(folder / "alone-0")


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
@pytest.mark.parametrize("options", [["deterministic", "uneven"], ["uneven"]], ids=["in order", "rounding"])
def test_three_deaths_and_two_arrivals_in_200_steps_change_no_loss(options, tmp_path):
    steps = 200
    losses = {step: float.fromhex(loss) for step, loss in alone(tmp_path, options, steps)}
    with job_of(tmp_path / "job", options, 3, secs=0.5, steps=steps) as job:
        first, second, third = (job.start("worker", index) for index in range(3))
        wait_for(job, 0, 10)
        kill(second)
        second = again(job, 1)
        kill(first)
        first = again(job, 0)
        kill(third)  # which has become the chief
        taken = int(lines_of(job.folder / "worker-2")[-1][0])
        assert taken < steps - 20, "the workers have come too late"
        (job.folder / "go").touch()
        for task in (first, second):
            assert task.code() == 0, task.log[-3000:]
        assert "This worker saves from now on" in second.log
        found = [line for index in range(3) for line in lines_of(job.folder / f"worker-{index}")]
    assert {step for step, _ in found} == {*losses}
    gaps = [(abs(float.fromhex(loss) / losses[step] - 1), int(step)) for step, loss in found]
    if "deterministic" in options:
        assert max(gaps)[0] == 0, max(gaps)
    else:  # later what was rounded otherwise grows with the steps, as it does between any two orders of sums
        assert max(gap for gap in gaps if gap[1] <= 90)[0] <= 1e-6, gaps
    written = [each.step for each in read_events(job.folder / "model64") if each.tag == "loss"]
    assert len(written) == len(set(written)), "two chiefs have written a summary"
    by_last = [taken, *sorted(step for step in written if step > taken), steps]
    assert max(b - a for a, b in pairwise(by_last)) <= 21, written


def again(job, index):
    """Start a worker again, as a launcher would, and wait until it has taken steps."""
    taken = len(lines_of(job.folder / f"worker-{index}"))
    task = job.start("worker", index)
    wait_for(job, index, taken + 2)
    return task


@pytest.mark.slow
def test_a_worker_without_a_replica_stands_by_and_replaces_one_that_is_lost(tmp_path):
    options = ["deterministic"]
    lines = alone(tmp_path, options, 200, virtual=2)
    with job_of(tmp_path / "job", options, 3, secs=0.5, steps=200) as job:
        environ = {"ELASTIC_VIRTUAL": "2"}
        first, second = (job.start("worker", index, environ=environ) for index in range(2))
        wait_for(job, 1, 1)
        spare = job.start("worker", 2, environ=environ)
        wait_in_log(spare, "stands by: there are as many workers as virtual replicas")
        assert not lines_of(job.folder / "worker-2")
        kill(first)
        (job.folder / "go").touch()
        assert second.code() == spare.code() == 0, second.log[-3000:] + spare.log[-3000:]
        assert lines_of(job.folder / "worker-2")
        same_as(lines, job, 3)


def wait_in_log(task, text):
    """Wait until a task has said something."""
    deadline = time.monotonic() + DEADLINE
    while text not in task.log:
        assert task.process.poll() is None, task.log[-3000:]
        assert time.monotonic() < deadline, task.log[-3000:]
        time.sleep(0.02)


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
@pytest.mark.parametrize("who", ["process", "guest"])
def test_too_few_for_long_save_what_they_have_and_end(who, tmp_path, capsys):
    with job_of(tmp_path / "job", ["deterministic", "pairs", "impatient", who], 3, steps=10_000) as job:
        first, second, third = (job.start("worker", index) for index in range(3))
        wait_for(job, 2, 25)
        kill(first)
        kill(second)
        assert third.code() == (0 if who == "guest" else EXIT_PEER_LOST), third.log[-3000:]
        if who == "guest":
            assert "raised PeerLostError worker 2 cannot go on: It has waited 3 s" in third.log
            assert third.log.endswith("the process goes on\n")
        steps = len(lines_of(job.folder / "worker-2"))
        assert latest_checkpoint(job.folder / "model64").endswith(f"-{steps}"), third.log[-3000:]
    assert main(["replay", str(job.folder / "2-worker-2.membership.events")]) == 0
    shown = capsys.readouterr().out
    assert "  → LeaveStep('worker 0 is not there any more.')" in shown
    assert "  → GiveUp('It has waited" in shown
    assert shown.endswith("the same actions as then.\n")


@pytest.mark.slow
def test_one_that_is_started_again_when_all_others_have_ended_ends(tmp_path):
    with job_of(tmp_path / "job", ["deterministic", "late"], 2, steps=10) as job:
        late = job.start("worker", 1, environ={"MUSTER_STARTED_ALONE": "1"})
        assert late.code() == EXIT_PEER_LOST, late.log[-3000:]
        assert "worker 0 is not there, and nobody trains" in late.log
