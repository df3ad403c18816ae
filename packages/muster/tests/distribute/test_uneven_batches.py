"""Replicas that cannot share rows equally compute their own, and results are those of one device."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy, OneDeviceStrategy, get_replica_context
from muster.distribute.engine._split import ReplicatedBatch, Split, UnevenBatch, filled_up, sizes_of
from muster.distribute.engine._traced import Traced, View
from muster.distribute.replicas._values import PerReplica, ReplicaKind
from muster.estimator import Estimator, EstimatorSpec, RunConfig

REPLICAS = 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(61, 5)).astype(np.float32)
Y = np.sin(X.sum(1, keepdims=True))


@pytest.fixture
def strategy():
    return MirroredStrategy([f"/cpu:{device}" for device in range(REPLICAS)])


@pytest.mark.parametrize("rows", range(1, 40))
@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_no_part_has_more_rows_than_it_must(rows, parts):
    for sizes in (sizes_of(rows, parts), filled_up(rows, parts)):
        assert sum(sizes) == rows
        assert len(sizes) == parts
        assert max(sizes) == -(-rows // parts)
    assert max(sizes_of(rows, parts)) - min(sizes_of(rows, parts)) <= 1


def test_only_batches_with_fewer_rows_than_replicas_are_given_whole():
    split = Split.alone(REPLICAS)
    kinds = {rows: type(split.worker_batch(X[:rows])) for rows in range(1, 3 * REPLICAS)}
    assert kinds == {
        rows: ReplicatedBatch if rows < REPLICAS else UnevenBatch if rows % REPLICAS else np.ndarray
        for rows in kinds
    }


def trained(strategy, batch, model_dir, seen):
    """Return the metrics of an Estimator, and its weights; notes how many rows its code sees."""

    def model_fn(features, labels, mode):
        seen.add(len(features))
        hidden = keras.layers.Dense(3, activation="tanh", kernel_initializer="ones")(features)
        outputs = keras.layers.Dense(1, kernel_initializer="ones")(hidden)
        loss = keras.ops.mean((outputs - labels) ** 2)
        mean = keras.metrics.MeanAbsoluteError(name="mae")
        mean.update_state(labels, outputs)
        train_op = muster.minimize(keras.optimizers.Adam(0.1), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={"mae": mean})

    def input_fn():
        return Dataset.from_tensor_slices((X, Y)).batch(batch)

    config = RunConfig(train_distribute=strategy, eval_distribute=strategy)
    estimator = Estimator(model_fn, model_dir, config)
    estimator.train(input_fn)
    metrics = estimator.evaluate(input_fn)
    return metrics, {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


@pytest.mark.slow
def test_an_estimator_trains_as_on_one_device(strategy, tmp_path):
    seen = set()
    metrics, weights = trained(strategy, 6, tmp_path / "replicas", seen)
    assert seen == {6, 4, 3}  # 61 rows are two steps of 24, and one of 13 rows: 4, 3, 3 and 3
    expected, of_one = trained(None, 24, tmp_path / "one", set())
    assert metrics == pytest.approx(expected, rel=1e-4)
    for name, value in of_one.items():
        np.testing.assert_allclose(weights[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


def looped(strategy, size):
    """Return the losses and weights of a custom loop, and the mean of outputs that `reduce` returns."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(1, kernel_initializer="ones")])
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        total = keras.metrics.Mean()

    @muster.function
    def step(x, y):
        def on_replica(x, y):
            with muster.GradientTape() as tape:
                errors = (model(x) - y)[:, 0] ** 2
                loss = keras.ops.sum(errors) / size
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            total.update_state(errors)
            return loss, errors, keras.ops.mean(errors)

        losses, errors, means = strategy.run(on_replica, (x, y))
        return (
            strategy.reduce("SUM", losses),
            strategy.reduce("MEAN", errors, axis=0),
            strategy.reduce("MEAN", means),
        )

    batches = strategy.experimental_distribute_dataset(Dataset.from_tensor_slices((X, Y)).batch(size))
    found = [list(map(float, step(x, y))) for x, y in batches]
    return found, float(total.result()), [np.asarray(v) for v in model.weights]


@pytest.mark.samples("23")
@pytest.mark.parametrize("size", [7, 23])
def test_a_custom_loop_trains_as_on_one_device(strategy, size):
    found, total, weights = looped(strategy, size)
    expected, of_one, weights_of_one = looped(OneDeviceStrategy("/cpu:0"), size)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert total == pytest.approx(of_one, rel=1e-5)
    for ours, theirs in zip(weights, weights_of_one, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def distributed(strategy, rows):
    return next(iter(strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(X).batch(rows))))


@pytest.mark.samples("2")
@pytest.mark.parametrize("length", [1, 2, 3])
def test_what_is_gathered_may_be_as_long_as_the_rows_of_some_replicas(strategy, length):
    def on_replica(x):
        context = get_replica_context()
        same = jnp.full(length, context.replica_id_in_sync_group)
        first = context.all_gather(same, 0)
        return context.all_gather(x[:, :1], 0)[None], context.all_gather(first, 0)[None]

    rows, same = (strategy.gather(each, 0) for each in strategy.run(on_replica, (distributed(strategy, 7),)))
    for replica in rows:
        np.testing.assert_array_equal(replica, X[:7, :1])
    once = np.repeat(np.arange(REPLICAS), length)
    np.testing.assert_array_equal(same, [np.tile(once, REPLICAS)] * REPLICAS)


class ArrayOfTwoProcesses:
    """Stands for an array over two processes with a device each: only the second replica's value is here."""

    is_fully_addressable = False
    addressable_shards = (SimpleNamespace(index=(slice(1, 2), slice(None)), data=X[None, :3]),)

    def __iter__(self):
        raise RuntimeError("This process has not all values of the array.")


def test_values_are_those_of_the_only_device_of_a_process():
    sizes = (4, 2)
    values = PerReplica(ArrayOfTwoProcesses(), ReplicaKind(sizes=sizes, shapes=((4, 5), (2, 5)))).values
    assert len(values) == 1
    np.testing.assert_array_equal(values[0], X[:2])


@pytest.mark.samples("3")
@pytest.mark.parametrize("devices", range(1, 5))
def test_all_numbers_of_rows_are_computed_as_on_one_device(devices):
    strategy = MirroredStrategy([f"/cpu:{device}" for device in range(devices)])

    def on_replica(x, y, size):
        errors = (x.sum(1) - y[:, 0]) ** 2
        return errors, jnp.sum(errors) / size, jnp.mean(errors), jnp.ones_like(errors).sum()

    for rows in range(1, 3 * devices + 1):
        size = np.float32(rows + 1)  # the batch is the last one, and lacks a row
        data = Dataset.from_tensor_slices((X[:rows], Y[:rows])).batch(rows + 1)
        (batch,) = strategy.experimental_distribute_dataset(data)
        expected = (X[:rows].sum(1) - Y[:rows, 0]) ** 2
        errors, losses, means, counts = strategy.run(on_replica, (*batch, size))
        np.testing.assert_allclose(strategy.gather(errors, 0), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(strategy.reduce("SUM", losses), expected.sum() / size, rtol=1e-5)
        for mean in (strategy.reduce("MEAN", means), strategy.reduce("MEAN", errors, axis=0)):
            np.testing.assert_allclose(mean, expected.mean(), rtol=1e-5)
        assert int(strategy.reduce("SUM", counts)) == rows


@pytest.mark.parametrize("length", [1, 2])
def test_equally_long_results_of_unequal_rows_are_gathered_as_they_are(strategy, length):
    def on_replica(x):
        return jnp.full(length, get_replica_context().replica_id_in_sync_group)

    numbers = strategy.run(on_replica, (distributed(strategy, 6),))
    np.testing.assert_array_equal(strategy.gather(numbers, 0), np.repeat(range(REPLICAS), length))


def test_results_whose_axes_all_differ_are_each_replicas_own(strategy):
    products = strategy.run(lambda x: x @ x.T, (distributed(strategy, 10),))
    assert [value.shape for value in products.values] == [(3, 3), (3, 3), (2, 2), (2, 2)]
    np.testing.assert_allclose(products.values[2], X[6:8] @ X[6:8].T, rtol=1e-5)
    norms = strategy.reduce("SUM", strategy.run(jnp.trace, (products,)))
    np.testing.assert_allclose(norms, (X[:10] ** 2).sum(), rtol=1e-5)


def test_fit_takes_as_much_memory_as_for_equal_batches(strategy):
    weights = jnp.ones((5, 4096))

    def run(state, reads, batch, replicas):
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(batch @ w) ** 2))(state)
        return state - gradient, loss

    split, rows = Split.alone(REPLICAS), RNG.normal(size=(1024, 5)).astype(np.float32)
    taken, losses = [], []
    for count in (1024, 1023):
        executables = {}
        step = strategy.engine.compile(Traced(run=run, view=View.GLOBAL), executables)
        losses.append(float(step(jnp.copy(weights), (), split.worker_batch(rows[:count]))[1]))
        (executable,) = executables.values()
        taken.append(executable.memory_analysis().temp_size_in_bytes)
    assert losses[1] == pytest.approx(float(run(weights, (), rows[:1023], None)[1]), rel=1e-5)
    assert taken[1] <= 1.1 * taken[0]


def test_a_function_may_return_the_rows_that_it_is_given(strategy):
    rows = muster.function(lambda batch: (batch, strategy.reduce("SUM", batch, axis=0))[0])(
        distributed(strategy, 7)
    )
    np.testing.assert_array_equal(np.concatenate(rows.values), X[:7])


def test_jit_compiled_functions_of_the_program_reduce_over_the_replicas_of_each_batch(strategy):
    @jax.jit
    def total(rows):
        return get_replica_context().all_reduce("SUM", jnp.sum(rows))

    @muster.function
    def step(batch):
        return strategy.run(total, args=(batch,))

    for rows in (12, 3, 13, 12, 2, 14):  # equally many for each replica, fewer than replicas, neither
        batch = distributed(strategy, rows)
        results = strategy.experimental_local_results(step(batch))
        np.testing.assert_allclose(results, X[:rows].sum(), rtol=1e-5)


def test_random_keys_may_be_as_many_as_rows(strategy):
    def on_replica(x):
        keys = jax.random.split(jax.random.key(0), len(x))
        total = get_replica_context().all_reduce("SUM", jnp.sum(x))
        return total + jnp.sum(jax.vmap(jax.random.normal)(keys)), keys

    sums, keys = strategy.run(on_replica, (distributed(strategy, 10),))
    for rows, total, own in zip((3, 3, 2, 2), sums.values, keys.values, strict=True):
        expected = jax.random.split(jax.random.key(0), rows)
        np.testing.assert_array_equal(*map(jax.random.key_data, (own, expected)))
        noise = jax.vmap(jax.random.normal)(expected)
        np.testing.assert_allclose(total, X[:10].sum() + noise.sum(), rtol=1e-4)


@pytest.mark.samples("bfloat16")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_mean_of_equal_values_is_that_value(strategy, dtype):
    def on_replica(x):
        return get_replica_context().all_reduce("MEAN", jnp.full(50, 7, dtype)) + 0 * jnp.sum(x).astype(dtype)

    for rows in (9, 10, 11, 13):
        for mean in strategy.run(on_replica, (distributed(strategy, rows),)).values:
            assert mean.dtype == dtype
            np.testing.assert_allclose(mean.astype(np.float32), 7, rtol=1e-6)


@pytest.mark.parametrize("rows", [9, 10])
def test_each_element_counts_once_in_means_along_axes_of_which_replicas_have_other_lengths(strategy, rows):
    every_other, products = strategy.run(lambda x: (x[::2], x @ x.T), (distributed(strategy, rows),))
    mean = strategy.reduce("MEAN", every_other, axis=0)
    np.testing.assert_allclose(mean, np.concatenate(every_other.values).mean(0), rtol=1e-5)
    mean = strategy.reduce("MEAN", products, axis=(0, -1))
    np.testing.assert_allclose(mean, np.concatenate([np.ravel(v) for v in products.values]).mean(), rtol=1e-5)


def test_replicas_return_a_number_of_python_for_uneven_batches(strategy):
    for rows in (REPLICAS * 2, REPLICAS * 2 - 1):
        dataset = strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(X[:rows]).batch(rows))
        (batch,) = dataset
        assert float(strategy.reduce("MEAN", strategy.run(lambda x: 1.0, (batch,)), None)) == 1.0
