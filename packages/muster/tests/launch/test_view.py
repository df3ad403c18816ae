"""The table of a job on a terminal."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from muster.cluster import Task
from muster.cluster.roster import Progress, TaskState
from muster.launch import _view
from muster.launch._job_state import TaskRecord
from muster.launch._view import JobView, LiveView, make_view

W0, EV = Task("worker", 0), Task("evaluator", 0)
TRAINS = Progress(
    state=TaskState.TRAINING, step=400, max_steps=1000, steps_per_sec=0.5, loss=0.25, input_wait=0.1
)


def Row(task, state, **known):
    return TaskRecord(
        type=task.type, index=task.index, state=state, pid=1, address="h:1", log="l", starts=1, **known
    )


HEADERS = ["step ", "steps/s", "left", "loss", "input wait"]


def drawn(rows, log_dir, width=120):
    """The last table that is drawn."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    view = LiveView([row.task for row in rows], console)
    try:
        view.show(rows, log_dir)
    finally:
        view.close()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    return shown[shown.rindex("task ") :]


def test_it_shows_how_far_training_is_how_long_it_takes_and_where_the_logs_are():
    rows = [
        Row(task=W0, state="running", progress=TRAINS, answers=True, left_secs=1200.0),
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


@pytest.mark.parametrize(
    ("width", "missing"),
    [(90, set()), (60, {"input wait"}), (50, {"input wait", "left"}), (20, set(HEADERS))],
)
def test_columns_are_dropped_where_the_terminal_is_narrow_and_words_are_not_broken(width, missing):
    rows = [Row(task=W0, state="running", progress=TRAINS, answers=True, left_secs=1200.0)]
    shown = drawn(rows, None, width)
    assert {name for name in HEADERS if name not in shown} == missing
    assert re.search(r"worker 0 .*training", shown)
    assert ("400 of 1000" in shown) == ("step " not in missing)


def test_epochs_closures_and_waits_have_columns_where_there_are_some():
    fits = Progress(state=TaskState.TRAINING, step=9, epoch=2, epochs=5)
    coordinates = Progress(state=TaskState.COORDINATING, closures=40, closures_per_sec=12.34)
    rows = [
        Row(
            task=W0,
            state="running",
            progress=fits,
            answers=True,
            waits={"compute": 0.7, "communication": 0.3},
        ),
        Row(task=EV, state="running", progress=coordinates, answers=True),
    ]
    shown = drawn(rows, None, 140)
    assert re.search(r"task +epoch +step +steps/s +closures/s +loss +input wait +comm wait +state", shown)
    assert re.search(r"worker 0 +2 of 5 +9 +- +- +- +- +30% +training", shown)
    assert re.search(r"evaluator 0 +- +- +- +12\.3 +- +- +- +coordinating", shown)


@pytest.fixture
def clock(monkeypatch):
    """The time of the view, in seconds, as its only element."""
    now = [100.0]
    monkeypatch.setattr(_view.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_progress_is_said_twice_a_minute(clock, capsys):
    view = JobView([W0, EV])
    view.begin(Path("/logs"))
    evaluated = Progress(state=TaskState.WAITING, evaluation="step 400: accuracy 0.9")
    rows = [
        Row(task=W0, state="running", progress=TRAINS, answers=True, left_secs=1200.0),
        Row(task=EV, state="running", progress=evaluated, answers=True),
    ]
    for secs in (1, 28, 2, 10, 21):
        clock[0] += secs
        view.show(rows, None)
    view.end()
    assert capsys.readouterr() == (
        "",
        "muster      | Starts worker 0, evaluator 0. Logs: /logs\n"
        "muster      | After 0:00:31:\n"
        "muster      |   worker 0 training, step 400 of 1000, 0.5 steps/s, loss 0.25, 0:20:00 left\n"
        "muster      |   evaluator 0 waiting\n"
        "muster      | Evaluated step 400: accuracy 0.9\n"
        "muster      | After 0:01:02:\n"
        "muster      |   worker 0 training, step 400 of 1000, 0.5 steps/s, loss 0.25, 0:20:00 left\n"
        "muster      |   evaluator 0 waiting\n"
        "muster      | All tasks have ended well, after 0:01:02.\n",
    )


def test_lines_that_are_just_above_are_known(capsys):
    view = JobView([W0, EV])
    view.lines(W0, ["Traceback", "ValueError"])
    assert view.has_just_shown(W0, ["Traceback", "ValueError"])
    assert not view.has_just_shown(EV, ["ValueError"])
    view.lines(EV, map(str, range(30)))
    assert not view.has_just_shown(W0, ["Traceback", "ValueError"])


def test_colours_that_are_forced_make_no_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert type(make_view([W0])) is JobView
