"""A job under ``muster run`` whose worker is killed again and again ends as one that was left alone."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from muster.checkpoint import latest_checkpoint, read_checkpoint

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("worker_child.py")


def run(folder, steps, kill_at, deadline):
    """Run two workers to the end; the losses of worker 0 by step, each as often as the step was taken."""
    folder.mkdir()
    options = {
        "model_dir": str(folder / "model"),
        "report": str(folder / "report{index}"),
        "optimizer": "adam",
        "steps": steps,
        "batch_size": 64,
        "kill_at": kill_at,
    }
    command = [sys.executable, "-m", "muster", "run", "--workers", "2", "--restarts", str(len(kill_at))]
    done = subprocess.run(
        [*command, CHILD, json.dumps(options)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=deadline,
    )
    assert done.returncode == 0, done.stdout
    lines = [json.loads(line) for line in (folder / "report0").read_text().splitlines()]
    return done.stdout, lines, read_checkpoint(latest_checkpoint(folder / "model")).variables


def kill_again_and_again(tmp_path, kills, seed):
    steps = 25 * (kills + 1)
    draw = random.Random(seed)
    kill_at = [draw.randint(25 * i + 1, 25 * i + 24) for i in range(kills)]
    _, expected, values = run(tmp_path / "alone", steps, [], 120)
    output, lines, after = run(tmp_path / "killed", steps, kill_at, 60 * (kills + 2))
    assert len(list((tmp_path / "killed").glob("report1.killed-at-*"))) == kills
    assert "worker 1" in output
    assert "SIGKILL" in output
    assert [step for step, _ in expected] == list(range(1, steps + 1))
    assert lines[-1][0] == steps
    assert {tuple(line) for line in lines} == {tuple(line) for line in expected}
    assert all(values[path].tobytes() == after[path].tobytes() for path in values)


@pytest.mark.slow
def test_a_job_that_is_killed_twice_ends_as_one_that_was_not(tmp_path):
    kill_again_and_again(tmp_path, kills=2, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_job_that_is_killed_twenty_times_ends_as_one_that_was_not(tmp_path):
    kill_again_and_again(tmp_path, kills=20, seed=2)
