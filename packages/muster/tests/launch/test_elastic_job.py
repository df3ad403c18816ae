"""The course of a job whose workers come and go, without processes."""

import signal

from course import EV, W0, W1, W2, Course

from muster.cluster.roster import EXIT_PEER_LOST
from muster.engines import EXIT_LOST
from muster.launch._events import (
    Blame,
    CleanUp,
    Finish,
    Received,
    Returned,
    Scaled,
    Send,
    Start,
    TaskEnded,
)  # fmt: skip
from muster.launch._job import FAILED_FINISH_SECS
from muster.launch._restarts import PAUSE_SECS


def test_a_worker_that_is_killed_is_started_again_alone():
    job = Course(W0, W1, restarts=1, elastic=True)
    assert job.at(1, TaskEnded(W0, -signal.SIGKILL)) == [Blame(W0, -signal.SIGKILL)]
    assert job.at(1 + PAUSE_SECS) == [Start((W0,), 1)]
    assert job.at(9, TaskEnded(W1, 0)) == []
    assert job.at(10, TaskEnded(W0, 0)) == [CleanUp(), Finish(0)]


def test_without_restarts_the_others_go_on_and_the_job_succeeds():
    job = Course(W0, W1, W2, elastic=True)
    assert job.at(1, TaskEnded(W1, -signal.SIGKILL)) == [Blame(W1, -signal.SIGKILL)]
    assert job.said[-1] == "Training goes on without it."
    assert job.at(2, TaskEnded(W0, 143)) == [Blame(W0, 143)]
    assert job.at(9, TaskEnded(W2, 0)) == [CleanUp(), Finish(0)]


def test_a_worker_that_others_have_left_out_comes_again():
    job = Course(W0, W1, restarts=3, elastic=True)
    assert job.at(1, TaskEnded(W1, EXIT_PEER_LOST)) == [Blame(W1, EXIT_PEER_LOST)]
    assert job.at(1 + PAUSE_SECS) == [Start((W1,), 1)]


def test_when_one_has_ended_well_no_other_is_started_again():
    job = Course(W0, W1, restarts=3, elastic=True)
    assert job.at(1, TaskEnded(W0, 0)) == []
    assert job.at(2, TaskEnded(W1, 1)) == [CleanUp(), Finish(0)]


def test_a_worker_that_was_to_start_again_does_not_when_another_has_ended_well():
    job = Course(W0, W1, restarts=3, elastic=True)
    job.at(1, TaskEnded(W1, 1))
    assert job.at(1.5, TaskEnded(W0, 0)) == [CleanUp(), Finish(0)]


def test_without_any_worker_left_the_job_fails_and_starts_anew_with_restarts_left():
    job = Course(W0, W1, EV, elastic=True)
    job.at(1, TaskEnded(W0, 3))
    actions = job.at(2, TaskEnded(W1, -signal.SIGKILL))
    assert actions == [Blame(W1, -signal.SIGKILL), Send((EV,), signal.SIGTERM)]
    assert "No worker is left." in job.said
    actions = job.at(3, TaskEnded(EV, 143))
    assert actions == [CleanUp(), Blame(W0, 3), Finish(3)]


def test_the_last_worker_is_started_again_alone_while_restarts_are_left():
    job = Course(W0, W1, restarts=2, elastic=True)
    job.at(1, TaskEnded(W0, -signal.SIGKILL))
    job.at(1.1, TaskEnded(W1, -signal.SIGKILL))
    assert job.at(1.1 + PAUSE_SECS) == [Start((W0, W1), 1)]


def test_ctrl_c_ends_all():
    job = Course(W0, W1, restarts=2, elastic=True)
    assert job.at(1, Received(signal.SIGINT)) == [Send((W0, W1), signal.SIGINT)]
    job.at(2, TaskEnded(W0, 130))
    assert job.at(2, TaskEnded(W1, 130)) == [CleanUp(), Finish(130)]


def test_a_job_that_is_scaled_down_ends_its_last_workers_and_starts_them_again_when_scaled_up():
    job = Course(W0, W1, W2, EV, restarts=1, elastic=True)
    assert job.at(1, Scaled(1)) == [Send((W1, W2), signal.SIGTERM)]
    assert job.said[-1] == "The job is to have 1 of 3 workers. Ending worker 1 and worker 2."
    assert job.at(2, TaskEnded(W1, 143)) == []
    assert job.job.describe_end(W1, 143) == "ended at SIGTERM"
    assert job.at(3, Scaled(3)) == [Start((W1,), 1)]
    assert job.at(4, TaskEnded(W2, 143)) == [Start((W2,), 1)]  # which was still ending
    assert job.at(5, TaskEnded(W2, -signal.SIGKILL)) == [Blame(W2, -signal.SIGKILL)]
    assert job.at(5 + PAUSE_SECS) == [Start((W2,), 1)]


def test_one_that_does_not_leave_a_smaller_job_is_killed():
    job = Course(W0, W1, elastic=True)
    job.at(1, Scaled(1))
    assert job.job.deadline == 1 + FAILED_FINISH_SECS
    assert job.at(1 + FAILED_FINISH_SECS) == [Send((W1,), signal.SIGKILL)]
    assert job.at(70, TaskEnded(W1, -signal.SIGKILL)) == []
    assert job.at(80, Scaled(1)) == []
    assert job.at(90, TaskEnded(W0, 0)) == [CleanUp(), Finish(0)]


def test_a_smaller_job_starts_again_only_whom_it_has():
    job = Course(W0, W1, restarts=3, elastic=True)
    job.at(1, TaskEnded(W1, -signal.SIGKILL))
    job.at(1.1, Scaled(1))
    assert job.at(1 + PAUSE_SECS) == []
    job.at(5, TaskEnded(W0, -signal.SIGKILL))
    assert job.at(5 + PAUSE_SECS) == [Start((W0,), 1)]


def test_a_job_that_ends_is_not_scaled():
    job = Course(W0, W1, W2, elastic=True)
    job.at(1, Scaled(2))
    job.at(2, TaskEnded(W0, 0))
    assert job.at(3, Scaled(3)) == []
    assert job.at(4, TaskEnded(W1, 0)) == []
    assert job.at(5, TaskEnded(W2, 143)) == [CleanUp(), Finish(0)]


def lost(task):
    return TaskEnded(task, EXIT_LOST, lost=True)


def test_a_worker_whose_host_is_lost_is_started_again_when_that_is_back():
    job = Course(W0, W1, restarts=1, elastic=True, hosts_return=True)
    assert job.at(1, lost(W1)) == [Blame(W1, EXIT_LOST)]
    assert job.said[-1] == "worker 1 is started again when its host is back, restart 1 of 1."
    assert job.at(600) == []
    assert job.at(601, Returned((W1,))) == [Start((W1,), 1)]
    assert job.at(602, TaskEnded(W1, 0)) == []
    assert job.at(603, TaskEnded(W0, 0)) == [CleanUp(), Finish(0)]


def test_without_restarts_it_is_not_started_again_and_the_others_go_on():
    job = Course(W0, W1, elastic=True, hosts_return=True)
    assert job.at(1, lost(W1)) == [Blame(W1, EXIT_LOST)]
    assert job.said[-1] == "Training goes on without it."
    assert job.at(2, Returned((W1,))) == []
    assert job.at(3, TaskEnded(W0, 0)) == [CleanUp(), Finish(0)]


def test_the_job_does_not_wait_for_a_host_when_training_is_done():
    job = Course(W0, W1, restarts=1, elastic=True, hosts_return=True)
    job.at(1, lost(W1))
    assert job.at(2, TaskEnded(W0, 0)) == [CleanUp(), Finish(0)]


def test_when_the_hosts_of_all_workers_are_lost_the_job_starts_again_on_others():
    job = Course(W0, W1, EV, restarts=3, elastic=True, hosts_return=True)
    job.at(1, lost(W1))
    assert job.at(2, lost(W0)) == [Blame(W0, EXIT_LOST), Send((EV,), signal.SIGTERM)]
    assert job.at(3, TaskEnded(EV, 143)) == [CleanUp(), Blame(W1, EXIT_LOST)]
    assert job.at(3 + PAUSE_SECS) == [Start((W0, W1, EV), 2)]


def test_a_worker_that_is_away_is_not_started_by_scaling_the_job_until_its_host_is_back():
    job = Course(W0, W1, W2, elastic=True, hosts_return=True)
    job.at(1, lost(W1))
    assert job.at(2, Scaled(1)) == [Send((W2,), signal.SIGTERM)]
    job.at(3, TaskEnded(W2, 143))
    assert job.at(4, Scaled(3)) == [Start((W2,), 1)]
    assert job.at(5, Returned((W1,))) == [Start((W1,), 1)]


def test_one_whose_host_is_lost_while_it_leaves_a_smaller_job_comes_back_with_it():
    job = Course(W0, W1, elastic=True, hosts_return=True)
    job.at(1, Scaled(1))
    job.at(2, Scaled(2))
    assert job.at(3, lost(W1)) == []
    assert job.at(4, Returned((W1,))) == [Start((W1,), 1)]


def test_a_signal_ends_the_wait_for_a_host():
    job = Course(W0, W1, restarts=1, elastic=True, hosts_return=True)
    job.at(1, lost(W1))
    assert job.at(2, Received(signal.SIGTERM)) == [Send((W0,), signal.SIGTERM)]
    assert job.at(3, Returned((W1,))) == []
    assert job.at(4, TaskEnded(W0, 143)) == [CleanUp(), Finish(143)]


def test_an_evaluator_comes_back_with_its_host():
    job = Course(W0, EV, restarts=1, elastic=True, hosts_return=True)
    assert job.at(1, lost(EV)) == [Blame(EV, EXIT_LOST)]
    assert job.at(2, Returned((EV,))) == [Start((EV,), 1)]
    job.at(3, TaskEnded(W0, 0))
    assert job.at(4, TaskEnded(EV, 0)) == [CleanUp(), Finish(0)]


def test_where_hosts_do_not_return_the_job_starts_again_on_others():
    job = Course(W0, W1, restarts=1, elastic=True)
    assert job.at(1, lost(W1)) == [Send((W0,), signal.SIGTERM)]
    assert job.at(2, TaskEnded(W0, 143)) == [CleanUp(), Blame(W1, EXIT_LOST)]
    assert job.at(2 + PAUSE_SECS) == [Start((W0, W1), 2)]
