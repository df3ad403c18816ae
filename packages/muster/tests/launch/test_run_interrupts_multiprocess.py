"""Ctrl-C while programs train: in one process, and under ``muster run``."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launched import clean_environment

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("joining_child.py")
JOB_DEADLINE = 150.0


@pytest.mark.slow
@pytest.mark.parametrize("presses", [1, 2])
def test_an_estimator_saves_and_says_so(tmp_path, presses):
    told = interrupted("endless", tmp_path / "model", presses)
    step = re.search(r"^Saved step (\d+); run again to go on\.$", told, re.MULTILINE)
    assert (tmp_path / "model" / f"ckpt-{step[1]}").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("endless-fit", "Interrupted: a new fit starts anew, for this one had no BackupAndRestore callback."),
        ("endless-fit-with-backup", "Interrupted; run again to go on from the last backup in {}."),
    ],
)
def test_fit_says_what_is_left(tmp_path, what, told):
    assert interrupted(what, tmp_path / "model", 1).splitlines()[-1] == told.format(tmp_path / "model")


def interrupted(what, folder, presses):
    """Press Ctrl-C when a program in one process trains, and return what it has written."""
    process = subprocess.Popen(
        [sys.executable, "-u", CHILD, what, folder],
        env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    with process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line == "trains\n":
                for _ in range(presses):
                    os.kill(process.pid, signal.SIGINT)
        assert process.wait(JOB_DEADLINE) == -signal.SIGINT, lines
    told = "".join(lines)
    assert "Traceback" not in told
    return told


@pytest.mark.samples("2")
@pytest.mark.parametrize("presses", [1, 2])
def test_a_job_saves_and_says_so(launch, tmp_path, presses):
    options = ["--workers", "2", "--evaluator", "--grace-secs", "30"]
    job = launch("endless", tmp_path / "model", options=options, program=CHILD)
    job.read_until("worker 0    | trains", "worker 1    | trains")
    for _ in range(presses):
        job.process.send_signal(signal.SIGINT)
    assert job.end(JOB_DEADLINE) == 130
    (saved,) = re.findall(r"worker 0    \| Saved step (\d+); run again to go on\.", job.text)
    assert (tmp_path / "model" / f"ckpt-{saved}").exists()
    for unwanted in ("Traceback", "killed by", "Killing", "failed", "KeyboardInterrupt"):
        assert unwanted not in job.text
