"""Jobs that are started from a notebook."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launched import DEADLINE, MARK, clean_environment, left_of, wait_until

from muster import ClusterError
from muster.launch import notebook_launcher


@pytest.mark.processes
def test_each_task_runs_the_function_and_the_first_ones_result_comes_back(capfd):
    factor = 3  # as a variable of the notebook

    def count(number):
        import json
        import os

        cluster = json.loads(os.environ["TF_CONFIG"])
        print("I am", cluster["task"]["index"])
        return len(cluster["cluster"]["worker"]) * number * factor, cluster["task"]

    assert notebook_launcher(count, (5,), workers=2) == (30, {"type": "worker", "index": 0})
    out = capfd.readouterr().out
    assert "worker 0 | I am 0\n" in out
    assert "worker 1 | I am 1\n" in out


@pytest.mark.processes
def test_the_chief_comes_first():
    def task():
        import json
        import os

        return json.loads(os.environ["TF_CONFIG"])["task"]["type"]

    assert notebook_launcher(task, workers=1, chief=True) == "chief"


@pytest.mark.processes
def test_modules_beside_the_notebook_are_found(tmp_path, monkeypatch):
    (tmp_path / "beside_the_notebook.py").write_text("ANSWER = 42\n")
    monkeypatch.chdir(tmp_path)

    def answer():
        import beside_the_notebook

        return beside_the_notebook.ANSWER

    assert notebook_launcher(answer, workers=1) == 42


@pytest.mark.processes
def test_a_job_that_fails_is_an_error_here_and_its_output_says_why(capfd):
    with pytest.raises(RuntimeError, match="exit code 1"):
        notebook_launcher(lambda: 1 / 0, workers=1)
    assert "ZeroDivisionError" in capfd.readouterr().out


def test_nothing_is_started_without_tasks():
    with pytest.raises(ClusterError, match="at least one task"):
        notebook_launcher(print, workers=0)


@contextlib.contextmanager
def started(folder):
    """A program that has started a job which waits for ever."""
    child = Path(__file__).with_name("notebook_child.py")
    process = subprocess.Popen(
        [sys.executable, child, folder],
        env=clean_environment() | {MARK: str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until((folder / "running").exists)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.processes
def test_interrupting_the_cell_ends_the_job(tmp_path):
    with started(tmp_path) as process:
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=DEADLINE)
    assert out.endswith("interrupted\n")


@pytest.mark.processes
def test_the_job_ends_with_the_process_of_the_notebook(tmp_path):
    with started(tmp_path) as process:
        assert len(left_of(f"{MARK}={tmp_path}")) > 2
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: not left_of(f"{MARK}={tmp_path}"))
