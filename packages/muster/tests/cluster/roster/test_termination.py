"""The file that says why a task ends."""

import os

import pytest

from muster.cluster import Task
from muster.cluster.roster import TERMINATION_LOG, Termination, read_termination, write_termination


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv(TERMINATION_LOG, str(tmp_path / "end"))
    return tmp_path / "end"


def test_the_last_reason_counts(file):
    write_termination(Task("worker", 0), "a reason of many words")
    write_termination(Task("worker", 1), "another")
    assert read_termination(file) == Termination(Task("worker", 1), "another")


def test_a_process_that_ends_while_it_writes_leaves_no_empty_file(file, monkeypatch):
    class Ended(BaseException):
        pass

    def end(*arguments):
        raise Ended

    write_termination(Task("worker", 0), "first")
    monkeypatch.setattr(os, "write", end)
    with pytest.raises(Ended):
        write_termination(Task("worker", 1), "second")
    assert read_termination(file) == Termination(Task("worker", 0), "first")
