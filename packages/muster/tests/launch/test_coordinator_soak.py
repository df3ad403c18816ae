"""Random kills of workers, servers and the coordinator of a training: it ends well, after its steps.

``MUSTER_SOAK_KILLS`` is the number of kills (20), ``MUSTER_SOAK_SEED`` that of the draw (1).
"""

import contextlib
import json
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.alone, pytest.mark.soak, pytest.mark.timeout(3600), pytest.mark.processes]

CHILD = Path(__file__).with_name("training_child.py")
TASKS = ("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1)
# How long a training without kills takes, at least, in seconds, and how many batches two workers read then.
SECS, PAUSE = 120.0, 0.04
STEPS = int(2 * SECS / PAUSE)


def process_of(job, task):
    """The process of a task; None while it is not there."""
    place = json.dumps({"type": task[0], "index": task[1]}).encode()
    for process in job.left():
        with contextlib.suppress(OSError):
            if place in Path(f"/proc/{process}/environ").read_bytes():
                return process
    return None


@pytest.mark.parametrize("by", ["loop", "fit"])
def test_random_kills(launch, tmp_path, by):
    kills = int(os.environ.get("MUSTER_SOAK_KILLS", "20"))
    draw = random.Random(int(os.environ.get("MUSTER_SOAK_SEED", "1")))
    child = {"by": by, "folder": str(tmp_path / "checkpoints"), "steps": STEPS, "pause": PAUSE}
    options = ["--ps", "2", "--workers", "2", "--restarts", str(kills)]
    job = launch(json.dumps(child), options=options, program=CHILD)
    job.read_until("chief 0  | step ")
    done = []
    while len(done) < kills:
        time.sleep(draw.uniform(0.0, 2 * SECS / kills))
        task = draw.choice(TASKS)
        assert job.process.poll() is None, f"it has ended after {done}"
        if (process := process_of(job, task)) is None:
            continue  # it is being started
        os.kill(process, signal.SIGKILL)
        done.append(f"{task[0]} {task[1]}")
        print(len(done), done[-1], flush=True)
        job.read_until(f"Starting {done[-1]} again, restart {len(done)} of {kills}.")
    assert job.end(1800.0) == 0, job.text[-6000:]
    (made,) = re.findall(r"^chief 0 +\| made (\d+) steps, to \[1\.0, 2\.0, 3\.0, 4\.0\]$", job.text, re.M)
    if by == "loop":  # it looks how many there are
        assert int(made) == STEPS
        return
    assert f"chief 0  | epochs {STEPS // 100}" in job.lines
    lost = sum(map(int, re.findall(r"^ps \d +\| ps \d lost (\d+) updates", job.text, re.M)))
    assert STEPS - lost <= int(made) <= STEPS
