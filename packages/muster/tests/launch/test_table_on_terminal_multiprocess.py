"""The table of a job at its end, on a terminal."""

import re
from pathlib import Path

import pytest

from terminals import OnTerminal

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("joining_child.py")


def last_table(tmp_path, *options):
    arguments = ["-m", "muster", "run", *options, "--log-dir", tmp_path / "logs", CHILD]
    with OnTerminal([*arguments, "estimator", tmp_path / "model"], COLUMNS="160") as job:
        assert job.end() == 0, job.written
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", job.written).replace("\r", "")
    return shown[shown.rindex("task ") :], shown


@pytest.mark.slow
def test_it_keeps_the_last_numbers_and_shows_the_newest_evaluation_of_the_evaluator(tmp_path):
    table, shown = last_table(tmp_path, "--workers", "2", "--evaluator")

    assert re.search(r"worker 0 +20 of 20 +[\d.]+ +- +[\d.e+-]+ .* done", table), table
    assert re.search(r"worker 1 +20 of 20 +[\d.]+ +- +[\d.e+-]+ .* done", table), table
    assert re.search(r"evaluator 0 +20 .* done", table), table
    assert "Evaluated step 20: loss " in table
    assert f"Logs: {tmp_path}/logs" in table
    assert "No new checkpoint" not in shown


def test_it_shows_an_evaluation_of_the_chief(tmp_path):
    table, _ = last_table(tmp_path, "--workers", "2")

    assert re.search(r"worker 0 +20 of 20 .* done", table), table
    assert "Evaluated step 20: loss " in table
