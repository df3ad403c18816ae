"""``muster run --ps``: programs with a ClusterCoordinator, some of whose tasks are killed or stopped."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
from launched import process_of

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("coordinated_child.py")
DEADLINE = 150.0
WITHOUT_END = 1_000_000


@pytest.fixture
def count(launch, tmp_path):
    """Start ``muster run`` with a server, the workers of a coordinator that counts, and more options."""

    def start(*options, workers=2, steps=WITHOUT_END, **more):
        child = {"folder": str(tmp_path), "steps": steps, "pause": 0.02, **more}
        return launch(
            json.dumps(child), options=["--ps", "1", "--workers", str(workers), *options], program=CHILD
        )

    return start


def rounds(job):
    """What the coordinator has counted: before, how many, after, and the batches from and to."""
    return [
        tuple(map(int, found))
        for found in re.findall(
            r"^chief 0 +\| counted (\d+) \+ (\d+) = (\d+), batches (\d+) to (\d+)$", job.text, re.M
        )
    ]


def until_round(job, condition):
    """Read until a further round fulfils a condition."""
    while True:
        job.read_until("chief 0  | counted ")
        if condition(rounds(job)[-1]):
            return


def ended_well(job, tmp_path):
    """Let the job end, and check that it does well, and that all was counted once."""
    (tmp_path / "enough").touch()
    assert job.end(DEADLINE) == 0, job.text
    (total,) = re.findall(r"ends at (\d+) \[\1\.0\]$", job.text, re.M)
    assert int(total) == rounds(job)[-1][2]
    assert all(before + number == after for before, number, after, *_ in rounds(job))


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 3])
def test_all_end_with_the_coordinator_whose_exit_code_is_that_of_the_job(count, code):
    job = count(workers=1, steps=20, ends=code)
    assert job.end(DEADLINE) == code, job.text
    assert "ends at 20 [20.0]" in job.text
    told = re.findall(r"^(\w+) 0 +\| was told to end$", job.text, re.M)
    if code:
        assert told == []
        assert re.search(r"^muster +\| chief 0 failed: exit code 3\.", job.text, re.M)
    else:
        assert {"worker"} <= {*told} <= {"worker", "ps"}  # a server on a busy machine may be slower


@pytest.mark.slow
def test_a_worker_that_is_killed_is_used_again_with_a_new_dataset(count, tmp_path):
    job = count("--restarts", "1")
    job.read_until("worker 0 at", "worker 1 at")
    until_round(job, lambda found: found[3] > 5)
    os.kill(process_of(job, "worker0"), signal.SIGKILL)
    job.read_until("Starting worker 0 again, restart 1 of 1.")
    until_round(job, lambda found: found[3] == 1)
    ended_well(job, tmp_path)
    assert (job.log_dir / "worker-0.log").read_text().count(" worker 0 of job ") == 2


@pytest.mark.slow
def test_a_worker_that_stands_still_is_given_up_and_taken_back(count, tmp_path):
    job = count(patience={"_QUIET_SECS": 0.5, "_ASK_SECS": 3.0})
    until_round(job, lambda found: found[3] > 5)
    worker = process_of(job, "worker0")
    (name,) = set(
        re.findall(r"(worker 0 at \S+) is connected\.", job.text)
    )  # a slow worker 1 may be lost, too
    os.kill(worker, signal.SIGSTOP)
    job.read_until(f"{name} is lost: it stands still or is cut off")
    until_round(job, lambda found: True)
    os.kill(worker, signal.SIGCONT)
    job.read_until("worker 0 has lost its coordinator, and waits for it.", f"{name} is connected.")
    until_round(job, lambda found: found[3] == 1)
    ended_well(job, tmp_path)


@pytest.mark.slow
def test_closures_wait_for_a_server_that_is_killed_and_go_on_from_its_snapshot(count, tmp_path):
    job = count("--restarts", "1", workers=1)
    until_round(job, lambda found: True)
    os.kill(process_of(job, "ps0"), signal.SIGKILL)
    job.read_until("Starting ps 0 again, restart 1 of 1.", "ps 0 was started again, and goes on from its")
    until_round(job, lambda found: True)
    (tmp_path / "enough").touch()
    assert job.end(DEADLINE) == 0, job.text
    assert re.search(r"ends at (\d+) \[\1\.0\]$", job.text, re.M), job.text
    assert sum(before + number != after for before, number, after, *_ in rounds(job)) <= 1  # what was lost
    assert len(re.findall(r"^chief 0 +\| begins at", job.text, re.M)) == 1
    assert not list(job.log_dir.glob("snapshots*"))


def test_a_coordinator_that_is_killed_goes_on_from_its_checkpoint(count, tmp_path):
    job = count("--restarts", "1", workers=1)
    until_round(job, lambda found: found[0] > 0)
    os.kill(process_of(job, "chief0"), signal.SIGKILL)
    job.read_until("Starting chief 0 again, restart 1 of 1.", "chief 0  | begins at")
    first, second = re.findall(r"^chief 0 +\| begins at (\d+)$", job.text, re.M)
    *_, (_, number, after, *_) = rounds(job)
    assert first == "0"
    assert int(second) in (after, after + number)  # it may have been killed after it had saved
    until_round(job, lambda found: True)
    ended_well(job, tmp_path)
    assert job.text.count(" waits for it.") >= 1


@pytest.mark.slow
def test_a_job_of_which_everything_was_killed_goes_on_from_its_checkpoint(count, tmp_path):
    first = count("--restarts", "1", workers=1)
    until_round(first, lambda found: found[0] > 0)
    for process in first.left():
        os.kill(process, signal.SIGKILL)
    assert first.end() == -signal.SIGKILL
    again = count("--restarts", "1", workers=1)
    again.read_until("chief 0  | begins at")
    *_, (_, number, after, *_) = rounds(first)
    (begins,) = re.findall(r"begins at (\d+)$", again.text, re.M)
    assert int(begins) in (after, after + number)
    until_round(again, lambda found: True)
    ended_well(again, tmp_path)


@pytest.mark.slow
def test_workers_and_servers_serve_until_the_coordinator_has_saved(count):
    job = count("--grace-secs", "30", workers=1)
    until_round(job, lambda found: True)
    job.process.send_signal(signal.SIGINT)
    assert job.end(DEADLINE) == 128 + signal.SIGINT, job.text
    assert re.search(r"^chief 0 +\| saved at \d+$", job.text, re.M), job.text
    assert "worker 0 serves until the coordinator has gone" in job.text
    assert "ps 0 serves until the workers have gone" in job.text
    assert "Killing" not in job.text


@pytest.mark.slow
def test_a_job_whose_workers_are_all_lost_ends_with_an_error(count):
    job = count(workers=1)
    until_round(job, lambda found: True)
    os.kill(process_of(job, "worker0"), signal.SIGKILL)
    assert job.end(DEADLINE) == 128 + signal.SIGKILL, job.text
    assert "The coordinator has no worker left." in job.text


@pytest.mark.slow
def test_a_job_whose_workers_do_not_even_start_ends_with_their_exit_code(count):
    job = count(workers=2, fails=True)
    assert job.end(DEADLINE) == 5, job.text
    assert "The coordinator has no worker left." in job.text
