"""What a task reports of its steps, and how often."""

import pytest

from muster.cluster.roster import TaskState, WorkTotals
from muster.distribute.workers import Exchanged, ProgressReporter, SlidingRate, _progress
from muster.distribute.workers._progress import LoopProgress


class Clock:
    """The time of the reporter, and what it has reported."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reports: list[dict[str, object]] = []

    def report(self, **fields: object) -> None:
        self.reports.append(fields)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(_progress.time, "monotonic", lambda: made.now)
    return made


def never() -> dict[str, float]:
    return pytest.fail("the results were waited for")


def test_the_first_step_has_no_speed_and_reports_come_once_a_second(clock: Clock) -> None:
    exchanged = Exchanged()
    reporter = ProgressReporter(clock.report, exchanged)
    reporter.after_steps(TaskState.TRAINING, 1, 1, 0.5, never)
    clock.now = 100.9
    reporter.after_steps(TaskState.TRAINING, 2, 2, 0.6, never)
    clock.now = 102.0
    exchanged.secs, exchanged.nbytes = 0.25, 800
    reporter.after_steps(TaskState.TRAINING, 5, 5, 1.0, lambda: {"loss": 0.25, "auc": 0.75})
    reporter.after_steps(TaskState.EVALUATING, 5, 5, 1.0, never)
    assert clock.reports == [
        {"state": TaskState.TRAINING},
        {
            "step": 5,
            "loss": 0.25,
            "metrics": {"auc": 0.75},
            "steps_per_sec": 2.0,
            "input_wait": 0.25,
            "totals": WorkTotals(4, 1.25, 0.5, 0.25, nbytes=800, squares=pytest.approx(0.9**2 + 0.85**2 / 3)),
        },
        {"state": TaskState.EVALUATING},
    ]


def test_short_epochs_have_a_speed_which_is_that_of_training(clock: Clock) -> None:
    """An epoch is over before a report is due, and an evaluation and a save take long."""
    reporter = ProgressReporter(clock.report)
    step = 0
    for _ in range(4):
        for _ in range(2):
            clock.now += 0.1
            step += 1
            reporter.after_steps(TaskState.TRAINING, step, step, 0.0, lambda: {"loss": 0.5})
        clock.now += 5.0
        reporter.after_steps(TaskState.EVALUATING, step, step, 0.0, never)
        reporter.enter(TaskState.SAVING)
        clock.now += 7.0
        reporter.enter(TaskState.TRAINING)
    speeds = [each["steps_per_sec"] for each in clock.reports if "steps_per_sec" in each]
    assert speeds == pytest.approx([10.0] * 3)
    reporter.finish(step, {"loss": 0.25})
    assert clock.reports[-1]["step"] == 8
    assert clock.reports[-1]["loss"] == 0.25
    totals = clock.reports[-1]["totals"]
    assert isinstance(totals, WorkTotals)
    assert (totals.steps, totals.compute) == (7, pytest.approx(0.7))


def test_a_training_that_ends_early_has_the_speed_of_all_its_steps(clock: Clock) -> None:
    reporter = ProgressReporter(clock.report)
    for step in (1, 2, 3):
        clock.now += 0.25
        reporter.after_steps(TaskState.TRAINING, step, step, 0.0, never)
    reporter.finish(3, {"loss": 0.5})
    assert clock.reports[-1]["steps_per_sec"] == pytest.approx(4.0)


def test_beside_servers_the_speed_is_that_of_all_workers_and_the_times_are_of_own_steps(clock: Clock) -> None:
    reporter = ProgressReporter(clock.report)
    for taken in range(1, 5):
        reporter.after_steps(TaskState.TRAINING, 10 * taken, taken, 0.0, lambda: {"loss": 0.5})
        clock.now += 0.5
    assert clock.reports[-1]["steps_per_sec"] == pytest.approx(20.0)
    totals = clock.reports[-1]["totals"]
    assert isinstance(totals, WorkTotals)
    assert (totals.steps, totals.squares) == (2, pytest.approx(0.5))


def test_a_training_of_one_step_has_none(clock: Clock) -> None:
    reporter = ProgressReporter(clock.report)
    reporter.after_steps(TaskState.TRAINING, 1, 1, 0.0, never)
    reporter.finish(1, {})
    assert "steps_per_sec" not in clock.reports[-1]


def test_a_sliding_rate_is_that_of_the_last_seconds(clock: Clock) -> None:
    rate, count = SlidingRate(), 0
    assert rate(count) is None
    for each in (2, 2, 2, 2, 2, 2, 2, 2):
        clock.now += 1.0
        count += each
        found = rate(count)
    assert found == pytest.approx(2.0)
    for _ in range(8):
        clock.now += 1.0
        found = rate(count)
    assert found == 0.0


def test_a_loop_reports_the_steps_between_its_draws(clock: Clock) -> None:
    exchanged = Exchanged()
    loop = LoopProgress(clock.report, exchanged)
    for _ in range(2):
        for _ in range(6):
            with loop.drawing():
                clock.now += 0.1
                exchanged.secs += 0.025
            loop.drew()
            clock.now += 0.4
        loop.end_pass()
        clock.now += 60.0  # an evaluation
    states = [each["state"] for each in clock.reports if "state" in each]
    assert states == 2 * [TaskState.TRAINING, TaskState.STARTING]
    last = clock.reports[-2]
    assert last["step"] == 12
    totals = last["totals"]
    assert isinstance(totals, WorkTotals)
    assert (totals.steps, totals.compute) == (9, pytest.approx(9 * 0.4))
    assert (totals.input, totals.communication) == (pytest.approx(9 * 0.075), pytest.approx(9 * 0.025))
    assert [each["steps_per_sec"] for each in clock.reports if "steps_per_sec" in each][-1] == pytest.approx(
        2.0
    )
