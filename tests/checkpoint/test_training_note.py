"""The note by which an evaluator knows whether training goes on."""

import dataclasses
import signal
import subprocess
import sys

import pytest

from muster.checkpoint import NOTE_NAME, TrainingNote, note_training, read_note

PROGRAM = """
import os, signal, sys
from muster.checkpoint import note_training
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
    assert [each.name for each in tmp_path.iterdir()] == [NOTE_NAME]


def test_a_note_that_was_deleted_is_written_again(tmp_path):
    note_training(tmp_path)
    (tmp_path / NOTE_NAME).unlink()
    note_training(tmp_path)
    assert read_note(tmp_path).is_on


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
    (tmp_path / NOTE_NAME).write_bytes(text)
    assert read_note(tmp_path) is None


def test_a_directory_that_cannot_be_written_has_none(tmp_path):
    note_training(tmp_path / "missing")
    assert read_note(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("end", "code", "ended"),
    [
        ("", 0, True),
        ("sys.exit(3)", 3, True),
        ("raise ValueError", 1, False),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, False),
        # What begins after it has a note of its own, which stays.
        ("open(os.path.join({directory!r}, 'training.json'), 'w').write('other')", 0, None),
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
