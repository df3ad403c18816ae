"""The record that a launcher writes of its job, and finding it."""

import io
import sys
import tempfile
import time
import types

import msgspec
import pytest

from muster.__main__ import main
from muster.cluster.roster import Progress
from muster.launch import _job_commands, _job_record
from muster.launch._job_record import Recorder, known_jobs, read_curves, read_record
from muster.launch._job_state import TaskRecord


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def task(**changes):
    known = {
        "type": "worker",
        "index": 0,
        "state": "running",
        "pid": 1,
        "address": "h:1",
        "log": "l",
        "starts": 1,
    }
    return TaskRecord(**(known | changes))


def recorder(folder, name="first"):
    folder.mkdir()
    return Recorder(name, ("train.py", "--steps", "3"), folder)


def test_it_has_how_the_tasks_are_and_what_happened(tmp_path):
    made = recorder(tmp_path / "logs")
    made.event("worker 0 failed: exit code 3.")
    made.look([task(progress=Progress(step=7, loss=0.5))])
    read = read_record(tmp_path / "logs")
    assert (read.name, read.program, read.runs) == ("first", ("train.py", "--steps", "3"), True)
    assert read.tasks == (task(progress=Progress(step=7, loss=0.5)),)
    assert [event.text for event in read.events] == ["worker 0 failed: exit code 3."]
    made.end([task(state="ended")], 3)
    read = read_record(tmp_path / "logs")
    assert (read.code, read.runs, read.tasks[0].state) == (3, False, "ended")


def test_curves_are_written_at_the_end_and_events_come_from_what_tasks_report(tmp_path):
    made = recorder(tmp_path / "logs")
    progress = Progress(step=7, loss=0.5, metrics={"auc": 0.9}, evaluation="step 7: auc 0.9", checkpoint=7)
    made.look([task(progress=progress, answers=True)])
    made.end([task(progress=progress)], 0)
    (point,) = read_curves(tmp_path / "logs")["worker-0"]
    assert (point.step, point.loss, point.metrics) == (7, 0.5, {"auc": 0.9})
    assert [event.text for event in read_record(tmp_path / "logs").events] == [
        "Evaluated step 7: auc 0.9",
        "worker 0 has saved checkpoint 7",
    ]
    assert read_curves(tmp_path) == {}


def test_it_is_not_written_more_than_once_a_second_but_for_news(tmp_path, monkeypatch):
    made = recorder(tmp_path / "logs")
    for step in range(3):
        made.look([task(progress=Progress(step=step))])
    assert read_record(tmp_path / "logs").tasks[0].progress.step == 0
    made.event("news")
    made.look([task(progress=Progress(step=9))])
    assert read_record(tmp_path / "logs").tasks[0].progress.step == 9


def test_a_job_whose_launcher_was_killed_does_not_run(tmp_path, monkeypatch):
    recorder(tmp_path / "logs").look([])
    assert read_record(tmp_path / "logs").runs
    monkeypatch.setattr(_job_record, "start_ticks", lambda pid: None)
    assert not read_record(tmp_path / "logs").runs


def test_a_users_jobs_are_listed_while_their_logs_are_there(tmp_path):
    for name in ("first", "second"):
        recorder(tmp_path / name, name).look([])
    assert [record.name for record in known_jobs()] == ["first", "second"]
    (tmp_path / "first" / "job.json").unlink()  # as if the folder had gone
    assert [record.name for record in known_jobs()] == ["second"]
    (listed,) = _job_record._jobs_folder().iterdir()
    assert listed.name == "second"


def test_a_disk_that_is_full_ends_no_job(tmp_path, monkeypatch):
    made = recorder(tmp_path / "logs")
    (tmp_path / "logs").rename(tmp_path / "gone")
    made.event("news")
    made.look([])
    made.end([], 0)
    assert read_record(tmp_path / "logs") is None


def test_logs_of_a_job_that_begins_or_whose_files_are_gone(tmp_path, capsys):
    made = recorder(tmp_path / "logs")
    assert main(["logs"]) == 0
    assert capsys.readouterr().out == ""
    made.event("news")
    made.look([task(log=str(tmp_path / "gone.log"))])
    assert main(["logs"]) == 1
    assert "gone.log'. The job or its logs may be gone by now." in capsys.readouterr().err


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """A job that is at step 7, at step 8 a second later, and has then ended."""
    made = recorder(tmp_path / "logs")
    made.event("begins")
    made.look([task(progress=Progress(step=7, loss=0.5), answers=True)])
    seconds = iter(range(100))

    def sleep(secs):
        if next(seconds) < 4:
            made.event("news")
            made.look([task(progress=Progress(step=8, loss=0.25), answers=True)])
        else:
            made.end([task(state="ended", progress=Progress(step=9, loss=0.125))], 0)

    changed = {"monotonic": lambda: float(next(seconds)), "sleep": sleep}
    clock = types.SimpleNamespace(**vars(time) | changed)
    monkeypatch.setattr(_job_commands, "time", clock)


def test_watching_a_job_through_a_pipe_tells_how_it_is_now_and_then_and_at_its_end(watched, capsys):
    assert main(["status", "--watch", "first"]) == 0
    out = capsys.readouterr().out
    assert [step for step in "789" if f" {step} " in out] == ["7", "9"]
    assert out.count("job first") == 2
    assert "\x1b" not in out


def test_watching_a_job_on_a_terminal_shows_a_table_that_changes(watched, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert main(["status", "--watch", "first"]) == 0
    tables = terminal.getvalue().split("\x1b[2K")
    assert [step for step in "789" if any(f" {step} " in each for each in tables)] == ["7", "8", "9"]


def test_watching_a_job_that_has_ended_tells_how(watched, tmp_path, capsys):
    for _ in range(5):  # until it has
        _job_commands.time.sleep(1)
    assert main(["status", "--watch", str(tmp_path / "logs")]) == 0
    assert " 9 " in capsys.readouterr().out


@pytest.mark.parametrize("ahead", [-7200.0, 7200.0])
def test_how_long_a_job_has_run_is_told_by_the_clock_of_its_launcher(ahead, tmp_path):
    recorder(tmp_path / "logs").look([])
    record = read_record(tmp_path / "logs")
    began = record.began + ahead
    elsewhere = msgspec.structs.replace(record, host="elsewhere", began=began, written=began + 61.2)
    assert _job_commands._headline(elsewhere).endswith("has run for 0:01:01")


def test_a_launcher_elsewhere_that_writes_no_more_is_told_when_one_has_watched_for_long(tmp_path):
    recorder(tmp_path / "logs").look([])
    record = read_record(tmp_path / "logs")
    there = msgspec.structs.replace(record, host="elsewhere", written=9e9)  # whatever its clock says
    silence = _job_commands._Silence()
    assert silence.told(there, 1000.0) == silence.told(there, 1059.0) == ""
    assert silence.told(there, 1061.0).startswith("The launcher on elsewhere has written nothing for 61 s")
    assert silence.told(msgspec.structs.replace(there, written=9e9 + 1), 1062.0) == ""
    here = _job_commands._Silence()  # whose process is looked at
    assert here.told(record, 1000.0) == here.told(record, 2000.0) == ""
