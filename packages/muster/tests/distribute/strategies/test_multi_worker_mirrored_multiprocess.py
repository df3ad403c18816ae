"""MultiWorkerMirroredStrategy: real processes do together what one does, and end together."""

import functools
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from jobs import QUICKLY_BY_FLAGS, Process, free_addresses
from muster.checkpoint import latest_checkpoint, read_checkpoint
from muster.cluster import Task
from muster.cluster.roster._roster import EXIT_PEER_LOST
from muster.cluster.roster._roster_address import query_status
from muster.cluster.roster._roster_messages import TaskState

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("worker_child.py")
DEADLINE = 120.0
SOON = 15.0
STEPS = 50


class Job:
    """The workers of a job on loopback, each with a log and a report."""

    def __init__(self, folder, count, **options):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.options = {
            "model_dir": str(folder / "model"),
            "optimizer": "sgd",
            "steps": STEPS,
            "batch_size": 64,
            **options,
        }
        self.addresses = free_addresses(count)
        self.processes = {}

    def start(self, index, cluster=None, **options):
        environment = dict(os.environ, XLA_FLAGS=QUICKLY_BY_FLAGS)
        cluster = cluster or {"worker": self.addresses}
        if len(self.addresses) > 1:
            task = {"type": "worker", "index": index}
            environment["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
        options = {**self.options, "report": str(self.report(index)), **options}
        self.processes[index] = Process([CHILD, json.dumps(options)], environment, self.log(index))
        return self.processes[index]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in self.processes.values():
            process.kill()
            process.wait(DEADLINE)

    def log(self, index):
        return self.folder / f"log{index}"

    def report(self, index):
        return self.folder / f"report{index}"

    def losses(self, index=0):
        lines = self.report(index).read_text().splitlines() if self.report(index).exists() else []
        return [json.loads(line) for line in lines]

    def ended(self, index, within=DEADLINE):
        """The exit code of a worker, once it has ended; its log if it does not in time."""
        try:
            return self.processes[index].wait(within)
        except subprocess.TimeoutExpired:
            pytest.fail(f"worker {index} did not end:\n{self.log(index).read_text()[-3000:]}")

    def reaches(self, index, step):
        """Wait until a worker has taken a step."""
        deadline = time.monotonic() + DEADLINE
        while not (lines := self.losses(index)) or lines[-1][0] < step:
            assert self.processes[index].poll() is None, self.log(index).read_text()
            assert time.monotonic() < deadline, self.log(index).read_text()
            time.sleep(0.02)

    def metrics(self, index=0):
        line = next(m for m in self.log(index).read_text().splitlines() if m.startswith("metrics "))
        return json.loads(line.removeprefix("metrics "))


def run(folder, count, order=None, **options):
    with Job(folder, count, **options) as job:
        for index in order or range(count):
            job.start(index)
        for index in range(count):
            assert job.ended(index) == 0, job.log(index).read_text()
    return job


@pytest.fixture(scope="module")
def pair_of(tmp_path_factory):
    """What two workers did with an optimizer, the second of which was started first."""
    return functools.cache(
        lambda optimizer: run(tmp_path_factory.mktemp("pair") / optimizer, 2, [1, 0], optimizer=optimizer)
    )


@pytest.mark.samples("sgd")
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_two_workers_equal_one(tmp_path, pair_of, optimizer):
    alone = run(tmp_path / "alone", 1, optimizer=optimizer)
    pair = pair_of(optimizer)
    np.testing.assert_allclose(pair.losses(), alone.losses(), atol=1e-5)
    assert pair.losses(0) == pair.losses(1)
    values = [read_checkpoint(latest_checkpoint(job.options["model_dir"])).variables for job in (alone, pair)]
    assert values[0].keys() == values[1].keys()
    for path, value in values[0].items():
        np.testing.assert_allclose(values[1][path], value, rtol=1e-4, atol=1e-6, err_msg=path)
    assert pair.metrics()["count"] == 251
    for name in ("accuracy", "loss"):
        assert pair.metrics()[name] == pytest.approx(alone.metrics()[name], abs=1e-6)
    assert pair.metrics(0) == pair.metrics(1)


@pytest.mark.slow
def test_three_workers_whose_data_ends_unevenly(tmp_path):
    job = run(tmp_path, 3, batch_size=48, one_epoch=True, steps=1000)
    # 86, 85 and 85 examples: five shared batches of 48, and the 16 that are left, counted once.
    assert [step for step, _ in job.losses()] == list(range(1, 7))
    assert job.metrics()["count"] == 251


@pytest.mark.slow
def test_a_worker_tells_who_asks_how_it_is(tmp_path):
    with Job(tmp_path, 2, steps=10**6) as job:
        for index in (0, 1):
            job.start(index)
        job.reaches(0, 5)
        deadline = time.monotonic() + DEADLINE
        while (status := query_status(job.addresses[1], 5.0)).progress.steps_per_sec is None:
            assert time.monotonic() < deadline, status
    progress = status.progress
    assert (status.task, progress.state) == (Task("worker", 1), TaskState.TRAINING)
    assert progress.step > 0
    assert progress.steps_per_sec > 0
    assert progress.loss > 0
    assert 0 <= progress.input_wait <= 1


@pytest.mark.parametrize("victim", [0, 1])
def test_when_a_worker_is_killed_the_other_names_it_and_ends(tmp_path, victim):
    other = 1 - victim
    with Job(tmp_path, 2, steps=10**6) as job:
        for index in (0, 1):
            job.start(index)
        job.reaches(other, 5)
        job.processes[victim].kill()
        assert job.ended(other, SOON) == EXIT_PEER_LOST
    assert f"has lost worker {victim}" in job.log(other).read_text()


def test_when_a_worker_stands_still_the_other_names_it_and_ends(tmp_path):
    with Job(tmp_path, 2, steps=10**6, silence=4) as job:
        for index in (0, 1):
            job.start(index)
        job.reaches(0, 5)
        job.processes[1].send_signal(signal.SIGSTOP)
        assert job.ended(0, 4 + SOON) == EXIT_PEER_LOST
        job.processes[1].send_signal(signal.SIGCONT)
    assert "has lost worker 1" in job.log(0).read_text()


@pytest.mark.slow
def test_when_a_hook_raises_the_other_worker_ends_with_its_text(tmp_path):
    with Job(tmp_path, 2) as job:
        job.start(0)
        job.start(1, fail_at=7)
        assert job.ended(1, DEADLINE) == 1
        assert job.ended(0, SOON) == EXIT_PEER_LOST
    assert "LookupError: the hook of this worker gave up" in job.log(0).read_text()
    assert "LookupError: the hook of this worker gave up" in job.log(1).read_text()


def test_a_job_goes_on_where_it_was_killed(tmp_path, pair_of):
    left_alone = pair_of("sgd")
    with Job(tmp_path / "killed", 2) as job:
        for index in (0, 1):
            job.start(index)
        job.reaches(0, 23)
        for process in job.processes.values():
            process.kill()
    with Job(tmp_path / "killed", 2) as job:
        for index in (0, 1):
            job.start(index)
        for index in (0, 1):
            assert job.ended(index) == 0, job.log(index).read_text()
    expected = dict(left_alone.losses())
    assert all(expected[step] == loss for step, loss in job.losses())
    assert {step for step, _ in job.losses()} == set(expected)


@pytest.mark.slow
def test_workers_that_build_different_models(tmp_path):
    with Job(tmp_path, 2) as job:
        job.start(0)
        job.start(1, optimizer="adam")
        assert {job.ended(0), job.ended(1, SOON)} <= {1, EXIT_PEER_LOST}
    told = job.log(0).read_text() + job.log(1).read_text()
    assert "The variables of worker 0 and worker 1 differ" in told
