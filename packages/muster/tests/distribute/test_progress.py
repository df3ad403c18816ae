"""What a task reports of its steps, and how often."""

import pytest

from muster.cluster.roster._roster_messages import TaskState
from muster.distribute.workers import _progress


def test_the_first_step_has_no_speed_and_reports_come_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now)
    reports: list[dict[str, object]] = []
    reporter = _progress.ProgressReporter(lambda **fields: reports.append(fields))
    reporter.after_steps(TaskState.TRAINING, 1, 0.5, lambda: pytest.fail("the loss was waited for"))
    now = 100.9
    reporter.after_steps(TaskState.TRAINING, 2, 0.6, lambda: pytest.fail("the loss was waited for"))
    now = 102.0
    reporter.after_steps(TaskState.TRAINING, 5, 1.0, lambda: 0.25)
    reporter.after_steps(TaskState.EVALUATING, 5, 1.0, lambda: pytest.fail("an evaluation has no loss"))
    assert reports == [
        {"state": TaskState.TRAINING},
        {"step": 5, "loss": 0.25, "steps_per_sec": 2.0, "input_wait": 0.25},
        {"state": TaskState.EVALUATING},
    ]
