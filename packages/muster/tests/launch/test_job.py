"""The course of a job, without processes."""

import random
import signal

import pytest
from course import CHIEF, EV, GRACE, PS0, PS1, W0, W1, W2, Course

from muster._event_log import replay
from muster.cluster.roster import EXIT_PEER_LOST, Termination
from muster.engines import FINISH_SECS
from muster.launch._events import (
    Apart,
    Blame,
    CleanUp,
    Finish,
    Finishing,
    NotStarted,
    Received,
    Send,
    Start,
    TaskEnded,
    TasksStopped,
    describe_end,
    exit_code,
)
from muster.launch._job import FAILED_FINISH_SECS, SETTLE_SECS, Job
from muster.launch._job_notices import JOIN_SECS, STOPPED_SECS
from muster.launch._replay_command import MACHINES
from muster.launch._restarts import PAUSE_SECS, LimitedRestarts


def test_a_job_ends_well_when_every_task_has():
    job = Course(W0, W1, EV)
    assert job.at(1, TaskEnded(W0, 0)) == []
    assert job.at(2, TaskEnded(W1, 0)) == []
    assert job.job.deadline is None
    assert job.at(50, TaskEnded(EV, 0)) == [CleanUp(), Finish(0)]


def test_the_first_failure_ends_the_others_and_is_the_cause():
    job = Course(W0, W1, EV)
    assert job.at(1, TaskEnded(W1, 3)) == [Send((W0, EV), signal.SIGTERM)]
    assert job.at(2, TaskEnded(W0, -signal.SIGTERM)) == []
    assert job.at(3, TaskEnded(EV, 143)) == [CleanUp(), Blame(W1, 3), Finish(3)]


STANDS_STILL = Termination(W1, "worker 1 stands still.")


def test_the_cause_is_whom_the_others_name():
    job = Course(W0, W1)
    assert job.at(1, TaskEnded(W0, EXIT_PEER_LOST, STANDS_STILL)) == []
    assert job.at(1 + SETTLE_SECS) == [Send((W1,), signal.SIGTERM)]
    assert job.at(9) == [Send((W1,), signal.SIGKILL)]
    blame = Blame(W1, EXIT_PEER_LOST, "worker 1 stands still.")
    assert job.at(9, TaskEnded(W1, -signal.SIGKILL)) == [CleanUp(), blame, Finish(EXIT_PEER_LOST)]


@pytest.mark.parametrize("order", [(W0, W1), (W1, W0)])
def test_of_workers_that_end_together_the_one_that_got_the_signal_is_named(order):
    told = Termination(W1, "worker 1 was told to end: it got SIGTERM.")
    job = Course(W0, W1)
    actions = [action for at, task in enumerate(order) for action in job.at(at, TaskEnded(task, 143, told))]
    assert Blame(W1, 143, told.reason) in actions
    assert actions[-1] == Finish(143)


def test_what_a_task_waited_for_in_vain_is_the_cause_and_not_that_task():
    job = Course(W0, W1)
    job.at(1, TaskEnded(W0, 1, Termination(W1, "worker 0 has waited for worker 1.")))
    actions = job.at(2, TaskEnded(W1, EXIT_PEER_LOST, Termination(W1, "worker 0 has ended.")))
    assert actions == [CleanUp(), Blame(W1, 1, "worker 0 has waited for worker 1."), Finish(1)]


def test_the_grace_time_begins_when_nobody_is_finishing_any_more():
    job = Course(W0, W1)
    job.at(0, Received(signal.SIGTERM))
    for now in range(1, 31):
        assert job.at(now, Finishing((W0, W1))) == []
    assert [text for text in job.said if "finish steps and save" in text] == [
        f"worker 0 and worker 1 may still finish steps and save, {secs} s so far." for secs in (10, 20, 30)
    ]
    assert job.at(31, Finishing(())) == []
    assert job.at(30 + GRACE, Finishing(())) == [Send((W0, W1), signal.SIGKILL)]


def test_finishing_takes_no_longer_than_its_limit():
    job = Course(W0)
    job.at(0, Received(signal.SIGTERM))
    assert job.at(FINISH_SECS - 1, Finishing((W0,))) == []
    assert job.at(FINISH_SECS + GRACE - 1, Finishing((W0,))) == []
    assert job.at(FINISH_SECS + GRACE, Finishing((W0,))) == [Send((W0,), signal.SIGKILL)]


def test_finishing_takes_less_long_when_another_task_has_failed():
    job = Course(W0, W1)
    job.at(0, TaskEnded(W1, 1))
    assert job.at(FAILED_FINISH_SECS, Finishing((W0,))) == []
    assert job.at(FAILED_FINISH_SECS + GRACE, Finishing((W0,))) == [Send((W0,), signal.SIGKILL)]


def test_a_second_ctrl_c_kills_at_once_also_who_is_finishing():
    job = Course(W0)
    job.at(0, Received(signal.SIGINT))
    assert job.at(1, Finishing((W0,)), Received(signal.SIGINT)) == [Send((W0,), signal.SIGKILL)]


def test_nobody_waits_for_a_culprit_to_finish():
    job = Course(W0, W1)
    job.at(0, TaskEnded(W0, EXIT_PEER_LOST, STANDS_STILL))
    job.at(SETTLE_SECS, Finishing((W1,)))
    assert job.at(SETTLE_SECS + GRACE, Finishing((W1,))) == [Send((W1,), signal.SIGKILL)]


def test_for_whom_everyone_waits_is_said():
    job = Course(W0, W1, EV)
    job.at(0, TaskEnded(W0, 0))
    for now in range(0, 120):
        job.at(now, TasksStopped((W1,) if now > 50 else ()))
    assert job.said == [
        "Waiting for worker 1, evaluator 0.",
        "Waiting for worker 1 (stopped, by SIGSTOP), evaluator 0.",
    ]


def test_a_task_that_is_stopped_for_too_long_is_the_cause():
    job = Course(W0, W1)
    job.at(0, TaskEnded(W0, 0))
    job.at(1, TasksStopped((W1,)))
    assert job.at(STOPPED_SECS, TasksStopped((W1,))) == []
    assert job.at(STOPPED_SECS + 1, TasksStopped((W1,))) == [Send((W1,), signal.SIGKILL)]
    reason = f"worker 1 was stopped, by SIGSTOP, for {STOPPED_SECS:.0f} s."
    assert job.at(STOPPED_SECS + 2, TaskEnded(W1, -9)) == [CleanUp(), Blame(W1, -9, reason), Finish(137)]


def test_a_task_that_was_stopped_for_a_while_goes_on_and_is_mentioned_no_more():
    job = Course(W0)
    for now in range(0, 4000, 100):
        assert job.at(now, TasksStopped((W0,) if now < 400 else ())) == []
    assert set(job.said) == {"Waiting for worker 0 (stopped, by SIGSTOP)."}


def test_a_restarted_evaluator_is_not_blamed_for_the_stop_of_the_first():
    job = Course(W0, EV, restarts=1)
    job.at(0, TasksStopped((EV,)))
    job.at(STOPPED_SECS, TasksStopped((EV,)))
    job.at(STOPPED_SECS, TaskEnded(EV, -9))
    job.at(STOPPED_SECS + PAUSE_SECS)
    assert Blame(EV, 1) in job.at(STOPPED_SECS + 5, TaskEnded(EV, 1))


def test_who_does_not_end_in_time_is_killed():
    job = Course(W0, W1)
    job.at(1, TaskEnded(W1, 1))
    assert job.job.deadline == 1 + GRACE
    assert job.at(1 + GRACE - 0.1) == []
    assert job.at(1 + GRACE) == [Send((W0,), signal.SIGKILL)]
    assert job.job.deadline is None
    assert job.at(6, TaskEnded(W0, -signal.SIGKILL)) == [CleanUp(), Blame(W1, 1), Finish(1)]


def test_who_lost_a_peer_is_no_cause():
    job = Course(W0, W1, W2)
    assert job.at(1, TaskEnded(W0, EXIT_PEER_LOST)) == []
    assert job.at(1.5, TaskEnded(W1, -signal.SIGSEGV)) == [Send((W2,), signal.SIGTERM)]
    assert job.at(2, TaskEnded(W2, EXIT_PEER_LOST)) == [CleanUp(), Blame(W1, -signal.SIGSEGV), Finish(139)]
    assert job.said == ["worker 0 and worker 2 ended because of that."]


def test_the_lost_peer_has_a_moment_to_show_why_then_is_told_to_end():
    job = Course(W0, W1)
    assert job.at(1, TaskEnded(W0, EXIT_PEER_LOST)) == []
    assert job.job.deadline == 1 + SETTLE_SECS
    assert job.at(1 + SETTLE_SECS) == [Send((W1,), signal.SIGTERM)]
    assert job.at(1 + SETTLE_SECS + GRACE) == [Send((W1,), signal.SIGKILL)]
    assert job.at(9, TaskEnded(W1, -signal.SIGKILL)) == [
        CleanUp(),
        Blame(W0, EXIT_PEER_LOST),
        Finish(EXIT_PEER_LOST),
    ]


def test_a_cause_that_shows_only_after_sigterm_is_found():
    job = Course(W0, W1)
    job.at(1, TaskEnded(W0, EXIT_PEER_LOST))
    job.at(1 + SETTLE_SECS)
    assert job.at(5, TaskEnded(W1, 1)) == [CleanUp(), Blame(W1, 1), Finish(1)]


def test_cause_and_consequence_seen_at_once():
    job = Course(W0, W1)
    actions = job.at(1, TaskEnded(W0, EXIT_PEER_LOST), TaskEnded(W1, 2))
    assert actions == [CleanUp(), Blame(W1, 2), Finish(2)]


def test_tasks_that_a_signal_came_before_are_not_waited_for():
    job = Course(W0, W1, W2)
    (told,) = job.at(1, Received(signal.SIGTERM), NotStarted((W1, W2)))
    assert told == Send((W0,), signal.SIGTERM)
    assert job.at(2, TaskEnded(W0, -signal.SIGTERM)) == [CleanUp(), Finish(128 + signal.SIGTERM)]


def test_a_signal_before_any_task_is_the_end():
    job = Course(W0, W1)
    assert job.at(1, NotStarted((W0, W1)), Received(signal.SIGHUP)) == [
        CleanUp(),
        Finish(128 + signal.SIGHUP),
    ]


@pytest.mark.parametrize(
    ("number", "passed_on"),
    [
        (signal.SIGINT, signal.SIGINT),
        (signal.SIGTERM, signal.SIGTERM),
        (signal.SIGHUP, signal.SIGTERM),
    ],
)
def test_a_signal_is_passed_on_once_and_is_the_exit_code(number, passed_on):
    job = Course(W0, W1, restarts=5)
    assert job.at(1, Received(number)) == [Send((W0, W1), passed_on)]
    assert job.at(2, TaskEnded(W0, 0)) == []
    assert job.at(3, TaskEnded(W1, -passed_on)) == [CleanUp(), Finish(128 + number)]


def test_a_second_ctrl_c_kills_at_once():
    job = Course(W0, W1)
    job.at(1, Received(signal.SIGINT))
    assert job.at(1.1, Received(signal.SIGINT)) == []  # the same one
    assert job.at(2.1, Received(signal.SIGINT)) == [Send((W0, W1), signal.SIGKILL)]
    assert job.at(2.2, TaskEnded(W0, -9), TaskEnded(W1, -9)) == [CleanUp(), Finish(130)]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (-signal.SIGINT, "ended at SIGINT"),
        (130, "ended at SIGINT"),
        (0, "done"),
        (1, "exit code 1"),
        (-signal.SIGKILL, "killed by SIGKILL, by someone or because memory ran out"),
    ],
)
def test_a_task_that_was_told_to_end_was_not_killed(code, told):
    job = Course(W0, W1)
    job.at(1, Received(signal.SIGINT))
    assert job.job.describe_end(W1, code) == told


def test_a_task_that_muster_has_killed_was_not_killed_by_someone():
    job = Course(W0, W1)
    job.at(1, Received(signal.SIGINT))
    assert Send((W0, W1), signal.SIGKILL) in job.at(1 + GRACE)
    assert job.job.describe_end(W1, -signal.SIGKILL) == "killed by muster, as it did not end"


def test_a_repeated_sigterm_means_nothing_new():
    job = Course(W0)
    assert job.at(1, Received(signal.SIGTERM), Received(signal.SIGTERM)) == [Send((W0,), signal.SIGTERM)]
    assert job.at(1.1, Received(signal.SIGTERM)) == []
    assert job.job.deadline == 1 + GRACE


def test_a_task_that_fails_to_save_after_ctrl_c_is_told():
    job = Course(W0, W1)
    job.at(1, Received(signal.SIGINT))
    job.at(2, TaskEnded(W1, EXIT_PEER_LOST))
    assert job.at(3, TaskEnded(W0, 1)) == [CleanUp(), Blame(W0, 1), Finish(1)]


def test_losing_a_peer_that_ctrl_c_ended_is_no_failure():
    job = Course(W0, W1)
    job.at(1, Received(signal.SIGINT))
    job.at(2, TaskEnded(W0, -signal.SIGINT))
    assert job.at(3, TaskEnded(W1, EXIT_PEER_LOST))[-1] == Finish(130)


def test_the_whole_job_is_started_again_until_the_restarts_are_used_up():
    job = Course(W0, W1, restarts=1)
    job.at(1, TaskEnded(W1, -signal.SIGKILL))
    assert job.at(2, TaskEnded(W0, EXIT_PEER_LOST)) == [CleanUp(), Blame(W1, -signal.SIGKILL)]
    assert job.job.deadline == 2 + PAUSE_SECS
    assert job.at(2 + PAUSE_SECS / 2) == []
    assert job.at(2 + PAUSE_SECS) == [Start((W0, W1), 2)]
    assert any("restart 1 of 1" in text for text in job.said)
    job.at(4, TaskEnded(W1, 1))
    assert job.at(5, TaskEnded(W0, 0)) == [CleanUp(), Blame(W1, 1), Finish(1)]


def test_a_restarted_job_that_ends_well_has_ended_well():
    job = Course(W0, restarts=1)
    job.at(1, TaskEnded(W0, 1))
    job.at(1 + PAUSE_SECS)
    assert job.at(3, TaskEnded(W0, 0)) == [CleanUp(), Finish(0)]


def test_ctrl_c_while_a_restart_is_near_ends_the_job():
    job = Course(W0, restarts=1)
    job.at(1, TaskEnded(W0, 1))
    assert job.at(1.1, Received(signal.SIGINT)) == [Finish(130)]


def test_ctrl_c_while_a_failed_job_ends_forbids_the_restart_and_the_next_kills():
    job = Course(W0, W1, restarts=1)
    job.at(1, TaskEnded(W0, 1))
    assert job.at(1.1, Received(signal.SIGINT)) == []
    assert job.at(2.2, Received(signal.SIGINT)) == [Send((W1,), signal.SIGKILL)]
    assert job.at(2.3, TaskEnded(W1, -9)) == [CleanUp(), Blame(W0, 1), Finish(1)]


def test_an_evaluator_that_fails_does_not_end_training_but_the_job_has_failed():
    job = Course(W0, EV)
    assert job.at(1, TaskEnded(EV, 2)) == [Blame(EV, 2)]
    assert job.at(50, TaskEnded(W0, 0)) == [CleanUp(), Blame(EV, 2), Finish(2)]


def test_an_evaluator_is_started_again_alone():
    job = Course(W0, EV, restarts=1)
    assert job.at(1, TaskEnded(EV, 2)) == [Blame(EV, 2)]
    assert job.at(1 + PAUSE_SECS) == [Start((EV,), 1)]
    assert job.at(3, TaskEnded(EV, 2)) == [Blame(EV, 2)]
    assert job.at(4, TaskEnded(W0, 0)) == [CleanUp(), Blame(EV, 2), Finish(2)]


def test_an_evaluator_is_started_again_also_after_training():
    job = Course(W0, EV, restarts=1)
    job.at(1, TaskEnded(W0, 0))
    job.at(2, TaskEnded(EV, 2))
    assert job.at(2 + PAUSE_SECS) == [Start((EV,), 1)]
    assert job.at(4, TaskEnded(EV, 0)) == [CleanUp(), Finish(0)]


def test_ctrl_c_while_only_the_evaluators_restart_is_awaited():
    job = Course(W0, EV, restarts=1)
    job.at(1, TaskEnded(W0, 0))
    job.at(2, TaskEnded(EV, 2))
    assert job.at(2.1, Received(signal.SIGINT)) == [CleanUp(), Finish(130)]


def test_a_failed_training_task_is_blamed_before_an_evaluator_that_failed_earlier():
    job = Course(W0, W1, EV)
    job.at(1, TaskEnded(EV, 2))
    job.at(2, TaskEnded(W0, 3))
    assert job.at(3, TaskEnded(W1, 143)) == [CleanUp(), Blame(W0, 3), Finish(3)]


def test_an_evaluator_that_fails_when_training_has_is_not_started_again():
    job = Course(W0, W1, EV, restarts=1)
    assert job.at(1, TaskEnded(EV, 1), TaskEnded(W0, EXIT_PEER_LOST)) == []
    assert job.job.deadline == 1 + SETTLE_SECS
    assert job.at(2, TaskEnded(W1, 0)) == [CleanUp(), Blame(W0, EXIT_PEER_LOST)]
    assert job.at(2 + PAUSE_SECS) == [Start((W0, W1, EV), 2)]


@pytest.mark.parametrize("tasks", [(W0, W1, EV), (CHIEF, W0, PS0, PS1, EV)], ids=["workers", "servers"])
@pytest.mark.parametrize("seed", range(200))
def test_any_course_comes_to_an_end_and_never_acts_on_who_is_gone(seed, tasks):
    chance = random.Random(seed)
    job = Job(tasks, policy=LimitedRestarts(chance.randrange(3)), grace_secs=GRACE)
    running, killed, now, signalled = set(), set(), 0.0, False
    often = []  # what comes again and again
    actions = job.start()
    for _ in range(200):
        for action in actions:
            match action:
                case Start(started, _):
                    assert not running & set(started)
                    running |= set(started)
                    killed -= set(started)
                case Send(to, number):
                    assert set(to) <= running
                    if number == signal.SIGKILL:
                        killed |= set(to)
                case CleanUp():
                    assert not running
                case Finish(code):
                    assert not running
                    assert action is actions[-1]
                    assert signalled or code in (0, 1, 134, EXIT_PEER_LOST)
                    entries = [*replay(str(job.log), MACHINES["Job"])]
                    assert all(each.actions == each.then for each in entries)
                    return
        events = []
        for task in sorted(running, key=str):
            if task in killed:
                events.append(TaskEnded(task, -signal.SIGKILL))
            elif chance.random() < 0.2:
                codes = [0, 0, 1, EXIT_PEER_LOST, -signal.SIGABRT, -signal.SIGTERM, -signal.SIGINT]
                events.append(TaskEnded(task, chance.choice(codes[:5] if not signalled else codes)))
        running -= {event.task for event in events}
        if chance.random() < 0.02:
            events.append(Received(chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])))
            signalled = True
        deadline = job.deadline
        if not events and deadline is not None:
            assert deadline > now
            now = deadline
        else:
            now += chance.random()
        if seed % 4 == 0 and chance.random() < 0.2:
            some = tuple(sorted(running, key=str)[: chance.randrange(3)])
            often = [TasksStopped(some), Apart(some), Finishing(some)][: chance.randrange(4)]
        actions = job.handle([*events, *often], now)
    pytest.fail("the job never ends")


@pytest.mark.parametrize(
    ("code", "shell", "text"),
    [
        (0, 0, "exit code 0"),
        (7, 7, "exit code 7"),
        (175, 175, "exit code 175, which means that it has lost another task"),
        (-15, 143, "killed by SIGTERM"),
        (-9, 137, "killed by SIGKILL, by someone or because memory ran out"),
        (-40, 168, "killed by signal 40"),
    ],
)
def test_how_a_process_ended(code, shell, text):
    assert exit_code(code) == shell
    assert describe_end(code) == text


def test_tasks_that_do_not_join_each_other_are_told_once_which_line_to_add():
    job = Course(W0, W1, EV)
    assert job.at(1, Apart((W0, W1, EV))) == []
    assert job.at(JOIN_SECS, Apart((W0, W1, EV))) == []
    assert job.said == []
    job.at(1 + JOIN_SECS, Apart((W0, W1, EV)))
    job.at(90, Apart((W0, W1, EV)))
    assert len(job.said) == 1
    assert job.said[0].startswith("worker 0 and worker 1 have not joined each other in 30 s. If they train,")
    assert "strategy = muster.distribute.MultiWorkerMirroredStrategy()" in job.said[0]


def test_tasks_that_never_joined_are_named_at_the_end():
    job = Course(W0, W1)
    job.at(1, TaskEnded(W1, 0, joined=False))
    assert job.at(2, TaskEnded(W0, 0, joined=False)) == [CleanUp(), Finish(0)]
    assert job.said[0].startswith("worker 0 and worker 1 have ended without having joined each other.")


@pytest.mark.parametrize(
    ("tasks", "ends"),
    [
        (
            (W0, EV),
            [TaskEnded(W0, 0, joined=False), TaskEnded(EV, 0, joined=False)],
        ),  # one alone has nobody to join
        ((W0, W1), [TaskEnded(W0, 0), TaskEnded(W1, 0)]),
        (
            (W0, W1),
            [TaskEnded(W0, 0, joined=False), TaskEnded(W1, 3, joined=False)],
        ),  # it may have died before
    ],
)
def test_who_has_joined_or_could_not_is_told_nothing(tasks, ends):
    job = Course(*tasks)
    for each in ends:
        job.at(1, each)
    assert not [text for text in job.said if "joined" in text]


def test_with_parameter_servers_the_advice_is_another():
    job = Course(CHIEF, W0, PS0)
    job.at(0, Apart((CHIEF, W0, PS0)))
    job.at(JOIN_SECS, Apart((CHIEF, W0, PS0)))
    assert "train_and_evaluate" in job.said[0]


def evicted(task, code=143):
    told = Termination(task, f"{task} was told to end.")
    return TaskEnded(task, code, told, evicted=True)


@pytest.mark.parametrize(
    ("tasks", "options"),
    [
        ((W0, W1, EV), {}),
        ((CHIEF, W0, PS0), {}),
        ((W0, W1), {"elastic": True, "hosts_return": True}),
    ],
    ids=["in step", "served", "elastic"],
)
def test_when_all_places_are_taken_away_all_start_elsewhere_which_is_no_restart(tasks, options):
    job = Course(*tasks, restarts=1, **options)
    for attempt, now in ((2, 10), (3, 20)):
        first, *others = tasks
        assert job.at(now, evicted(first)) == [Send(tuple(others), signal.SIGTERM)]
        for task in others[:-1]:
            assert job.at(now + 1, evicted(task, -signal.SIGKILL)) == []
        blame = Blame(first, 143, f"{first} was told to end.")
        assert job.at(now + 2, evicted(others[-1])) == [CleanUp(), blame]
        assert job.said[-1] == "Starting the job again, elsewhere."
        assert job.at(now + 2 + PAUSE_SECS) == [Start(tasks, attempt)]
    job.at(30, TaskEnded(tasks[0], 3))
    assert "restart 1 of 1" in job.said[-1] or job.job.is_ending


def test_a_job_without_restarts_ends_with_its_places():
    job = Course(W0, W1)
    job.at(1, evicted(W0), evicted(W1))
    assert job.job.is_ending is False
    assert job.at(2) == []
    assert "again" not in " ".join(job.said)


def test_who_ends_well_while_places_are_taken_away_needs_no_other_place():
    job = Course(W0, W1, restarts=1)
    assert job.at(1, TaskEnded(W0, 0), TaskEnded(W1, 0)) == [CleanUp(), Finish(0)]
