"""Arguments of which each worker has its own."""

import functools
import threading

import numpy as np
import pytest
from clusters import coordinated
from gates import MEETINGS, meeting

from muster import function
from muster.data import Dataset
from muster.distribute import OneDeviceStrategy, get_strategy
from muster.distribute.coordinator import PerWorkerValues, experimental_get_current_worker_index


@function
def scaled(x, k):
    return {"x": x * k, "all": x}


@function
def indexed(other, value, bias):
    next(other)
    return experimental_get_current_worker_index(), value["all"] + bias


def test_a_dataset_function_is_in_the_scope_around_it():
    strategy, seen = OneDeviceStrategy("cpu:0"), []

    def dataset_fn():
        seen.append(get_strategy())
        return Dataset.range(2)

    with coordinated(workers=1) as coordinator, strategy.scope():
        coordinator.create_per_worker_dataset(dataset_fn)
    assert seen == [strategy]


def test_each_worker_gets_its_own_value():
    with coordinated(workers=2) as coordinator:
        values = PerWorkerValues(
            coordinator.schedule(scaled, args=(np.float32([i, 10 * i]), 2)) for i in (1, 2)
        )
        for turn in range(2):
            MEETINGS[turn] = threading.Barrier(2)
            other = iter(coordinator.create_per_worker_dataset(functools.partial(meeting, turn)))
            results = [
                coordinator.schedule(indexed, args=(other,), kwargs={"value": values, "bias": np.float32(1)})
                for _ in range(2)
            ]
            found = {int(index): value.tolist() for index, value in coordinator.fetch(results)}
            assert found == {0: [2, 11], 1: [3, 21]}


def test_iterators_are_such_values():
    with coordinated(workers=1) as coordinator:
        it = iter(coordinator.create_per_worker_dataset(lambda: Dataset.range(3)))
        assert isinstance(it, PerWorkerValues)
        assert coordinator.schedule(function(lambda it: next(it)), args=(it,)).fetch() == 0


def test_values_that_cannot_be_given_to_workers():
    with coordinated(workers=2) as coordinator, coordinated(workers=1) as other:
        one, two = (coordinator.schedule(scaled, args=(np.ones(n, np.float32), 1)) for n in (1, 2))
        double = function(lambda x: x["x"] * 2)
        with pytest.raises(TypeError, match="should only take `RemoteValue`s, got 3.0"):
            PerWorkerValues([one, 3.0])
        with pytest.raises(ValueError, match="PerWorkerValues of 1 values cannot be given to 2 workers"):
            coordinator.schedule(double, args=(PerWorkerValues([one]),))
        with pytest.raises(ValueError, match="differ in their structure, shapes, dtypes or constants"):
            coordinator.schedule(double, args=(PerWorkerValues([one, two]),))
        with pytest.raises(ValueError, match="A RemoteValue of another ClusterCoordinator was given"):
            other.fetch([one, 1])
        assert other.fetch(other.schedule(double, args=({"x": np.float32(2)},))) == 4
        assert one.fetch()["x"].tolist() == [1]
