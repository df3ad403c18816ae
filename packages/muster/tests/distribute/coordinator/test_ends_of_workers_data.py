"""Workers' own data, of different lengths: all of it is used, and a pass ends in one way."""

import concurrent.futures
import itertools
from types import SimpleNamespace

import pytest

from muster._errors import OutOfRangeError
from muster.distribute.coordinator._batch_lease import BatchLease
from muster.distribute.coordinator._remote_value import RemoteValue
from muster.distribute.coordinator._schedule import Closure, ClosureEnded, Schedule


def end_of_data():
    return OutOfRangeError("End of sequence: this worker has no batch left.")


class Workers:
    """Workers with so many batches each, of one iterator, that run what a schedule gives them, by turns."""

    def __init__(self, *batches, late=()):
        self.schedule = Schedule(workers=range(len(batches)))
        self.left = dict(enumerate(batches))
        self.taken = []
        for worker in self.left.keys() - set(late):
            self.schedule.meet(worker)

    def put(self, count, iterator=7):
        made = []
        for _ in range(count):
            value = RemoteValue(self.schedule.ended, lambda: None)
            iterators = (SimpleNamespace(number=iterator),)
            made.append(Closure(SimpleNamespace(secs=1.0), [[]], iterators, value, BatchLease(())))
            self.schedule.put(made[-1])
        return [each.value for each in made]

    def turn(self, worker):
        """Run the next closure of a worker, if there is one for it."""
        for task in self.schedule.take(worker, 0.0):
            if self.left[worker]:
                self.left[worker] -= 1
                self.taken.append(worker)
                self.schedule.end(worker, [ClosureEnded(task.number, lambda arrays: None, ())])
            else:
                self.schedule.fail(worker, task.number, end_of_data())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("greedy", [False, True])
def test_all_data_is_used_in_whatever_order(order, greedy):
    workers = Workers(1, 4, 2)
    values = workers.put(9)
    for worker in [each for each in order for _ in range(9)] if greedy else [*order] * 9:
        workers.turn(worker)
    assert sorted(workers.taken) == [0, 1, 1, 1, 1, 2, 2]
    assert all(value.status.name == "READY" for value in values[:7])
    with pytest.raises(OutOfRangeError):
        workers.schedule.join()
    for value in values[7:]:
        with pytest.raises(OutOfRangeError):
            value.fetch()
    assert workers.schedule.done()


def test_what_needs_other_data_goes_on():
    workers = Workers(0, 1)
    workers.put(1)
    workers.turn(0)  # it has none
    workers.put(1, iterator=8)
    workers.left[0] = 1
    workers.turn(0)
    assert workers.taken == [0]
    workers.turn(1)
    workers.schedule.join()
    assert workers.taken == [0, 1]


def test_a_worker_that_has_yet_to_come_is_waited_for():
    workers = Workers(1, 1, late=[1])
    workers.put(2)
    workers.turn(0), workers.turn(0)
    assert not workers.schedule.done()
    workers.schedule.meet(1)
    workers.turn(1)
    workers.schedule.join()
    assert workers.taken == [0, 1]


def test_a_worker_that_is_lost_is_not():
    workers = Workers(1, 1)
    workers.put(2)
    workers.turn(0), workers.turn(0)
    workers.schedule.lose(1)
    with pytest.raises(OutOfRangeError, match="no worker has a batch left"):
        workers.schedule.join()


def test_what_runs_past_the_end_when_the_error_is_raised_ends_with_it_too():
    """It is stopped, with all others; which of two closures is the first to find no batch is chance."""
    workers = Workers(0, 0)
    first, second, third = workers.put(3)
    schedule = workers.schedule
    (of_first,), (of_second,) = schedule.take(0, 0.0), schedule.take(1, 0.0)
    schedule.fail(0, of_first.number, end_of_data())  # so the first waits for the other worker
    (again,) = schedule.take(1, 0.0)
    schedule.fail(1, again.number, end_of_data())
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        raised = thread.submit(schedule.join)
        while not schedule.stopping:
            assert not raised.done()
        schedule.stop(1, of_second.number)
        with pytest.raises(OutOfRangeError):
            raised.result(10)
    for value in (first, second, third):
        with pytest.raises(OutOfRangeError):
            value.fetch()


def test_a_new_pass_is_another_iterator():
    workers = Workers(1, 0)
    workers.put(2)
    for worker in (0, 0, 1, 1):
        workers.turn(worker)
    with pytest.raises(OutOfRangeError):
        workers.schedule.join()
    workers.left = {0: 1, 1: 1}
    workers.put(2, iterator=8)
    workers.turn(0), workers.turn(1)
    workers.schedule.join()
    assert sorted(workers.taken) == [0, 0, 1]
