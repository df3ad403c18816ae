"""``muster run`` whose output nobody can read: the job goes on, and what it says is dropped."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launched import CHILD, DEADLINE, clean_environment, wait_until

pytestmark = [pytest.mark.alone, pytest.mark.processes]


def run(*deeds, options=(), environ=None, **streams):
    command = [sys.executable, "-m", "muster", "run", *map(str, options), CHILD, *deeds]
    return subprocess.Popen(command, env={**clean_environment(), **(environ or {})}, **streams)


def test_a_full_disk_does_not_end_the_job(tmp_path):
    with open("/dev/full", "w") as full:
        job = run("worker0=write:3", options=["--log-dir", tmp_path / "logs"], stdout=full, stderr=full)
        assert job.wait(DEADLINE) == 0
    assert "write 2 end" in (tmp_path / "logs" / "worker-0.log").read_text()


@pytest.mark.parametrize("hangs_up", [True, False])
def test_tasks_save_when_the_terminal_is_gone(tmp_path, hangs_up):
    control, terminal = os.openpty()
    streams = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    options = ["--log-dir", tmp_path / "logs"]
    job = run("worker0=slowsave:1", options=options, environ={"TERM": "xterm"}, **streams)
    os.close(terminal)
    log = tmp_path / "logs" / "worker-0.log"
    shown = b""
    while b"ready" not in shown:
        shown += os.read(control, 1 << 16)
    os.close(control)
    job.send_signal(signal.SIGHUP if hangs_up else signal.SIGTERM)
    assert job.wait(DEADLINE) == 128 + (signal.SIGHUP if hangs_up else signal.SIGTERM)
    assert "saved" in log.read_text()


@pytest.mark.slow
def test_a_reader_of_the_table_that_leaves_does_not_end_the_job(tmp_path):
    environ = {"FORCE_COLOR": "1", "TERM": "xterm"}
    options = ["--log-dir", tmp_path / "logs"]
    job = run("worker0=slowsave:0", options=options, environ=environ, stdout=subprocess.PIPE)
    with job.stdout as output:
        while b"ready" not in output.readline():
            pass
    job.send_signal(signal.SIGTERM)
    assert job.wait(DEADLINE) == 143
    wait_until(lambda: "saved" in (tmp_path / "logs" / "worker-0.log").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_letters_that_the_output_lacks_do_not_end_the_job(encoding):
    job = run("worker0=bytes", environ={"PYTHONIOENCODING": encoding}, stdout=subprocess.PIPE)
    output, _ = job.communicate(timeout=DEADLINE)
    assert job.returncode == 0
    assert "é".encode(encoding, "replace") in output
    assert b"progress 100%" in output


@pytest.mark.slow
def test_a_folder_of_the_users_beside_the_logs_is_left_alone(tmp_path):
    mine = Path(tmp_path / "logs" / "snapshots" / "mine.txt")
    mine.parent.mkdir(parents=True)
    mine.write_text("text")
    options = ["--log-dir", tmp_path / "logs", "--ps", "1", "--restarts", "1"]
    assert run("chief0=show", options=options, stdout=subprocess.DEVNULL).wait(DEADLINE) == 0
    assert mine.read_text() == "text"
    assert sorted(each.name for each in mine.parents[1].iterdir() if each.is_dir()) == ["snapshots"]
