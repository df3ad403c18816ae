"""Ray Train itself: workers in step, reports, a worker that is killed, a search, and rows of Ray Data."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.alone,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(1300),  # two programs
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray: make test-engines"),
]

CHILD = Path(__file__).with_name("ray_train_child.py")
SEARCH = Path(__file__).with_name("ray_tune_child.py")
# Of one program, which starts a Ray and workers that import JAX, again and again. On 2 cores the search took
# 72 s beside a load of 5, and 307 s where all others had a higher priority.
DEADLINE = 600.0
# Ray would make a token in the home folder, and let its workers wait for other programs.
CLUSTER = {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}


def run(folder, program=CHILD, **config):
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, program, json.dumps({"storage": str(folder), **config})],
        env={**os.environ, **CLUSTER, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(CHILD.parent)}, cwd=folder,
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return json.loads(line.removeprefix("RESULT ")), done.stdout + done.stderr


def test_a_killed_worker_starts_again_with_the_others_and_training_goes_on_exactly(tmp_path):
    undisturbed, _ = run(tmp_path / "undisturbed")
    assert undisturbed["epoch"] == 3
    assert undisturbed["loss"] > 0
    assert undisturbed["path"].startswith(str(tmp_path / "undisturbed" / "run"))
    killed, said = run(tmp_path / "killed", kill=2)
    assert (tmp_path / "killed" / "killed").exists()
    # The other one has got an error, and its process was not ended by muster.
    assert "PeerLostError" in said
    assert "This task ends" not in said
    assert {**killed, "path": ""} == {**undisturbed, "path": ""}


def test_rows_of_ray_data_are_divided_exactly(tmp_path):
    told, _ = run(tmp_path / "rows", rows=7)
    assert told == [[0, 2, 4, 6], [1, 3, 5]]


def test_a_search_stops_trials_early(tmp_path):
    told, _ = run(tmp_path / "search", SEARCH)
    assert told["epochs"]["0.1"] == 3
    assert told["epochs"]["1e-06"] < 3
    assert told["best"] == 0.1
