"""Code that cannot run on different numbers of rows runs on all rows of an uneven batch, with a warning."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
from linked import together
from muster import TraceError
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy, Strategy, get_replica_context
from muster.distribute.engine._exchange import ExchangeEngine
from muster.distribute.engine._placement import Placement
from muster.estimator import Estimator, EstimatorSpec, RunConfig

X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
REPLICAS = 4


@pytest.fixture
def strategy():
    return MirroredStrategy([f"/cpu:{device}" for device in range(REPLICAS)])


@pytest.fixture
def warnings(caplog):
    """What has been said of batches that each replica computes completely."""
    return lambda: [each.getMessage() for each in caplog.records if "Each replica" in each.getMessage()]


def total(x):
    return get_replica_context().all_reduce("SUM", jnp.sum(x))


def by_loop(x):
    return jax.lax.fori_loop(0, 3, lambda _, carried: carried + total(x), 0.0)


def by_scan(x):
    return jax.lax.scan(lambda carried, _: (carried + total(x), None), 0.0, None, length=3)[0]


def by_branch(x):
    return 3 * jax.lax.cond(total(x) < 1e9, lambda x: total(x), lambda x: 0.0, x)


def by_while(x):
    count, found = jax.lax.while_loop(
        lambda carried: carried[0] < 3, lambda carried: (carried[0] + 1, carried[1] + total(x)), (0, 0.0)
    )
    return found


REDUCING = [by_loop, by_scan, by_branch, by_while]


@pytest.mark.samples("True-by_scan", "False-by_while")
@pytest.mark.parametrize("reducing", REDUCING)
@pytest.mark.parametrize("draws", [False, True])
def test_a_loop_trains_to_its_last_batch_though_it_reduces_inside_of_loops(
    strategy, reducing, draws, warnings
):
    with strategy.scope():
        weight = keras.Variable(1.0, aggregation="mean")

    @muster.function
    def step(rows):
        def on_replica(x):
            found = reducing(x * weight.value)
            weight.assign(weight + 0.125)
            return found

        return strategy.run(on_replica, (next(rows) if draws else rows,))

    data = Dataset.from_tensor_slices(X).batch(10).concatenate(Dataset.from_tensor_slices(X).batch(11))
    batches = strategy.experimental_distribute_dataset(data)
    iterator = iter(batches)
    found = [step(iterator) for _ in range(8)] if draws else list(map(step, batches))
    starts = [*range(0, 40, 10), *range(0, 40, 11)]
    sizes = [10] * 4 + [11] * 3 + [7]
    expected = [
        3 * (1 + number / 8) * X[start : start + size].sum()
        for number, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]
    for each, total in zip(found, expected, strict=True):
        np.testing.assert_allclose(each.values, [total] * REPLICAS, rtol=1e-4)
    assert float(weight.value) == 2
    (said,) = warnings()
    assert "memory" in said
    assert "drop_remainder=True" in said


def test_rows_that_replicas_add_are_all_rows_once(strategy, warnings):
    def on_replica(x):
        return get_replica_context().all_reduce("SUM", x)

    batch = next(iter(strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(X).batch(7))))
    for value in strategy.run(on_replica, (batch,)).values:
        np.testing.assert_array_equal(value, X[:7])
    assert len(warnings()) == 1
    np.testing.assert_array_equal(strategy.reduce("SUM", strategy.run(lambda x: x, (batch,))), X[:7])


def test_an_estimator_trains_on_all_rows_of_its_last_batch(strategy, tmp_path, warnings):
    def model_fn(features, mode):
        weight = keras.Variable(jnp.ones(5), name="weight")
        loss = jnp.mean((features @ weight.value) ** 2) * jax.lax.stop_gradient(by_loop(features)) / 100
        train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    def weights(train_distribute, batch, where):
        estimator = Estimator(model_fn, tmp_path / where, RunConfig(train_distribute=train_distribute))
        estimator.train(lambda: Dataset.from_tensor_slices(X[:29]).batch(batch))
        return estimator.get_variable_value("weight")

    found, expected = weights(strategy, 6, "replicas"), weights(None, 24, "one")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert len(warnings()) == 1


def test_an_error_of_the_code_itself_is_raised_as_it_is(strategy, warnings):
    def on_replica(x):
        raise KeyError("no such feature")

    batch = next(iter(strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(X).batch(7))))
    with pytest.raises(KeyError, match="no such feature"):
        strategy.run(on_replica, (batch,))
    assert warnings() == []


def test_values_that_have_no_rows_cannot_be_given_whole(strategy, warnings):
    batch = next(iter(strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(X).batch(7))))
    products = strategy.run(lambda x: x @ x.T, (batch,))
    with pytest.raises(TraceError, match="different numbers of rows of this batch"):
        strategy.reduce("SUM", products)
    assert warnings() == []


@pytest.mark.parametrize("rows", [5, 6, 7])
@pytest.mark.parametrize("length", [1, 2])
def test_replicas_may_gather_as_many_numbers_as_one_has_rows(strategy, rows, length, warnings):
    def on_replica(x):
        numbers = jnp.full(length, get_replica_context().replica_id_in_sync_group)
        return get_replica_context().all_gather(numbers, 0).reshape(REPLICAS, length)

    batch = next(iter(strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(X).batch(rows))))
    for value in strategy.run(on_replica, (batch,)).values:
        np.testing.assert_array_equal(value[:, 0], range(REPLICAS))
    assert warnings() == []


def test_workers_agree_to_compute_all_rows(warnings):
    """One that failed alone, on its own rows, would leave the others waiting."""

    def on_replica(x):
        if len(x) == 2:
            raise ValueError("This code needs more rows.")
        return get_replica_context().all_reduce("SUM", x)

    def work(link):
        device = jax.sharding.SingleDeviceSharding(jax.devices()[link.rank])
        strategy = Strategy(Placement(device, workers=link), ExchangeEngine(None, link), link)
        found = []
        for size in (7, 5):  # 4 and 3 rows, whose sum has no shape; 3 and 2, of which the second fails
            batches = strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(X).batch(size))
            found.append(strategy.run(on_replica, (next(iter(batches)),)).values[0])
        return found

    for of_worker in together(2, work):
        for size, rows in zip((7, 5), of_worker, strict=True):
            np.testing.assert_array_equal(rows, X[:size])
    assert len(warnings()) == 2  # one for each worker
