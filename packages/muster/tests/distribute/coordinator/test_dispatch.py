"""Passes that workers share: each batch is drawn by one closure. Workers are threads of this process."""

import json
import threading

import numpy as np
import pytest
from clusters import Strategy, cluster_of, coordinated, coordinator_of, start_worker
from memory_servers import MemoryServers

from muster._errors import CancelledError, DatasetError, OutOfRangeError
from muster._keras import keras
from muster.data import Dataset, Options
from muster.distribute import function
from muster.distribute.closures import _session
from muster.distribute.coordinator._pickling import pickled
from muster.ps import Numbers

COUNT, SIZE = 50, 4  # 12 batches, and one of 2


def from_arrays():
    return Dataset.range(COUNT).shuffle(COUNT).batch(SIZE)


def of_unknown_length():
    return Dataset.range(2 * COUNT).filter(lambda x: x < COUNT).shuffle(10).batch(SIZE)


def test_numbers_that_come_back_go_first_and_all_are_handed_out():
    def few(number):
        return number < 4

    numbers = Numbers()
    assert [numbers.take(who, few) for who in "aba"] == [0, 1, 2]
    assert (numbers.left(9, few), numbers.open, numbers.held("a")) == (1, (0, 1, 2), [0, 2])
    numbers.give_back("a")
    numbers.use("b", 1)
    assert (numbers.left(9, few), numbers.left(2, few), numbers.open) == (3, 2, (0, 2))
    again = Numbers(numbers.next, numbers.returned)
    for each in (numbers, again):
        assert [each.take(who, few) for who in "cccc"] == [0, 2, 3, None]
        each.use("c", 2)
        each.give_back("c")
        assert [each.take(who, few) for who in "dd"] == [3, None]


class Counts:
    """Counts on servers how often each example was visited."""

    def __init__(self, servers, strategy=None):
        self.servers = servers
        self.seen = servers.add(keras.Variable(np.zeros(COUNT, np.float32), name="seen"))

        @function
        def visit(it):
            ids = next(it)
            self.seen.assign_add(keras.ops.sum(keras.ops.one_hot(ids, COUNT), 0))
            return ids

        self.visit = visit

    @property
    def values(self):
        return self.servers.value(self.seen).tolist()


def epoch(coordinator, step, it):
    """Schedule a step for each batch of a pass; return their results."""
    values = []
    try:
        while True:
            values.append(coordinator.schedule(step, args=(it,)))
    except OutOfRangeError:
        coordinator.join()
    return coordinator.fetch(values)


@pytest.mark.parametrize("make", [from_arrays, of_unknown_length], ids=["known", "unknown"])
def test_workers_share_each_pass(make):
    servers = MemoryServers()
    counts = Counts(servers)
    with coordinated(workers=2, storage=servers) as coordinator:
        dataset = coordinator.create_per_worker_dataset(make, dispatch="dynamic")
        passes = [epoch(coordinator, counts.visit, iter(dataset)) for _ in range(2)]
    assert counts.values == [2.0] * COUNT
    orders = [np.concatenate(batches).tolist() for batches in passes]
    assert orders[0] != orders[1]
    assert [len(batch) for batch in passes[0]] == [SIZE] * 12 + [2]


def test_the_options_of_a_dataset_say_so_too():
    options = Options()
    options.experimental_distribute.dispatch = "dynamic"
    take = function(lambda it: next(it))
    with coordinated(workers=2) as coordinator:
        dataset = coordinator.create_per_worker_dataset(Dataset.range(5).with_options(options))
        assert epoch(coordinator, take, iter(dataset)) == [0, 1, 2, 3, 4]
        with pytest.raises(ValueError, match="dispatch is \"dynamic\".* got 'static'"):
            coordinator.create_per_worker_dataset(Dataset.range(5), dispatch="static")


def test_a_closure_that_runs_again_draws_the_same_batch():
    servers, cluster = MemoryServers(), cluster_of(2, 1)
    counts, drawn, lost = Counts(servers), [], []
    workers = [start_worker(cluster, index, servers) for index in range(2)]
    run = _session.ClosureSession.run

    def run_and_lose(self, asked, arrays, wait):
        drawn.append((asked.closure, asked.numbers))
        answer = run(self, asked, arrays, wait)
        if asked.closure in (3, 7) and asked.closure not in lost:
            lost.append(asked.closure)
            raise ConnectionResetError("the worker is killed here")
        return answer

    _session.ClosureSession.run = run_and_lose
    try:
        with coordinator_of(Strategy(cluster, servers)) as coordinator:
            dataset = coordinator.create_per_worker_dataset(from_arrays, dispatch="dynamic")
            epoch(coordinator, counts.visit, iter(dataset))
    finally:
        _session.ClosureSession.run = run
        for worker in workers:
            worker.close()
    assert sorted(lost) == [3, 7]
    assert all(numbers == (closure - 1,) for closure, numbers in drawn)
    assert [closure for closure, _ in drawn].count(7) > 1
    assert counts.values == [1.0] * COUNT


def test_batches_of_closures_that_were_cancelled_or_failed_come_next():
    broken = threading.Event()
    broken.set()

    def one():
        def element(x):
            if int(x) == 2 and broken.is_set():
                raise KeyError("a column")
            return np.int32(x)

        numbers = Dataset.from_generator(lambda: iter(range(60)), output_types=np.int32, output_shapes=())
        return numbers.map(element)

    take = function(lambda it: next(it))
    with coordinated(workers=1) as coordinator:
        dataset = coordinator.create_per_worker_dataset(lambda: Dataset.range(1), dispatch="dynamic")
        local = one()
        dataset.sample, dataset.pickled = local, pickled(_here(local))
        it = iter(dataset)
        values = []

        def schedule_all():
            for _ in range(50):
                values.append(coordinator.schedule(take, args=(it,)))
            coordinator.join()

        with pytest.raises(KeyError, match="a column"):
            schedule_all()
        left = []
        for number, value in enumerate(values):
            try:
                assert value.fetch() == number
            except (KeyError, CancelledError):
                left.append(number)
        assert left[0] == 2
        assert it.position["open"] == left
        broken.clear()
        assert epoch(coordinator, take, it) == [*left, *range(len(values), 60)]


_DATASETS = []


def _here(dataset):
    """What makes a dataset of this process, in workers that are threads of it."""
    _DATASETS.append(dataset)
    return _last


def _last():
    return _DATASETS[-1]


def test_a_function_that_takes_two_leaves_one_that_is_left():
    pair = function(lambda it: (next(it), next(it)))
    take = function(lambda it: next(it))
    with coordinated(workers=2) as coordinator:
        it = iter(coordinator.create_per_worker_dataset(Dataset.range(5), dispatch="dynamic"))
        values = [coordinator.schedule(pair, args=(it,)) for _ in range(2)]
        with pytest.raises(OutOfRangeError, match="more batches than the 1 that are left"):
            coordinator.schedule(pair, args=(it,))
        last = coordinator.schedule(take, args=(it,))
        with pytest.raises(OutOfRangeError, match="all batches of this pass are handed out"):
            coordinator.schedule(take, args=(it,))
        assert coordinator.fetch(values) == [(0, 1), (2, 3)]
        assert last.fetch() == 4


def test_a_function_may_ask_whether_there_is_more():
    @function
    def sum_of_two(it):
        first = it.get_next_as_optional()
        if not first.has_value():
            return -1
        second = it.get_next_as_optional()
        return first.get_value() + (second.get_value() if second.has_value() else 100)

    with coordinated(workers=2) as coordinator:
        dataset = coordinator.create_per_worker_dataset(Dataset.range(5), dispatch="dynamic")
        for _ in range(2):
            it = iter(dataset)
            values = [coordinator.schedule(sum_of_two, args=(it,)) for _ in range(4)]
            assert coordinator.fetch(values) == [1, 5, 104, -1]


def test_shared_iterators_and_those_of_a_worker_go_together():
    both = function(lambda shared, own: (next(shared), next(own)))
    with coordinated(workers=1) as coordinator:
        shared = iter(coordinator.create_per_worker_dataset(Dataset.range(3), dispatch="dynamic"))
        own = iter(coordinator.create_per_worker_dataset(Dataset.range(10, 20)))
        values = [coordinator.schedule(both, args=(shared, own)) for _ in range(3)]
        assert coordinator.fetch(values) == [(0, 10), (1, 11), (2, 12)]


def test_another_program_goes_on_at_a_position():
    take = function(lambda it: next(it))
    seen = []
    with coordinated(workers=2) as coordinator:
        it = iter(coordinator.create_per_worker_dataset(from_arrays, dispatch="dynamic"))
        values = [coordinator.schedule(take, args=(it,)) for _ in range(5)]
        coordinator.join()
        seen += coordinator.fetch(values)
        position = json.loads(json.dumps(it.position))
        assert position == it.position
    with coordinated(workers=1) as coordinator:
        it = iter(coordinator.create_per_worker_dataset(from_arrays, dispatch="dynamic"))
        coordinator.schedule(take, args=(it,)).fetch()
        it.go_on(position)
        seen += epoch(coordinator, take, it)
    assert sorted(np.concatenate(seen).tolist()) == list(range(COUNT))


def test_a_worker_whose_dataset_is_shorter_says_so():
    take = function(lambda it: next(it))
    with coordinated(workers=1) as coordinator:
        dataset = coordinator.create_per_worker_dataset(
            lambda: Dataset.from_generator(lambda: iter(range(3)), output_types=np.int32), dispatch="dynamic"
        )
        dataset.pickled = pickled(
            lambda: Dataset.from_generator(lambda: iter(range(2)), output_types=np.int32)
        )
        it = iter(dataset)
        values = [coordinator.schedule(take, args=(it,)) for _ in range(3)]
        with pytest.raises(DatasetError, match="has no batch 2, which the coordinator hands out"):
            coordinator.join()
        assert coordinator.fetch(values[:2]) == [0, 1]
