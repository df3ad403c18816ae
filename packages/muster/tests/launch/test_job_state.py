"""What a launcher makes of what tasks report: one step, speeds, shares of time, curves, who stands still."""

import pytest

from muster.cluster.roster import Progress, TaskState, WorkTotals
from muster.launch import _job_state
from muster.launch._job_state import JobState, TaskRecord


def task(
    index=0,
    kind="worker",
    state="running",
    starts=1,
    answers=True,
    activity=TaskState.TRAINING,
    **progress,
):
    return TaskRecord(
        type=kind,
        index=index,
        state=state,
        pid=1,
        address="h:1",
        log="l",
        starts=starts,
        answers=answers,
        progress=Progress(state=activity, **progress) if progress else None,
    )


def progress_of(tasks):
    return [each.progress for each in tasks]


def test_workers_in_step_are_shown_at_one_step():
    said = [
        task(0, step=100, loss=0.5, steps_per_sec=20.0, metrics={"auc": 0.7}, epoch=2),
        task(1, step=115, loss=0.3, steps_per_sec=21.0, epoch=2),
    ]
    first, second = progress_of(JobState().look(said, 0.0, 0.0))
    assert first == said[0].progress
    assert (second.step, second.loss, second.steps_per_sec) == (100, 0.5, 20.0)
    assert (second.metrics, second.epoch) == ({"auc": 0.7}, 2)


@pytest.mark.parametrize(
    "others",
    [
        [task(1, step=400, loss=0.3, steps_per_sec=21.0)],  # it trains a model of its own
        [task(1, step=115, loss=0.3), task(0, "ps", pushes=3)],  # nobody waits for anybody
        [task(1, step=115, loss=0.3, state="running", answers=True), task(0, "ps")],
    ],
    ids=["far away", "beside servers", "beside a server that says nothing"],
)
def test_workers_that_are_not_in_step_are_shown_at_their_own(others):
    said = [task(0, step=100, loss=0.5, steps_per_sec=20.0), *others]
    assert progress_of(JobState().look(said, 0.0, 0.0)) == progress_of(said)


@pytest.mark.parametrize("activity", [TaskState.SAVING, TaskState.EVALUATING])
def test_workers_are_in_step_while_their_chief_saves_or_evaluates(activity):
    said = [
        task(0, activity=activity, step=80, max_steps=200, loss=5.8, steps_per_sec=600.0),
        task(1, step=97, max_steps=200, loss=5.7, steps_per_sec=19.0),
    ]
    first, second = progress_of(JobState().look(said, 0.0, 0.0))
    assert (second.state, second.step, second.loss) == (TaskState.TRAINING, first.step, first.loss)


def test_the_time_left_counts_saves_and_evaluations():
    state = JobState()

    def left(now, step, activity=TaskState.TRAINING):
        said = [
            task(0, activity=activity, step=step, max_steps=1000, steps_per_sec=100.0),
            task(1, step=step + 5, max_steps=1000, steps_per_sec=90.0),
        ]
        first, second = state.look(said, now, now)
        assert first.left_secs == second.left_secs
        return first.left_secs

    assert left(0.0, 100) == 9.0  # by its speed, for nothing else is known
    assert left(10.0, 200) == 80.0
    assert left(19.0, 200, TaskState.SAVING) == 80.0
    assert left(30.0, 400) == 60.0
    assert left(_job_state._PACE_SECS, 500) == 500 * _job_state._PACE_SECS / 400
    assert left(_job_state._PACE_SECS + 10.0, 500) is None  # it makes no steps
    # By now of late: what was before counts no more.
    assert left(2 * _job_state._PACE_SECS, 600) == 400 * _job_state._PACE_SECS / 100
    assert left(2 * _job_state._PACE_SECS + 10.0, 700) == pytest.approx(1.5 * (_job_state._PACE_SECS + 10.0))
    assert left(2 * _job_state._PACE_SECS + 20.0, 100) == 9.0  # it was started again


def test_a_task_that_makes_no_steps_has_no_speed():
    state, said = JobState(), [task(step=10, steps_per_sec=50.0)]
    for now, speed in ((0.0, 50.0), (4.0, 50.0), (6.0, 0.0), (60.0, 0.0)):
        assert progress_of(state.look(said, now, now))[0].steps_per_sec == speed, now
    assert progress_of(state.look([task(step=11, steps_per_sec=50.0)], 61.0, 61.0))[0].steps_per_sec == 50.0
    slow = [task(step=10, steps_per_sec=0.1)]
    state = JobState()
    for now, speed in ((0.0, 0.1), (49.0, 0.1), (51.0, 0.0)):
        assert progress_of(state.look(slow, now, now))[0].steps_per_sec == speed, now


def test_the_last_speed_of_a_task_that_has_ended_stays():
    state = JobState()
    state.look([task(step=10, steps_per_sec=50.0)], 0.0, 0.0)
    (ended,) = state.look([task(step=10, steps_per_sec=50.0, answers=False, state="done")], 100.0, 100.0)
    assert ended.progress.steps_per_sec == 50.0


def test_the_shares_of_time_are_those_of_late():
    state = JobState()
    (one,) = state.look([task(step=1, totals=WorkTotals(10, 8.0, 1.0, 1.0))], 0.0, 0.0)
    assert one.waits == {"compute": 0.8, "input": 0.1, "communication": 0.1}
    (two,) = state.look([task(step=2, totals=WorkTotals(11, 8.1, 1.0, 1.0))], 1.0, 1.0)
    assert two.waits == one.waits  # too little is new
    (three,) = state.look([task(step=3, totals=WorkTotals(20, 9.0, 5.0, 1.0))], 2.0, 2.0)
    assert three.waits == {"compute": 0.2, "input": 0.8}
    (again,) = state.look([task(step=1, starts=2, totals=WorkTotals(1, 0.5, 0.5))], 9.0, 9.0)
    assert again.waits == three.waits  # started anew, and little is known yet
    (again,) = state.look([task(step=5, starts=2, totals=WorkTotals(3, 1.0, 0.0, 0.0, 3.0))], 9.0, 9.0)
    assert again.waits == {"compute": 0.25, "idle": 0.75}


def test_curves_are_bounded_and_keep_their_whole_length(monkeypatch):
    monkeypatch.setattr(_job_state, "_MOST_POINTS", 50)
    state = JobState()
    for second in range(5000):
        state.look([task(step=second, loss=1 / (second + 1))], float(second), 1e9 + second)
    (points,) = state.curves.values()
    assert 25 <= len(points) <= 50
    assert points[0].step == 0
    assert points[-1].step > 4500
    assert points == sorted(points, key=lambda each: each.time)


def test_curves_of_many_tasks_are_shorter(monkeypatch):
    monkeypatch.setattr(_job_state, "_MOST_OF_ALL", 100 * _job_state._FEWEST_POINTS)
    state, tasks = JobState(), 200
    for second in range(0, 600, 2):
        state.look([task(n, step=second) for n in range(tasks)], float(second), 1e9 + second)
    assert max(map(len, state.curves.values())) <= _job_state._FEWEST_POINTS
    assert len(state.curves) == tasks


def stalls(state):
    found, state.stalls = [each.text for each in state.stalls], []
    return found


def test_a_task_that_stands_still_is_named_once():
    state = JobState(60.0)
    for now in range(0, 200, 10):
        state.look([task(step=12, steps_per_sec=10.0)], float(now), 0.0)
        assert stalls(state) == (["worker 0 has made no step after 12 for 60 s"] if now == 60 else []), now
    state.look([task(step=13, steps_per_sec=10.0)], 200.0, 0.0)
    state.look([task(step=13, steps_per_sec=10.0)], 261.0, 0.0)
    assert stalls(state) == ["worker 0 has made no step after 13 for 61 s"]


def test_a_task_that_does_not_answer_stands_still():
    state = JobState(60.0)
    state.look([task(step=12)], 0.0, 0.0)
    state.look([task(step=12, answers=False)], 59.0, 0.0)
    assert stalls(state) == []
    state.look([task(step=12, answers=False)], 61.0, 0.0)
    assert stalls(state) == ["worker 0 has not answered for 61 s"]


def test_a_coordinator_whose_closures_do_not_end_stands_still():
    state, waits = JobState(60.0), {"activity": TaskState.COORDINATING, "closures": 5, "queue": 3}
    state.look([task(0, "chief", **waits)], 0.0, 0.0)
    state.look([task(0, "chief", **waits)], 61.0, 0.0)
    assert stalls(state) == ["chief 0 has 3 closures that wait, and none has ended for 61 s"]


@pytest.mark.parametrize(
    "said",
    [
        task(step=12, waits_for="worker 1"),
        task(step=12, state="done"),
        task(step=12, steps_per_sec=0.05),  # such steps take long
        task(state="running"),  # a program that reports nothing
        task(waits_for="", step=None),
        TaskRecord(type="w", index=0, state="running", pid=1, address="", log="", starts=1, answers=True),
        task(0, "ps", pushes=3),  # nobody asks it for anything
        task(0, "chief", activity=TaskState.COORDINATING, closures=5, queue=0),
    ],
)
def test_others_do_not(said):
    state = JobState(60.0)
    for now in range(0, 390, 10):
        state.look([said], float(now), 0.0)
    assert stalls(state) == []


def test_nobody_stands_still_where_that_is_not_asked_for():
    state = JobState(0.0)
    for now in (0.0, 1e6):
        state.look([task(step=12)], now, 0.0)
    assert stalls(state) == []
