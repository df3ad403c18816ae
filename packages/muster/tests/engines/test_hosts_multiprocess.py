"""Jobs on four hosts with an address, processes and a disk of their own: one is cut off, and comes back."""

import json
import re
from pathlib import Path

import pytest

from muster.engines._agent_messages import SILENCE_SECS

pytestmark = [pytest.mark.alone, pytest.mark.processes, pytest.mark.slow]

TESTS = Path(__file__).parents[1]
IN_STEP = TESTS / "distribute" / "workers" / "bad_job_child.py"
ELASTIC = TESTS / "distribute" / "elastic_child.py"
# How long a job may take to end, in seconds: a host is silent for half a minute before it is given up.
ENDS = 200.0


def step(line):
    """Return the step that a line of a task names; 0 if it names none."""
    found = re.fullmatch(r"worker \d \| (?:step )?(\d+)", line)
    return int(found[1]) if found else 0


def read_until_step(job, number):
    """Read lines until one of them names a step after this one."""
    for line in iter(job.process.stdout.readline, b""):
        job.lines.append(line.decode().removesuffix("\n"))
        if step(job.lines[-1]) > number:
            return
    pytest.fail(f"no step after {number}\n{job.text}")


def last_step(job):
    return max(map(step, job.lines))


def test_a_job_goes_on_without_a_host_that_is_cut_off(launch, farm):
    """No folder is shared: the checkpoints are on the chief's disk."""
    options = {"model_dir": str(farm.disk / "model"), "steps": 2000, "slow_hook": 0.05, "step_timeout": 6}
    job = launch(
        json.dumps(options), options=[*farm.options, "--workers", "4", "--restarts", "1"],
        program=IN_STEP, before=farm.launcher.enter,
    )  # fmt: skip
    read_until_step(job, 30)
    farm.net.cut(farm.hosts[3])
    job.read_until("Starting the job again, restart 1 of 1")
    before = last_step(job)
    job.read_until(f"worker 3 runs on {farm.hosts[2].address} now, and not on {farm.hosts[3].address}")
    count = len(job.lines)
    read_until_step(job, 30)
    assert min(filter(None, map(step, job.lines[count:]))) in range(2, before + 2)
    job.process.terminate()
    assert job.end(ENDS) == 143, job.text
    assert "worker 3 is lost with its host" in job.text
    farm.net.mend(farm.hosts[3])  # what was left there has ended meanwhile


def test_an_elastic_job_goes_on_without_it_and_takes_it_back(launch, farm, tmp_path):
    deeds = [farm.disk / "model", tmp_path, "3000", "0.1", "deterministic", "noticing"]
    job = launch(
        *map(str, deeds), options=[*farm.options, "--workers", "1:4", "--restarts", "2"],
        program=ELASTIC, before=farm.launcher.enter,
    )  # fmt: skip
    read_until_step(job, 10)
    farm.net.cut(farm.hosts[3])
    job.read_until("goes on with worker 0, worker 1, worker 2,")
    before = last_step(job)
    job.read_until("worker 3 is started again when its host is back, restart 1 of 2.")
    assert last_step(job) > before + SILENCE_SECS / 2
    farm.net.mend(farm.hosts[3])
    job.read_until("goes on with worker 0, worker 1, worker 2, worker 3,")
    job.read_until("worker 3 | ")
    (tmp_path / "go").touch()
    assert job.end(ENDS) == 0, job.text
