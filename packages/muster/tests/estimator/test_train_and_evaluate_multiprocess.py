"""A chief that trains, and an evaluator in a process of its own that follows its checkpoints."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import DEADLINE, free_addresses
from muster.summary import read_events

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("task_child.py")


def start(role, cluster, model_dir, max_steps):
    task = {"cluster": cluster, "task": {"type": role, "index": 0}}
    return subprocess.Popen(
        [sys.executable, CHILD, model_dir, str(max_steps)],
        env={**os.environ, "TF_CONFIG": json.dumps(task)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_an_evaluator_started_first_evaluates_the_last_step_and_ends(tmp_path):
    cluster = {"chief": free_addresses(1)}
    with (
        start("evaluator", cluster, tmp_path, 500) as evaluator,
        start("chief", cluster, tmp_path, 500) as chief,
    ):
        trained = chief.communicate(timeout=DEADLINE)[0]
        evaluated = evaluator.communicate(timeout=DEADLINE)[0]
    assert (chief.returncode, evaluator.returncode) == (0, 0), trained + evaluated
    assert "Loss for final step" in trained
    assert "Saving dict for global step 500" in evaluated
    assert "Exiting evaluation, global_step=500 >= train max_steps=500" in evaluated
    steps = [e.step for e in read_events(tmp_path / "eval") if e.tag == "loss"]
    assert steps == sorted(set(steps))
    assert steps[-1] == 500


@pytest.mark.slow
def test_an_evaluator_that_waits_ends_at_ctrl_c(tmp_path):
    with start("evaluator", {"chief": free_addresses(1)}, tmp_path, 500) as evaluator:
        for line in evaluator.stdout:
            if "Estimator is not trained yet" in line:
                break
        evaluator.send_signal(signal.SIGINT)
        rest = evaluator.communicate(timeout=DEADLINE)[0]
    assert evaluator.returncode == 130, rest
    assert "Traceback" not in rest
