"""``muster.launch.run``: the command, called from Python."""

import subprocess
import sys

import pytest
from launched import CHILD, DEADLINE, clean_environment

import muster.launch
from muster._errors import ClusterError


@pytest.mark.processes
def test_a_job_is_run_with_the_options_of_the_command(tmp_path):
    script = (
        "import pathlib, sys, muster.launch\n"
        f"code = muster.launch.run(pathlib.Path({str(CHILD)!r}),\n"
        "    ['worker0=write:1', 'worker0=exit:3', '--ps'],\n"
        f"    workers=1, env={{'A': 'b=c'}}, log_dir={str(tmp_path)!r}, oversubscribe=True, restarts=None)\n"
        "print('code', code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.stdout.splitlines()[-1] == "code 3", done.stdout + done.stderr
    assert "worker 0 | write 0 end" in done.stdout
    assert (tmp_path / "worker-0.log").exists()
    assert "is for the program" not in done.stderr  # which words are whose is clear here


def test_what_makes_no_sense_is_an_error(tmp_path, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ClusterError, match="'-1' is neither a number from 0 nor a range"):
        muster.launch.run("train.py", workers=-1)
    with pytest.raises(ClusterError, match="there is no module nowhere"):
        muster.launch.run("-m nowhere", ["--steps", "3"])
    with pytest.raises(ClusterError, match="There is no engine 'moon'"):
        muster.launch.run("train.py", on="moon")
    with pytest.raises(TypeError, match="has no option 'wrokers'"):
        muster.launch.run("train.py", wrokers=2)
