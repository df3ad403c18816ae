"""``muster status``, ``logs``, ``stacks`` and ``stop``, of a job that runs."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from launched import DEADLINE, clean_environment

pytestmark = pytest.mark.processes

TRAIN = ["worker0=train:5", "worker1=train:5"]


@pytest.fixture
def muster(tmp_path):
    """Run a command of muster, whose jobs are listed in a folder of the test's own."""

    def run(*arguments, code=0):
        command = [sys.executable, "-m", "muster", *arguments]
        environ = clean_environment() | {"TMPDIR": str(tmp_path)}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout or done.stderr

    return run


def wait_until_status(muster, job, holds):
    """Wait until what the only job's status says holds, and return it."""
    deadline = time.monotonic() + DEADLINE
    while True:
        (data,) = json.loads(muster("status", "--json")) or [{"tasks": []}]
        if holds(data["tasks"]):
            return data
        assert time.monotonic() < deadline, data
        assert job.process.poll() is None, job.end()


def test_a_job_is_looked_at_and_stopped(tmp_path, launch, muster):
    assert "no job runs here" in muster("status", code=1)
    job = launch(*TRAIN, options=["--workers", "2"], environ={"TMPDIR": str(tmp_path)})
    # Until both tasks have told the launcher how far they are.
    data = wait_until_status(
        muster, job, lambda tasks: [(each["progress"] or {}).get("step") for each in tasks] == [5, 5]
    )
    assert data["runs"]
    shown = muster("status")
    assert f"job {data['name']}: " in shown
    assert "worker 1     5     12.3" in shown
    assert muster("status", data["name"][:4]).splitlines()[1:] == shown.splitlines()[1:]
    assert muster("status", str(job.log_dir)).splitlines()[1:] == shown.splitlines()[1:]
    assert "no job has that name" in muster("status", "nobody's", code=1)
    assert muster("logs", "worker-1").startswith("=== ")
    assert "has no task ps. It has: worker-0, worker-1" in muster("logs", "ps", code=1)
    stacks = muster("stacks", "worker-1")
    assert f"=== worker 1, process {data['tasks'][1]['pid']}\nThread 'MainThread'" in stacks
    assert "signal.sigwait" in stacks
    assert "needs all of its workers" in muster("scale", data["name"], "1", code=1)
    assert "its tasks finish their steps" in muster("stop")
    assert job.end() == 128 + signal.SIGTERM
    assert "ended with exit code 143" in muster("status")
    assert "there is nothing to stop" in muster("stop", code=1)
    assert not job.left()


@pytest.mark.slow
def test_an_elastic_job_is_scaled_down_and_up(tmp_path, launch, muster):
    job = launch(*TRAIN, options=["--workers", "1:2"], environ={"TMPDIR": str(tmp_path)})
    data = wait_until_status(muster, job, lambda tasks: [each["answers"] for each in tasks] == [True, True])
    assert "has 1 to 2 workers, as its --workers says, and not 3" in muster(
        "scale", data["name"], "3", code=1
    )
    assert "is to have 1 of 2 workers" in muster("scale", data["name"], "1")
    wait_until_status(muster, job, lambda tasks: tasks[1]["state"] == "done")
    muster("scale", data["name"], "2")
    wait_until_status(muster, job, lambda tasks: tasks[1]["starts"] == 2)
    muster("stop")
    assert job.end() == 128 + signal.SIGTERM
    assert not job.left()


def test_output_is_followed_until_the_job_ends(tmp_path, launch, muster):
    job = launch(*TRAIN, options=["--workers", "2"], environ={"TMPDIR": str(tmp_path)})
    deadline = time.monotonic() + DEADLINE
    while not [*tmp_path.glob("muster-jobs-*/*")] or not (job.log_dir / "job.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    follows = subprocess.Popen(
        [sys.executable, "-m", "muster", "logs", "-f"],
        env=clean_environment() | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert "=== " in follows.stdout.readline()
    os.kill(job.process.pid, signal.SIGTERM)
    job.end()
    rest = follows.stdout.read()
    assert follows.wait(DEADLINE) == 0
    follows.stdout.close()
    assert "worker 1 | " in rest
