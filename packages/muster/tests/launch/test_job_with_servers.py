"""The course of a job with parameter servers, without processes."""

import signal

import pytest
from course import CHIEF, EV, GRACE, PS0, PS1, W0, W1, Course

from muster.cluster.roster import EXIT_PEER_LOST, Termination
from muster.launch._events import (
    Blame,
    CleanUp,
    Coordinates,
    Finish,
    Finishing,
    Received,
    Send,
    Start,
    TaskEnded,
    TasksStopped,
)
from muster.launch._job import HEAR_SECS, SETTLE_SECS
from muster.launch._job_notices import QUIET_SECS, STOPPED_SECS
from muster.launch._restarts import PAUSE_SECS

KILLED = -signal.SIGKILL


def test_the_job_ends_well_when_the_chief_has_and_the_others_follow():
    job = Course(CHIEF, W0, PS0, EV)
    assert job.at(1, TaskEnded(W0, 0)) == []
    assert job.at(2, TaskEnded(CHIEF, 0)) == []
    assert job.at(3, TaskEnded(PS0, 0)) == []
    assert job.job.deadline is None
    assert job.at(500) == []  # the evaluator takes its time
    assert job.at(501, TaskEnded(EV, 0)) == [CleanUp(), Finish(0)]


@pytest.mark.parametrize("task", [CHIEF, W0, PS0, EV])
def test_what_has_failed_is_started_again_alone(task):
    job = Course(CHIEF, W0, PS0, PS1, EV, restarts=1)
    assert job.at(1, TaskEnded(task, KILLED)) == [Blame(task, KILLED)]
    assert job.job.deadline == 1 + PAUSE_SECS
    assert job.at(1.5) == []
    assert job.at(1 + PAUSE_SECS) == [Start((task,), 1)]
    assert job.said == [f"Starting {task} again, restart 1 of 1."]
    assert job.job.deadline is None
    for at, each in enumerate((W0, CHIEF, PS0, PS1)):
        assert job.at(3 + at, TaskEnded(each, 0)) == []
    assert job.at(9, TaskEnded(EV, 0)) == [CleanUp(), Finish(0)]


def test_tasks_that_fail_together_are_started_again_each():
    job = Course(CHIEF, W0, PS0, restarts=3)
    assert job.at(1, TaskEnded(W0, 1), TaskEnded(PS0, KILLED)) == [Blame(PS0, KILLED), Blame(W0, 1)]
    job.at(1.5, TaskEnded(CHIEF, 2))
    assert job.at(1 + PAUSE_SECS) == [Start((W0, PS0), 1)]
    assert job.at(1.5 + PAUSE_SECS) == [Start((CHIEF,), 1)]


def test_training_goes_on_without_a_worker_but_the_job_has_failed():
    job = Course(CHIEF, W0, W1, PS0)
    assert job.at(1, TaskEnded(W0, 3)) == [Blame(W0, 3)]
    assert job.at(2, TaskEnded(W1, KILLED)) == [Blame(W1, KILLED)]
    assert job.said == 2 * ["Training goes on without it; the job will count as failed."]
    assert job.at(8, TaskEnded(CHIEF, 0)) == []
    assert job.at(9, TaskEnded(PS0, 0)) == [CleanUp(), Blame(W0, 3), Finish(3)]


def test_a_coordinator_without_workers_ends_the_job():
    job = Course(CHIEF, W0, W1, PS0, restarts=1)
    job.at(1, TaskEnded(W0, 3))
    assert job.at(1.5, Coordinates()) == []
    job.at(1.6, TaskEnded(W1, 4))
    assert not job.job.lacks_workers  # one is started again
    assert job.at(1 + PAUSE_SECS + 0.1, Coordinates()) == [Start((W0,), 1)]
    job.at(5, TaskEnded(W0, KILLED))
    assert job.job.lacks_workers
    assert job.at(6, Coordinates()) == [Send((CHIEF, PS0), signal.SIGTERM)]
    assert job.said[-1] == "The coordinator has no worker left."
    assert job.at(7, TaskEnded(CHIEF, -signal.SIGTERM), TaskEnded(PS0, 143)) == [
        CleanUp(),
        Blame(W1, 4),
        Finish(4),
    ]


def test_a_chief_that_trains_needs_no_workers():
    job = Course(CHIEF, W0, PS0)
    job.at(1, TaskEnded(W0, 3))
    assert job.job.lacks_workers
    assert job.at(2, TaskEnded(CHIEF, 0)) == []
    assert not job.job.lacks_workers
    assert job.at(2.1, Coordinates()) == []


@pytest.mark.parametrize("task", [CHIEF, PS1])
def test_without_restarts_the_loss_of_the_chief_or_a_server_ends_the_job(task):
    job = Course(CHIEF, W0, PS0, PS1, EV)
    job.at(1, TaskEnded(W0, 5))
    others = tuple(each for each in (CHIEF, PS0, PS1, EV) if each != task)
    assert job.at(2, TaskEnded(task, KILLED)) == [Send(others, signal.SIGTERM)]
    for each in others[:-1]:
        job.at(3, TaskEnded(each, 143))
    assert job.at(4, TaskEnded(EV, 143)) == [CleanUp(), Blame(task, KILLED), Finish(137)]


@pytest.mark.parametrize("signalled", [False, True])
def test_who_cannot_make_a_step_without_a_server_is_not_waited_for(signalled):
    job = Course(CHIEF, W0, PS0, PS1, EV, restarts=int(signalled))
    job.at(1, TaskEnded(PS0, KILLED))
    if signalled:
        assert job.at(1, Received(signal.SIGTERM)) == [Send((CHIEF, W0, PS1, EV), signal.SIGTERM)]
    assert job.at(2, Finishing((CHIEF, W0, PS1, EV))) == []  # the evaluator needs no server
    assert job.job.deadline == 2 + GRACE
    assert job.at(3, TaskEnded(EV, 143), Finishing((CHIEF, W0, PS1))) == []
    assert job.at(2 + GRACE, Finishing((CHIEF, W0, PS1))) == [Send((CHIEF, W0, PS1), signal.SIGKILL)]


def test_a_chief_that_saves_is_waited_for_also_when_the_servers_have_gone():
    job = Course(CHIEF, PS0)
    job.at(0, Received(signal.SIGTERM))
    assert job.at(1, TaskEnded(PS0, 143), Finishing((CHIEF,))) == []
    assert job.at(2 * GRACE, Finishing((CHIEF,))) == []
    assert job.job.deadline == 3 * GRACE


def test_the_last_restart_that_is_awaited_is_not_made_when_the_job_ends():
    job = Course(CHIEF, W0, PS0, restarts=1)
    job.at(1, TaskEnded(W0, 1))
    assert job.at(1.5, TaskEnded(PS0, KILLED)) == [Send((CHIEF,), signal.SIGTERM)]
    assert job.at(1 + PAUSE_SECS) == []
    assert job.at(3, TaskEnded(CHIEF, 143)) == [CleanUp(), Blame(PS0, KILLED), Finish(137)]


def test_a_chief_that_could_not_do_without_a_server_is_no_cause():
    job = Course(CHIEF, W0, PS0)
    told = Termination(PS0, "chief 0 has waited for ps 0.")
    assert job.at(1, TaskEnded(CHIEF, EXIT_PEER_LOST, told)) == []
    assert job.job.deadline == 1 + SETTLE_SECS
    assert job.at(2, TaskEnded(PS0, 7)) == [Send((W0,), signal.SIGTERM)]
    assert job.at(3, TaskEnded(W0, 143)) == [CleanUp(), Blame(PS0, 7), Finish(7)]


def test_nobody_is_started_again_after_the_chief_has_ended():
    job = Course(CHIEF, W0, W1, PS0, restarts=2)
    job.at(1, TaskEnded(W0, KILLED))
    assert job.at(1.5, TaskEnded(CHIEF, 0)) == []
    assert job.at(1.6, TaskEnded(W1, KILLED)) == [Blame(W1, KILLED)]
    assert job.said[1:] == ["It is not started again, as the chief has ended the job."]
    assert job.at(9, TaskEnded(PS0, 0)) == [CleanUp(), Finish(0)]


def test_without_restarts_left_a_late_failure_counts_unless_it_is_a_consequence():
    job = Course(CHIEF, W0, W1, PS0)
    job.at(1, TaskEnded(CHIEF, 0))
    assert job.at(2, TaskEnded(W0, EXIT_PEER_LOST)) == []
    assert job.at(2, TaskEnded(W1, 9)) == [Blame(W1, 9)]
    assert job.at(3, TaskEnded(PS0, 0)) == [CleanUp(), Blame(W1, 9), Finish(9)]


def test_a_chief_that_ends_well_did_not_need_a_server_that_has_failed():
    job = Course(CHIEF, W0, PS0)
    job.at(1, TaskEnded(PS0, EXIT_PEER_LOST))
    assert job.at(2, TaskEnded(CHIEF, 0)) == []
    assert job.job.deadline == 2 + HEAR_SECS
    assert job.at(9, TaskEnded(W0, 0))[1:] == [Blame(PS0, EXIT_PEER_LOST), Finish(EXIT_PEER_LOST)]


def test_an_evaluator_is_started_again_also_after_training():
    job = Course(CHIEF, PS0, EV, restarts=1)
    job.at(1, TaskEnded(EV, 2))
    job.at(1.5, TaskEnded(CHIEF, 0), TaskEnded(PS0, 0))
    assert job.at(1 + PAUSE_SECS) == [Start((EV,), 1)]
    assert job.at(4, TaskEnded(EV, 0)) == [CleanUp(), Finish(0)]


def test_who_does_not_hear_that_the_chief_has_ended_is_told_to_end():
    job = Course(CHIEF, W0, PS0, EV)
    job.at(1, TaskEnded(CHIEF, 0))
    assert job.job.deadline == 1 + HEAR_SECS
    assert job.at(1 + HEAR_SECS) == [Send((W0, PS0), signal.SIGTERM)]
    assert job.at(2 + HEAR_SECS, TaskEnded(PS0, 143)) == []
    assert job.job.deadline == 1 + HEAR_SECS + GRACE
    assert job.at(1 + HEAR_SECS + GRACE) == [Send((W0,), signal.SIGKILL)]
    assert job.at(90, TaskEnded(W0, KILLED)) == []
    assert job.job.deadline is None
    assert job.at(91, TaskEnded(EV, 0)) == [CleanUp(), Finish(0)]


def test_servers_do_not_outlive_those_that_train_for_long():
    job = Course(CHIEF, W0, PS0)
    job.at(1, TaskEnded(CHIEF, 0))
    assert job.at(5, TaskEnded(W0, 0)) == []
    assert job.job.deadline == 5 + SETTLE_SECS
    assert job.at(5 + SETTLE_SECS) == [Send((PS0,), signal.SIGTERM)]
    assert job.at(9, TaskEnded(PS0, 143)) == [CleanUp(), Finish(0)]


def test_a_signal_while_the_others_follow_the_chief_ends_them_at_once():
    job = Course(CHIEF, W0, PS0, EV)
    job.at(1, TaskEnded(CHIEF, 0))
    assert job.at(2, Received(signal.SIGINT)) == [Send((W0, PS0, EV), signal.SIGINT)]
    assert job.job.deadline == 2 + GRACE
    assert job.at(3, TaskEnded(W0, 130), TaskEnded(PS0, 130), TaskEnded(EV, 130)) == [CleanUp(), Finish(130)]


def test_servers_get_their_time_when_the_last_task_has_ended_that_they_serve():
    job = Course(CHIEF, PS0, PS1)
    job.at(0, Received(signal.SIGTERM))
    assert job.at(3, TaskEnded(CHIEF, 143)) == []
    assert job.job.deadline == 3 + GRACE
    assert job.at(6, TaskEnded(PS0, 143)) == []
    assert job.job.deadline == 3 + GRACE
    assert job.at(3 + GRACE) == [Send((PS1,), signal.SIGKILL)]


def test_a_signal_ends_the_job_also_while_a_restart_is_near():
    job = Course(CHIEF, W0, PS0, restarts=3)
    job.at(1, TaskEnded(W0, 1))
    assert job.at(1.5, Received(signal.SIGTERM)) == [Send((CHIEF, PS0), signal.SIGTERM)]
    job.at(1 + PAUSE_SECS)
    assert job.at(3, TaskEnded(CHIEF, 143), TaskEnded(PS0, 143)) == [CleanUp(), Finish(143)]


def test_servers_that_wait_for_one_that_is_stopped_do_not_delay_the_end():
    job = Course(CHIEF, W0, PS0)
    job.at(0, Received(signal.SIGINT))
    assert job.at(1, Finishing((CHIEF, PS0))) == []
    assert job.job.deadline == 1 + GRACE
    assert job.at(2, TaskEnded(CHIEF, 130), Finishing((PS0,))) == []
    assert job.at(1 + GRACE, Finishing((PS0,))) == [Send((W0, PS0), signal.SIGKILL)]


def test_nobody_is_said_to_wait_for_a_worker_while_the_others_train():
    job = Course(CHIEF, W0, W1, PS0)
    job.at(0, TaskEnded(W0, 0))  # its input has ended
    assert job.at(10 * QUIET_SECS) == []
    assert job.said == []
    job.at(400, TasksStopped((W1,)))
    job.at(400 + QUIET_SECS, TasksStopped((W1,)))
    assert job.said == ["Waiting for worker 1 (stopped, by SIGSTOP)."]


def test_a_worker_that_is_stopped_for_too_long_is_started_again():
    job = Course(CHIEF, W0, PS0, restarts=1)
    job.at(1, TasksStopped((W0,)))
    assert job.at(1 + STOPPED_SECS, TasksStopped((W0,))) == [Send((W0,), signal.SIGKILL)]
    reason = f"worker 0 was stopped, by SIGSTOP, for {STOPPED_SECS:.0f} s."
    assert job.at(2 + STOPPED_SECS, TaskEnded(W0, KILLED)) == [Blame(W0, KILLED, reason)]
    assert job.at(2 + STOPPED_SECS + PAUSE_SECS) == [Start((W0,), 1)]


def lost(task, culprit, reason):
    return TaskEnded(task, EXIT_PEER_LOST, Termination(culprit, reason))


def ended(task, code, reason=""):
    return TaskEnded(task, code, Termination(task, reason) if reason else None)


GONE = "ps 0 at one:1 does not answer"
# What happens, in turn; whom the launcher names, and the reason that it gives; the exit code of the job.
NAMED = {
    "a server is killed": (
        [ended(PS0, KILLED), lost(CHIEF, PS0, GONE), lost(W0, PS0, GONE)],
        (PS0, ""),
        137,
    ),
    "a server fails": (
        [ended(PS0, 1, "ps 0 failed: MemoryError"), lost(CHIEF, PS0, "ps 0 failed: MemoryError")],
        (PS0, "ps 0 failed: MemoryError"),
        1,
    ),
    "a server is killed, and is seen to be gone later": (
        [lost(CHIEF, PS1, GONE), ended(PS1, KILLED)],
        (PS1, ""),
        137,
    ),
    "a server that lost another is no cause": ([lost(PS1, PS0, GONE), ended(PS0, KILLED)], (PS0, ""), 137),
    "a server ends its program in the ordinary way": (
        [ended(PS0, 0), lost(CHIEF, PS0, "ps 0 has ended its program in the ordinary way")],
        (PS0, "ps 0 has ended its program in the ordinary way"),
        EXIT_PEER_LOST,
    ),
    "a server is waited for in vain": (
        [ended(PS0, 0), TaskEnded(CHIEF, 1, Termination(PS0, "chief 0 has waited for ps 0"))],
        (PS0, "chief 0 has waited for ps 0"),
        1,
    ),
    "a server gets a signal": (
        [ended(PS0, 143, "ps 0 was told to end: it got SIGTERM."), lost(CHIEF, PS0, GONE)],
        (PS0, "ps 0 was told to end: it got SIGTERM."),
        143,
    ),
    "the coordinator is killed": (
        [ended(CHIEF, KILLED), lost(W0, CHIEF, "chief 0 has ended"), lost(PS0, CHIEF, "chief 0 has ended")],
        (CHIEF, ""),
        137,
    ),
    "the coordinator raises an error, and the others end well": (
        [ended(CHIEF, 1, "chief 0 failed: ValueError: no"), *(ended(task, 0) for task in (PS0, PS1, W0, W1))],
        (CHIEF, "chief 0 failed: ValueError: no"),
        1,
    ),
    "the coordinator exits by a code of its own": ([ended(CHIEF, 3)], (CHIEF, ""), 3),
    "no worker is left": (
        [ended(W0, KILLED), ended(W1, KILLED), TaskEnded(CHIEF, 1, Termination(W0, "no worker is left"))],
        (W0, "no worker is left"),
        1,
    ),
    "a worker fails, and training goes on to its end": (
        [ended(W0, 1, "worker 0 failed: ValueError"), *(ended(task, 0) for task in (CHIEF, W1, PS0, PS1))],
        (W0, "worker 0 failed: ValueError"),
        1,
    ),
}


@pytest.mark.parametrize("what", NAMED)
def test_who_is_named(what):
    events, (task, reason), code = NAMED[what]
    job, left, actions = Course(CHIEF, W0, W1, PS0, PS1), {CHIEF, W0, W1, PS0, PS1}, []
    for now, event in enumerate(events):
        left.discard(event.task)
        actions += job.at(now, event)
    for now in range(len(events), 200):
        told = [
            each for action in actions if isinstance(action, Send) for each in action.tasks if each in left
        ]
        left -= {*told}
        actions += job.at(now, *(TaskEnded(each, 143) for each in told))
        if actions and isinstance(actions[-1], Finish):
            break
    named = [action for action in actions if isinstance(action, Blame)][-1]
    assert (named.task, named.reason) == (task, reason)
    assert actions[-1] == Finish(code)


@pytest.mark.parametrize("task", [CHIEF, W0, PS0])
def test_all_start_again_if_the_host_of_a_task_is_lost(task):
    job = Course(CHIEF, W0, PS0, EV, restarts=2)
    others = tuple(each for each in (CHIEF, W0, PS0, EV) if each != task)
    told = Termination(task, "its host is gone")
    assert job.at(1, TaskEnded(task, 255, told, lost=True)) == [Send(others, signal.SIGTERM)]
    ended = [TaskEnded(each, -signal.SIGTERM) for each in others]
    assert job.at(2, *ended) == [CleanUp(), Blame(task, 255, "its host is gone")]
    assert job.said == ["Starting the job again, restart 1 of 2."]  # which counts once
    assert job.at(2 + PAUSE_SECS) == [Start((CHIEF, W0, PS0, EV), 2)]
    assert job.at(9, TaskEnded(W0, 3)) == [Blame(W0, 3)]
    assert job.said[-1] == "Starting worker 0 again, restart 2 of 2."


def test_a_host_that_is_lost_without_restarts_is_a_failure_like_any_other():
    job = Course(CHIEF, W0, PS0)
    assert job.at(1, TaskEnded(W0, 255, lost=True)) == [Blame(W0, 255)]
    assert job.said == ["Training goes on without it; the job will count as failed."]
    assert job.at(2, TaskEnded(PS0, 255, lost=True)) == [Send((CHIEF,), signal.SIGTERM)]
    assert job.at(3, TaskEnded(CHIEF, 143)) == [CleanUp(), Blame(PS0, 255), Finish(255)]


@pytest.mark.parametrize("servers", [(PS0,), ()])
def test_training_goes_on_if_the_host_of_the_evaluator_is_lost(servers):
    job = Course(CHIEF, W0, *servers, EV, restarts=1)
    assert job.at(1, TaskEnded(EV, 255, lost=True)) == [Blame(EV, 255)]
    assert job.said == ["Training goes on without it; the job will count as failed."]
    assert job.at(9) == []


def test_a_signal_while_all_are_ended_for_a_lost_host_ends_the_job():
    job = Course(CHIEF, W0, PS0, restarts=1)
    job.at(1, TaskEnded(W0, 255, lost=True))
    job.at(1.5, Received(signal.SIGTERM))
    actions = job.at(2, TaskEnded(CHIEF, 143), TaskEnded(PS0, 143))
    assert actions[-1] == Finish(255)
