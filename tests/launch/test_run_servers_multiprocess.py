"""``muster run --ps``: Estimators that train on parameter servers, some of whose tasks are killed."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
from launched import process_of

from muster.checkpoint import latest_checkpoint, read_checkpoint

pytestmark = pytest.mark.alone

CHILD = Path(__file__).parents[1] / "estimator" / "parameter_server_child.py"
STEPS = 300
DEADLINE = 150.0


@pytest.fixture
def train(launch, tmp_path):
    def start(*options):
        child = {"model_dir": str(tmp_path / "model"), "max_steps": STEPS, "slow": 0.05}
        return launch(
            json.dumps(child), options=["--chief", "--workers", "1", "--ps", "2", *options], program=CHILD
        )

    return start


def last_step(tmp_path):
    return read_checkpoint(latest_checkpoint(tmp_path / "model")).step


def steps_of(job, task):
    return [int(step) for step in re.findall(rf"^{task} +\| step (\d+)$", job.text, re.M)]


@pytest.mark.parametrize("task", ["chief", "worker"])
def test_a_task_that_is_killed_comes_back_while_the_others_train(train, tmp_path, task):
    job = train("--evaluator", "--restarts", "1")
    other = {"chief": "worker", "worker": "chief"}[task]
    job.read_until("chief 0     | step", "worker 0    | step")
    os.kill(process_of(job, f"{task}0"), signal.SIGKILL)
    job.read_until(f"Starting {task} 0 again, restart 1 of 1.")
    before = steps_of(job, f"{other} 0")[-1]
    while not steps_of(job, f"{task} 0") or steps_of(job, f"{task} 0")[-1] <= before:
        job.read_until(" step ")
    assert job.end(DEADLINE) == 0, job.text
    assert len([step for step in steps_of(job, f"{other} 0") if step > before]) > 5
    assert last_step(tmp_path) == STEPS
    assert f"global_step = {STEPS}" in job.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_servers_serve_until_the_chief_has_saved(train, tmp_path, number):
    job = train()
    job.read_until("chief 0  | step", "worker 0 | step")
    job.process.send_signal(number)
    assert job.end(DEADLINE) == 128 + number, job.text
    steps = steps_of(job, "chief 0") + steps_of(job, "worker 0")
    assert last_step(tmp_path) >= steps_of(job, "chief 0")[-1]
    assert last_step(tmp_path) <= max(steps) + 1 < STEPS
    assert "Killing" not in job.text
    for server in ("ps 0", "ps 1"):
        assert f"{server} serves until the workers have gone" in job.text
