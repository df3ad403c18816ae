"""The table of a job on a terminal."""

import io
import re
from pathlib import Path

from rich.console import Console

from muster.cluster import Task
from muster.cluster.roster import Progress, TaskState
from muster.launch._view import LiveView, Row

W0, EV = Task("worker", 0), Task("evaluator", 0)
TRAINS = Progress(
    state=TaskState.TRAINING, step=400, max_steps=1000, steps_per_sec=0.5, loss=0.25, input_wait=0.1
)


def drawn(rows, log_dir):
    """The last table that is drawn."""
    console = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    view = LiveView([row.task for row in rows], console)
    try:
        view.show(rows, log_dir)
    finally:
        view.close()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    return shown[shown.rindex("task ") :]


def test_it_shows_how_far_training_is_how_long_it_takes_and_where_the_logs_are():
    rows = [
        Row(task=W0, state="running", progress=TRAINS, answers=True),
        Row(task=EV, state="running"),
    ]
    shown = drawn(rows, Path("/logs"))
    assert re.search(r"task +step +steps/s +left +loss +input wait +state", shown)
    assert re.search(r"worker 0 +400 of 1000 +0\.5 +0:20:00 +0\.25 +10% +training", shown)
    assert re.search(r"evaluator 0 +- +- +- +- +- +running", shown)
    assert "Logs: /logs" in shown


def test_a_task_that_has_ended_keeps_its_last_numbers():
    shown = drawn([Row(task=W0, state="done", progress=TRAINS)], None)
    assert re.search(r"worker 0 +400 of 1000 +0\.5 +- +0\.25 +10% +done", shown)
    assert "Logs" not in shown


def test_the_newest_evaluation_is_below():
    evaluated = Progress(state=TaskState.WAITING, step=400, evaluation="step 400: accuracy 0.9, loss 0.3")
    shown = drawn(
        [Row(task=W0, state="done", progress=TRAINS), Row(task=EV, state="done", progress=evaluated)],
        Path("/l"),
    )
    assert re.search(r"evaluator 0 +400 .*\n *Evaluated step 400: accuracy 0\.9, loss 0\.3\s+Logs: /l", shown)


def test_nothing_is_said_of_an_end_that_nobody_knows():
    endless = Progress(state=TaskState.TRAINING, step=400, steps_per_sec=0.5)
    shown = drawn([Row(task=W0, state="running", progress=endless, answers=True)], None)
    assert re.search(r"task +step +steps/s +loss", shown)
    assert re.search(r"worker 0 +400 +0\.5 +- +- +training", shown)
