"""Functions that workers run on variables of servers."""

import functools
import threading

import numpy as np
import pytest
from clusters import Strategy, cluster_of, coordinated, coordinator_of, start_worker
from gates import MEETINGS, meeting
from memory_servers import MemoryServers

from muster._keras import keras
from muster.data import Dataset
from muster.distribute import function
from muster.program import GradientTape


@pytest.fixture
def servers():
    return MemoryServers(servers=2)


@pytest.fixture
def coordinator(servers):
    with coordinated(workers=1, storage=servers) as coordinator:
        yield coordinator


def test_what_is_added_to_a_variable_counts_once_for_each_closure(servers, coordinator):
    count = servers.add(keras.Variable(0.0, name="count"))

    @function
    def step(x):
        count.assign_add(x)

    for _ in range(10):
        coordinator.schedule(step, args=(np.float32(2.0),))
    coordinator.join()
    assert servers.value(count) == 20.0


def test_a_function_reads_variables_of_several_servers(servers, coordinator):
    first = servers.add(keras.Variable([1.0, 2.0], name="first"), (0, 0, None))
    second = servers.add(keras.Variable([10.0, 20.0], name="second"), (1, 0, None))

    @function
    def total(x):
        return first + second * x

    assert coordinator.schedule(total, args=(np.float32(2.0),)).fetch().tolist() == [21.0, 42.0]


def test_what_is_assigned_is_there_for_the_next_closure(servers, coordinator):
    value = servers.add(keras.Variable([0.0, 0.0], name="value"))

    @function
    def put(x):
        value.assign(x)

    @function
    def get():
        return value.value + 0.0

    coordinator.schedule(put, args=(np.float32([3.0, 4.0]),))
    assert coordinator.schedule(get).fetch().tolist() == [3.0, 4.0]


def test_a_result_sees_what_its_own_function_has_assigned(servers, coordinator):
    count = servers.add(keras.Variable(5.0, name="count"))

    @function
    def step():
        count.assign_add(1.0)
        return count.value * 10.0

    results = [coordinator.schedule(step) for _ in range(3)]
    assert coordinator.fetch(results) == [60.0, 70.0, 80.0]
    assert servers.value(count) == 8.0


def test_an_update_reads_a_variable_of_another_server(servers, coordinator):
    target = servers.add(keras.Variable([1.0, 1.0], name="target"), (0, 0, None))
    factor = servers.add(keras.Variable([3.0, 4.0], name="factor"), (1, 0, None))

    @function
    def step():
        target.assign(target * factor)

    coordinator.schedule(step)
    coordinator.schedule(step)
    coordinator.join()
    assert servers.value(target).tolist() == [9.0, 16.0]


def test_rows_of_a_variable_are_updated_where_they_are(servers, coordinator):
    table = servers.add(keras.Variable(np.arange(5.0), name="table"), (0, 0, 3), (1, 3, 5))

    @function
    def step(x):
        table.assign_add(x)
        return table.value[::2]

    result = coordinator.schedule(step, args=(np.ones(5, np.float32),))
    assert result.fetch().tolist() == [1.0, 3.0, 5.0]
    assert servers.value(table).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.samples("Adam-True", "SGD-False")
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad"])
def test_training_by_one_worker_gives_what_one_process_gives(name, split):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 4)).astype("float32"), rng.normal(size=(8, 1)).astype("float32")

    def made():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.layers[0].kernel.assign(np.ones((4, 1)))
        optimizer = getattr(keras.optimizers, name)(0.1)
        optimizer.build(model.trainable_variables)

        @function
        def step(batch):
            with GradientTape() as tape:
                loss = keras.ops.mean((model(batch[0]) - batch[1]) ** 2)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        return model, optimizer, step

    model, _, step = made()
    expected = [float(step((x, y))) for _ in range(5)]
    weights = [np.asarray(w) for w in model.trainable_variables]

    servers = MemoryServers(servers=2)
    model, optimizer, step = made()
    for variable in [*model.variables, *optimizer.variables]:
        spans = [(0, 0, 2), (1, 2, 4)] if split and variable.shape == (4, 1) else [(1, 0, None)]
        servers.add(variable, *spans)
    with coordinated(workers=1, storage=servers) as coordinator:
        losses = [coordinator.schedule(step, args=((x, y),)) for _ in range(5)]
        np.testing.assert_allclose(coordinator.fetch(losses), expected, rtol=1e-5)
    for weight, variable in zip(weights, model.trainable_variables, strict=True):
        np.testing.assert_allclose(servers.value(variable), weight, rtol=1e-5)
    assert servers.value(optimizer.iterations) == 5


def test_values_come_with_the_answer_to_a_push_until_the_coordinator_joins_or_assigns(servers, coordinator):
    count = servers.add(keras.Variable(0.0, name="count"))

    @function
    def step():
        before = count.value + 0.0
        count.assign_add(1.0)
        return before

    values = [coordinator.schedule(step) for _ in range(4)]
    coordinator.join()
    assert servers.pulls == 1
    assert coordinator.fetch(values) == [0.0, 1.0, 2.0, 3.0]
    values = [coordinator.schedule(step) for _ in range(2)]
    servers.assign(count, 100.0)
    values += [coordinator.schedule(step) for _ in range(2)]
    coordinator.join()
    assert coordinator.fetch(values)[2:] in ([100.0, 101.0], [101.0, 102.0], [102.0, 103.0])
    assert 2 <= servers.pulls <= 3


def test_who_has_fetched_a_result_finds_its_effects_in_what_is_scheduled_next(servers):
    count = servers.add(keras.Variable(0.0, name="count"))

    @function
    def step(other):
        next(other)
        before = count.value + 0.0
        count.assign_add(1.0)
        return before

    with coordinated(workers=2, storage=servers) as coordinator:
        for round in range(3):  # in each both workers take part
            MEETINGS[round] = threading.Barrier(2)
            other = iter(coordinator.create_per_worker_dataset(functools.partial(meeting, round)))
            values = [coordinator.schedule(step, args=(other,)) for _ in range(2)]
            assert min(coordinator.fetch(values)) >= 2.0 * round


def test_a_seed_is_the_workers_own(servers):
    seeds = keras.random.SeedGenerator(7)

    @function
    def draw(it):
        return next(it), keras.random.uniform((3,), seed=seeds)

    with coordinated(workers=1, storage=servers) as coordinator:
        it = iter(coordinator.create_per_worker_dataset(Dataset.range(4)))
        results = coordinator.fetch([coordinator.schedule(draw, args=(it,)) for _ in range(4)])
    again = keras.random.SeedGenerator(7)
    expected = [np.asarray(keras.random.uniform((3,), seed=again)) for _ in range(4)]
    np.testing.assert_allclose([numbers for _, numbers in results], expected)


def test_seeds_of_workers_differ():
    seeds = keras.random.SeedGenerator(7)

    @function
    def draw(other):
        next(other)
        return keras.random.uniform((3,), seed=seeds)

    with coordinated(workers=2) as coordinator:
        MEETINGS["seeds"] = threading.Barrier(2)
        other = iter(coordinator.create_per_worker_dataset(functools.partial(meeting, "seeds")))
        first, second = coordinator.fetch([coordinator.schedule(draw, args=(other,)) for _ in range(2)])
    assert np.all(first != second)


def test_without_staleness_every_closure_sees_all_that_came_before(servers):
    count = servers.add(keras.Variable(0.0, name="count"))

    @function
    def step():
        before = count.value + 0.0
        count.assign_add(1.0)
        return before

    cluster = cluster_of(2, 2)
    with start_worker(cluster, 0, servers), start_worker(cluster, 1, servers):
        with coordinator_of(Strategy(cluster, servers, max_staleness=0)) as coordinator:
            values = [coordinator.schedule(step) for _ in range(50)]
            assert coordinator.fetch(values) == list(range(50))


def test_a_variable_that_is_on_no_server_is_refused_by_name(coordinator):
    outside = keras.Variable(1.0, name="outside")

    @function
    def step():
        return outside.value * 2.0

    with pytest.raises(ValueError, match="'step' cannot be scheduled.*'outside'.*strategy.scope"):
        coordinator.schedule(step)
    assert coordinator.done()
