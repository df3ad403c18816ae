"""Closures that a worker is given before it has ended others."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from clusters import Strategy, cluster_of, coordinated, coordinator_of, start_worker
from gates import GATES, Gate, gated

from muster import CancelledError, function
from muster.data import Dataset
from muster.distribute.coordinator import _schedule
from muster.distribute.coordinator._batch_lease import BatchLease
from muster.distribute.coordinator._remote_value import RemoteValue
from muster.distribute.coordinator._schedule import Closure, ClosureEnded, Schedule


def closure(schedule, secs):
    """A closure that takes some time on a worker."""
    value = RemoteValue(schedule.ended, lambda: None)
    return Closure(SimpleNamespace(secs=secs), [[]], (), value, BatchLease(()))


def numbers(tasks):
    return [task.number for task in tasks]


@pytest.fixture
def schedule():
    made = Schedule()
    made.meet(0)
    return made


def test_a_worker_is_given_as_many_as_it_runs_in_a_short_time(schedule, monkeypatch):
    monkeypatch.setattr(_schedule, "_AHEAD_SECS", 0.02)
    for _ in range(5):
        schedule.put(closure(schedule, 0.008))
    assert numbers(schedule.take(0, None)) == [1, 2, 3]
    assert numbers(schedule.take(0, 0.019)) == [4]
    assert schedule.take(0, 0.02) == []


def test_a_worker_is_given_no_more_than_its_share(schedule):
    schedule.meet(1)
    for _ in range(6):
        schedule.put(closure(schedule, 0.0))
    assert numbers(schedule.take(0, None)) == [1, 2, 3]
    assert numbers(schedule.take(1, None)) == [4]


def test_no_worker_is_given_more_than_one_frame_of_them(schedule, monkeypatch):
    monkeypatch.setattr(_schedule, "_AHEAD", 4)
    for _ in range(10):
        schedule.put(closure(schedule, 0.0))
    assert len(schedule.take(0, None)) == 4


def test_nothing_waits_behind_a_closure_of_which_nobody_knows_how_long_it_takes(schedule):
    schedule.put(closure(schedule, math.inf))
    schedule.put(closure(schedule, 0.0))
    assert numbers(schedule.take(0, None)) == [1]
    assert schedule.take(0, math.inf) == []
    schedule.end(0, [ClosureEnded(1, lambda arrays: None, ())])
    assert numbers(schedule.take(0, None)) == [2]


def test_under_max_staleness_nothing_is_given_ahead():
    schedule = Schedule(max_staleness=3)
    schedule.meet(0)
    for _ in range(3):
        schedule.put(closure(schedule, 0.0))
    assert numbers(schedule.take(0, None)) == [1]
    assert schedule.take(0, 0.0) == []


@function
def quick(number):
    return number + 1


@function
def drawn(iterator):
    return next(iterator)


def seem_quick(coordinator):
    """Let a coordinator think that the functions which it has scheduled were quick before."""
    for each in (drawn, quick):
        (kind,) = coordinator._kinds[each].values()
        kind.secs = 0.0


def test_what_was_given_ahead_is_cancelled_while_the_worker_waits_for_data():
    GATES[1] = Gate()
    cluster = cluster_of(1)
    with coordinator_of(Strategy(cluster)) as coordinator:
        values = iter(coordinator.create_per_worker_dataset(lambda: gated(1)))
        held = coordinator.schedule(drawn, args=(values,))
        ahead = [coordinator.schedule(quick, args=(np.int32(n),)) for n in range(10)]
        seem_quick(coordinator)
        with start_worker(cluster, 0):
            assert GATES[1].reached.wait(60)
            assert coordinator.closures._queue._running == {0: list(range(1, 12))}
            coordinator.closures.cancel()
            for each in [held, *ahead]:
                with pytest.raises(CancelledError):
                    each.fetch()
            GATES[1].released.set()
            assert coordinator.schedule(quick, args=(np.int32(6),)).fetch() == 7
            assert coordinator.schedule(drawn, args=(values,)).fetch() == 1


def test_others_run_what_waits_behind_a_closure_that_takes_longer_than_expected():
    GATES[2] = Gate()
    cluster = cluster_of(2)
    with coordinator_of(Strategy(cluster)) as coordinator:
        values = iter(coordinator.create_per_worker_dataset(lambda: gated(2)))
        held = coordinator.schedule(drawn, args=(values,))
        behind = [coordinator.schedule(quick, args=(np.int32(n),)) for n in range(10)]
        seem_quick(coordinator)
        with start_worker(cluster, 0):
            assert GATES[2].reached.wait(60)
            assert coordinator.closures._queue._running == {0: list(range(1, 12))}
            with start_worker(cluster, 1):
                assert coordinator.fetch(behind) == list(range(1, 11))
                assert coordinator.closures._queue._running == {0: [1]}
                GATES[2].released.set()
                assert held.fetch() == 2


def test_thousands_of_quick_closures_give_each_its_own_result():
    with coordinated(workers=2) as coordinator:
        results = [coordinator.schedule(quick, args=(np.int32(n),)) for n in range(3000)]
        assert coordinator.fetch(results) == list(range(1, 3001))


def test_an_error_among_closures_given_ahead_is_raised_once_and_the_others_end():
    def few():
        return Dataset.range(5)

    with coordinated(workers=1) as coordinator:
        values = iter(coordinator.create_per_worker_dataset(few))
        results = [coordinator.schedule(drawn, args=(values,)) for _ in range(5)]
        assert sorted(coordinator.fetch(results)) == list(range(5))
        ends = coordinator.schedule(drawn, args=(values,))
        with pytest.raises(Exception, match="End of sequence"):
            ends.fetch()
        with pytest.raises(Exception, match="End of sequence"):
            coordinator.join()
        assert coordinator.schedule(quick, args=(np.int32(1),)).fetch() == 2
