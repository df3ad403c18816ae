"""The logs of a job whose ``--log-dir`` is on an object store, and profiles on one."""

import tempfile
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from muster.__main__ import main
from muster.launch._job_record import read_record
from remote_stores import Faulty, elsewhere, faulty_store, names

pytestmark = pytest.mark.processes
faulty = faulty_store

CHILD = str(Path(__file__).with_name("launch_child.py"))
URL = "faulty://b/logs"
RUN = ["run", "--workers", "2", "--log-dir", URL, CHILD, "worker0=exit:0"]


@contextmanager
def on_another_machine(tmp_path):
    """Do what follows as a process does that knows none of the jobs of this machine."""
    with elsewhere(), mock.patch.object(tempfile, "tempdir", str(tmp_path)):
        yield


def test_they_are_read_elsewhere(faulty, tmp_path, capfd):
    assert main(RUN) == 0
    said = capfd.readouterr()
    assert f"Logs: {URL}" in said.err
    assert names(faulty) == [
        f"logs/{name}" for name in ("history.json", "job.json", "worker-0.log", "worker-1.log")
    ]
    with on_another_machine(tmp_path):
        assert main(["logs", "worker-0", "--job", URL]) == 0
        title, line = capfd.readouterr().out.splitlines()
        assert title.startswith("=== ")
        assert line == "about to end"
        assert main(["logs", "-f", "--job", URL]) == 0
        assert "worker 0 | about to end" in capfd.readouterr().out
        assert main(["status", URL]) == 0
        shown = capfd.readouterr().out
        assert "2 tasks, ended with exit code 0" in shown
        assert f"Logs: {URL}" in shown
        assert main(["status", "faulty://b/nothing"]) == 1
        assert "no job has that name or folder of logs" in capfd.readouterr().err


def test_they_are_added_to_what_is_there(faulty, tmp_path, capfd):
    faulty.pipe_file("/b/logs/worker-0.log", b"earlier\n" * (1 << 17))  # more than is copied unasked
    assert main(RUN) == 0
    lines = faulty.cat_file("/b/logs/worker-0.log").decode().splitlines()
    assert (lines[0], lines[-1]) == ("earlier", "about to end")
    assert main(RUN[:-1] + ["worker0=exit:3"]) == 3
    with on_another_machine(tmp_path):
        assert faulty.cat_file("/b/logs/worker-0.log").count(b"about to end") == 2
        assert main(["replay", URL]) == 0
        assert "the same actions as then" in capfd.readouterr().out


def test_nothing_is_started_if_they_cannot_be_written(faulty, capfd):
    Faulty.failures = [PermissionError("AccessDenied")]
    assert main(RUN) == 1
    assert f"muster run: {URL}/" in (said := capfd.readouterr().err)
    assert "cannot be written: AccessDenied" in said
    assert "Starts" not in said
    assert names(faulty) == []


def test_what_cannot_be_sent_at_the_end_stays_here(faulty, capfd, monkeypatch):
    def refuses(self, *args, **kwargs):
        if Faulty.done:
            raise PermissionError("the key has expired")
        Faulty.done.append(("put", "job.json"))

    monkeypatch.setattr(Faulty, "put_file", refuses)
    assert main(RUN) == 0
    said = capfd.readouterr().err
    assert "cannot be written: the key has expired" in said
    folder = said.partition("What is not there of the logs stays in ")[2].partition(".\n")[0]
    assert read_record(folder).code == 0
    assert "about to end" in Path(folder, "worker-0.log").read_text()


def test_profiles_on_a_store_are_shown_whoever_has_sent_them(faulty, tmp_path, capfd):
    program = tmp_path / "told.py"
    program.write_text("import os; print(os.environ['MUSTER_PROFILE'])")
    run = ["run", "--workers", "1", "--profile", "faulty://b/traces", str(program)]
    assert main(run) == 0
    said = capfd.readouterr()
    assert "worker 0 | faulty://b/traces" in said.err + said.out
    assert "There is no profile" in said.err
    faulty.pipe_file("/b/traces/worker-0/profile.txt", b"20 steps\n")  # as a task elsewhere does
    assert main(run) == 0
    assert "worker-0: 20 steps\nTraces: faulty://b/traces/*/plugins/profile/*" in capfd.readouterr().out
