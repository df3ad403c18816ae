"""``muster run --ps``: Estimators that train on parameter servers, some of whose tasks are killed."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
from launched import process_of, wait_until

from muster.checkpoint import latest_checkpoint, read_checkpoint
from muster.cluster import Task, TFConfig
from muster.cluster.roster import query_status
from muster.net import Credentials

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).parents[1] / "estimator" / "parameter_server_child.py"
STEPS = 300
DEADLINE = 150.0


@pytest.fixture
def train(launch, tmp_path):
    def start(*options):
        child = {
            "model_dir": str(tmp_path / "model"),
            "max_steps": STEPS,
            "slow": 0.05,
            "snapshot_updates": 5,
        }
        return launch(
            json.dumps(child), options=["--chief", "--workers", "1", "--ps", "2", *options], program=CHILD
        )

    return start


def last_step(tmp_path):
    return read_checkpoint(latest_checkpoint(tmp_path / "model")).step


def steps_of(job, task):
    return [int(step) for step in re.findall(rf"^{task} +\| step (\d+)$", job.text, re.M)]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["chief", "worker"])
def test_a_task_that_is_killed_comes_back_while_the_others_train(train, tmp_path, task):
    job = train("--evaluator", "--restarts", "1")
    other = {"chief": "worker", "worker": "chief"}[task]
    job.read_until("chief 0     | step", "worker 0    | step")
    os.kill(process_of(job, f"{task}0"), signal.SIGKILL)
    job.read_until(f"Starting {task} 0 again, restart 1 of 1.")
    before = steps_of(job, f"{other} 0")[-1]
    assert job.end(DEADLINE) == 0, job.text
    assert len([step for step in steps_of(job, f"{other} 0") if step > before]) > 5
    starts = (job.log_dir / f"{task}-0.log").read_text().count(f" {task} 0 of job ")
    assert starts == 2
    assert last_step(tmp_path) == STEPS
    assert f"global_step = {STEPS}" in job.text


def status_of(process, task):
    """What a parameter server tells who asks."""
    environ = dict(
        entry.split("=", 1)
        for entry in Path(f"/proc/{process}/environ").read_text().split("\0")
        if "=" in entry
    )
    address = TFConfig.parse(environ["TF_CONFIG"]).cluster.task_address(task.type, task.index)
    return query_status(address, 10.0, Credentials.from_environ(environ), task=task)


@pytest.mark.slow
def test_a_server_that_is_killed_comes_back_at_its_address(train, tmp_path):
    job = train("--restarts", "1")
    job.read_until("chief 0  | step", "worker 0 | step")
    wait_until((tmp_path / "model" / "ps-1" / "values").exists)
    os.kill(process_of(job, "ps1"), signal.SIGKILL)
    job.read_until("Starting ps 1 again, restart 1 of 1.", "ps 1 was started again, and goes on from its")
    server = process_of(job, "ps1")
    wait_until(lambda: (status_of(server, Task("ps", 1)).progress.pushes or 0) > 5)
    progress = status_of(server, Task("ps", 1)).progress
    assert progress.pulls >= progress.pushes
    assert progress.queue == 0
    assert job.end(DEADLINE) == 0, job.text
    assert last_step(tmp_path) == STEPS
    assert job.text.count("Starting ") == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_servers_serve_until_the_chief_has_saved(train, tmp_path, number):
    job = train("--grace-secs", "30")
    job.read_until("chief 0  | step", "worker 0 | step")
    job.process.send_signal(number)
    assert job.end(DEADLINE) == 128 + number, job.text
    steps = steps_of(job, "chief 0") + steps_of(job, "worker 0")
    assert last_step(tmp_path) >= steps_of(job, "chief 0")[-1]
    assert last_step(tmp_path) <= max(steps) + 1 < STEPS
    assert "Killing" not in job.text, job.text
    assert "Traceback" not in job.text
    for server in ("ps 0", "ps 1"):
        assert f"{server} serves until the workers have gone" in job.text
