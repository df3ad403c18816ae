"""The note by which an evaluator knows whether training goes on."""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from muster.checkpoint import TrainingNote, note_paths, note_training, read_note

PROGRAM = """
import os, signal, sys
from muster.checkpoint import note_paths, note_training
note_training({directory!r})
{end}
"""


def test_this_program_trains(tmp_path):
    assert read_note(tmp_path) is None
    note_training(tmp_path)
    first = read_note(tmp_path)
    assert first.is_on
    note_training(tmp_path)
    assert read_note(tmp_path) == first
    assert list(tmp_path.iterdir()) == []  # where programs look for checkpoints
    assert note_paths(tmp_path)[0] == str(tmp_path.parent / f".{tmp_path.name}.training.json")


def test_a_note_that_was_deleted_is_written_again(tmp_path):
    note_training(tmp_path)
    os.unlink(note_paths(tmp_path)[0])
    note_training(tmp_path)
    assert read_note(tmp_path).is_on


def test_a_directory_that_is_made_anew_is_noted_again(tmp_path):
    directory = tmp_path / "model"
    for make in (directory.mkdir, lambda: (tmp_path / "other").rename(directory)):
        (tmp_path / "other").mkdir(exist_ok=True)  # so that the number of the first is not used again
        make()
        note_training(directory)
        assert read_note(directory).is_on
        os.rmdir(directory)


def test_a_process_number_that_is_used_again_is_another_process(tmp_path):
    note_training(tmp_path)
    note = read_note(tmp_path)
    assert not dataclasses.replace(note, started=note.started - 1).is_on
    assert not dataclasses.replace(note, ended=True).is_on


def test_of_another_machine_nobody_can_tell(tmp_path):
    note_training(tmp_path)
    note = dataclasses.replace(read_note(tmp_path), machine="another", started=1)
    assert note.is_on
    assert not dataclasses.replace(note, ended=True).is_on


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"token": 1}', b"\xff"])
def test_what_is_no_note_is_none(tmp_path, text):
    for path in note_paths(tmp_path):
        Path(path).write_bytes(text)
    assert read_note(tmp_path) is None


def test_a_directory_that_is_missing_has_none(tmp_path):
    note_training(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []
    assert read_note(tmp_path / "missing") is None


def test_the_working_directory_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    note_training(".")
    assert [each.name for each in tmp_path.iterdir()] == ["training.json"]
    assert read_note(tmp_path).is_on


def test_the_directory_has_it_where_there_may_be_none_beside_it(tmp_path):
    os.mkdir(note_paths(tmp_path)[0])
    note_training(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["training.json"]
    assert read_note(tmp_path).is_on


def test_the_last_note_counts(tmp_path, monkeypatch):
    beside, inside = note_paths(tmp_path)
    note_training(tmp_path)
    ended = dataclasses.replace(read_note(tmp_path), ended=True)
    Path(inside).write_bytes(msgspec.json.encode(ended))
    for path, time in ((beside, 1), (inside, 2)):
        os.utime(path, (time, time))
    assert read_note(tmp_path).ended
    os.utime(beside, (3, 3))
    assert not read_note(tmp_path).ended


def test_a_directory_that_was_made_anew_has_none(tmp_path):
    old, new = tmp_path / "run", tmp_path / "new"
    old.mkdir()
    note_training(old)
    new.mkdir()
    old.rmdir()
    new.rename(old)
    assert read_note(old) is None


@pytest.mark.processes
@pytest.mark.parametrize(
    ("end", "code", "ended"),
    [
        ("", 0, True),
        ("sys.exit(3)", 3, True),
        ("raise ValueError", 1, False),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, False),
        # What begins after it has a note of its own, which stays.
        ("open(note_paths({directory!r})[0], 'w').write('other')", 0, None),
    ],
)
def test_how_a_program_ends(tmp_path, end, code, ended):
    program = PROGRAM.format(directory=str(tmp_path), end=end.format(directory=str(tmp_path)))
    run = subprocess.run([sys.executable, "-c", program], timeout=100, stderr=subprocess.PIPE)
    assert run.returncode == code, run.stderr
    note = read_note(tmp_path)
    if ended is None:
        assert note is None
    else:
        assert isinstance(note, TrainingNote)
        assert (note.is_on, note.ended) == (False, ended)
