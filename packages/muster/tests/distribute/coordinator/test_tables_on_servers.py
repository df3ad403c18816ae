"""Embedding layers on real parameter servers, in threads of this process: rows of a batch travel alone."""

import contextlib

import numpy as np
import pytest
from clusters import coordinator_of

from jobs import free_addresses
from muster._errors import TraceError
from muster._keras import keras
from muster._row_ids import LEAST_TABLE_BYTES
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.data import Dataset, wide_ids
from muster.distribute import FixedShardsPartitioner, ParameterServerStrategy, Server, function
from muster.layers import HashEmbedding
from muster.program import GradientTape
from muster.ps.tables import Normal

# Keras' own:
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

UNITS = 8
ROWS = LEAST_TABLE_BYTES // 4 // UNITS
RNG = np.random.default_rng(0)
USERS = RNG.integers(0, ROWS, (6, 8)).astype("int32")
USERS[1:, ::2] = USERS[0, 0]
SEEN = RNG.integers(1, ROWS, (6, 8, 3)).astype("int32")
SEEN[:, :, 2] = 0
CLICKS = RNG.normal(size=(6, 8, 1)).astype("float32")


@contextlib.contextmanager
def coordinated():
    """Yield the strategy and the coordinator of a cluster of one worker and two servers."""
    cluster = ClusterSpec({"worker": free_addresses(1), "ps": free_addresses(2)})
    with contextlib.ExitStack() as stack:
        for kind, index in (("ps", 0), ("ps", 1), ("worker", 0)):
            stack.enter_context(Server(cluster, kind, index))
        strategy = ParameterServerStrategy(SimpleClusterResolver(cluster), FixedShardsPartitioner(2))
        stack.callback(strategy.close)
        yield strategy, stack.enter_context(coordinator_of(strategy))


class Recommender:
    """A model of two tables: of users, and of what they have seen, where 0 stands for nothing."""

    def __init__(self, optimizer):
        keras.utils.set_random_seed(1)
        self.users = keras.layers.Embedding(ROWS, UNITS, name="users")
        self.items = keras.layers.Embedding(ROWS, UNITS, mask_zero=True, name="items")
        self.mean = keras.layers.GlobalAveragePooling1D()
        self.dense = keras.layers.Dense(1)
        self.optimizer = optimizer
        self(USERS[0], SEEN[0])
        self.weights = [self.users.embeddings, self.items.embeddings, *self.dense.trainable_variables]
        optimizer.build(self.weights)

    def __call__(self, users, seen):
        items = self.items(seen)
        wide = keras.ops.concatenate(
            [self.users(users), self.mean(items, mask=self.items.compute_mask(seen))], 1
        )
        return self.dense(wide)

    def step(self, users, seen, clicks):
        with GradientTape() as tape:
            loss = keras.ops.mean((self(users, seen) - clicks) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.weights), self.weights)
        return loss

    @property
    def tables(self):
        """The tables and their slots, by which ids they are asked for."""
        slots = [v for v in self.optimizer.variables if tuple(v.shape) == (ROWS, UNITS)]
        tall = [*self.weights[:2], *slots]
        return [v for v in tall if "users" in v.path], [v for v in tall if "items" in v.path]


def alone(optimizer):
    """What one process gives, where rows that a step does not look up stay as they are."""
    model, losses = Recommender(optimizer), []
    step = function(model.step)
    for users, seen, clicks in zip(USERS, SEEN, CLICKS, strict=True):
        before = [
            (ids, v, np.array(v.value))
            for ids, of in zip((users, seen), model.tables, strict=True)
            for v in of
        ]
        losses.append(float(step(users, seen, clicks)))
        for ids, variable, value in before:
            asked = np.unique(ids)
            value[asked] = np.asarray(variable.value)[asked]
            variable.assign(value)
    return losses, [np.asarray(v.value) for v in (*model.weights, *model.optimizer.variables)]


OPTIMIZERS = {
    "Adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "Adam": lambda: keras.optimizers.Adam(0.1),
}


@pytest.mark.samples("Adagrad")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_worker_gives_what_one_process_gives_and_rows_travel_alone(name):
    expected, weights = alone(OPTIMIZERS[name]())
    with coordinated() as (strategy, coordinator):
        with strategy.scope():
            model = Recommender(OPTIMIZERS[name]())
        step = function(lambda iterator: model.step(*next(iterator)))
        data = coordinator.create_per_worker_dataset(
            lambda: Dataset.from_tensor_slices((USERS, SEEN, CLICKS))
        )
        iterator = iter(data)

        def moved():
            with strategy.storage.store() as store:
                found = store.statistics()
            return sum(each.sent_bytes for each in found), sum(each.received_bytes for each in found)

        before = moved()
        losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(len(USERS))]
        np.testing.assert_allclose(coordinator.fetch(losses), expected, rtol=1e-5)
        after = moved()
        for variable, value in zip([*model.weights, *model.optimizer.variables], weights, strict=True):
            np.testing.assert_allclose(variable.value, value, rtol=1e-5, atol=1e-7, err_msg=variable.path)
        rows = sum(len(np.unique(each)) for each in (*USERS, *SEEN))
        sent, received = (end - start for start, end in zip(before, after, strict=True))
        # Beside rows: what else the step takes, and pushes; the function itself comes but once.
        assert rows * UNITS * 4 < sent < rows * UNITS * 4 + 4000
        assert rows * (UNITS * 4 + 16) < received < rows * (UNITS * 4 + 16) + 60_000


WIDE = RNG.choice([-(2**62), -2, 0, 1, 2**31, 2**40 + 3, 2**63 - 1], (6, 8, 3))
WIDE[0, :, 2] = -1
INITIAL = 0.25


class Hashed:
    """A model of ids of 64 bits, by a hashed table, or by another embedding and its optimizer."""

    def __init__(self, layer, optimizer):
        self.layer = layer
        self.layer.build()
        self.dense = keras.layers.Dense(1, kernel_initializer="ones")
        self.dense.build((None, UNITS))
        self.weights = [*layer.trainable_variables, *self.dense.trainable_variables]
        self.optimizer = optimizer
        optimizer.build(self.weights)

    def step(self, ids, there, clicks):
        with GradientTape() as tape:
            found = keras.ops.sum(self.layer(ids) * there[..., None], axis=1)
            loss = keras.ops.mean((self.dense(found) - clicks) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.weights), self.weights)
        return loss


def statistics(strategy):
    with strategy.storage.store() as store:
        return [table for each in store.statistics() for table in each.tables]


def test_a_hashed_table_trains_as_one_with_a_row_for_each_id_does():
    there = (WIDE != -1).astype("float32")
    vocabulary, numbers = np.unique(WIDE, return_inverse=True)
    numbers = numbers.reshape(WIDE.shape).astype("int32")
    embedding = keras.layers.Embedding(len(vocabulary), UNITS, keras.initializers.Constant(INITIAL))
    model = Hashed(embedding, keras.optimizers.Adagrad(0.1))
    step = function(model.step)
    expected = [float(step(*batch)) for batch in zip(numbers, there, CLICKS, strict=True)]
    with coordinated() as (strategy, coordinator):
        with strategy.scope():
            layer = HashEmbedding(UNITS, keras.initializers.Constant(INITIAL))
            model = Hashed(layer, keras.optimizers.Adagrad(0.1))
        step = function(model.step)
        batches = zip(wide_ids(WIDE), there, CLICKS, strict=True)
        losses = [coordinator.schedule(step, args=batch) for batch in batches]
        np.testing.assert_allclose(coordinator.fetch(losses), expected, rtol=1e-5)
        rows = function(lambda ids: layer(ids))
        found = coordinator.schedule(rows, args=(wide_ids(vocabulary),)).fetch()
        wanted = np.asarray(embedding.embeddings.value).copy()
        wanted[vocabulary == -1] = 0
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        unseen = coordinator.schedule(rows, args=(np.int32([7, -2]),)).fetch()
        np.testing.assert_allclose(unseen, [[INITIAL] * UNITS, wanted[vocabulary == -2][0]], rtol=1e-5)
        held = [table.rows for table in statistics(strategy)]
        assert sum(held) == len(vocabulary) - 1
        assert min(held) > 0


def test_rows_of_a_hashed_table_are_admitted_and_combined():
    ids = np.array([[3, 3, -1], [2**40, 3, 9], [-1, -1, -1]])
    weights = np.float32([[1, 2, 5], [1, -1, 3], [1, 1, 1]])
    with coordinated() as (strategy, coordinator):
        with strategy.scope():
            layer = HashEmbedding(UNITS, "uniform", admit_after=2, combiner="sqrtn")
            layer.build()
            optimizer = keras.optimizers.SGD(0.0)
            optimizer.build(layer.trainable_variables)

        @function
        def step(ids, weights):
            with GradientTape() as tape:
                found = layer(ids, weights)
                loss = keras.ops.sum(found)
            optimizer.apply(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables)
            return found

        found = [coordinator.schedule(step, args=(wide_ids(ids), weights)).fetch() for _ in range(3)]
        assert not found[0].any()
        table = np.stack([found[2][0] / (3 / np.sqrt(5)), found[2][1]])
        assert (np.abs(table[0]) <= 0.05).all()
        assert found[2][:2].all()
        assert not found[2][2].any()
        assert sum(each.rows for each in statistics(strategy)) == 3


def in_a_loop(layer, ids, scale):
    return keras.ops.map(layer, ids)


def of_a_variable(layer, ids, scale):
    return layer(keras.ops.cast(scale, "int32") + ids)


@pytest.mark.parametrize(
    ("lookup", "reason"),
    [(in_a_loop, "inside of a scan"), (of_a_variable, "ids that a HashEmbedding looks up depend on scale")],
)
def test_ids_that_workers_cannot_know_before_are_refused(lookup, reason):
    with coordinated() as (strategy, coordinator):
        with strategy.scope():
            layer = HashEmbedding(UNITS)
            layer.build()
            scale = keras.Variable(1.0, name="scale")
        rows = function(lambda ids: lookup(layer, ids, scale))
        with pytest.raises(TraceError, match=f"cannot be scheduled: .*{reason}"):
            coordinator.schedule(rows, args=(np.zeros((2, 1), np.int32),))


def test_a_hashed_table_is_refused_where_it_cannot_be():
    with pytest.raises(NotImplementedError, match="HashEmbedding, .* are made by their ids. Use it in a"):
        HashEmbedding(UNITS).build()
    with coordinated() as (strategy, coordinator):
        with strategy.scope():
            layer = HashEmbedding(UNITS, name="users")
            layer.build()
        with pytest.raises(NotImplementedError, match="HashEmbedding 'users' .*tf.train.Checkpoint"):
            np.asarray(layer.embeddings.value)


def test_a_hash_embedding_is_made_again_of_its_configuration():
    layer = HashEmbedding(3, keras.initializers.RandomNormal(0.5, 2.0, seed=4), max_rows=9, combiner="mean")
    again = HashEmbedding.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert again._start.rows == layer._start.rows == Normal(0.5, 2.0, seed=4)
    assert layer.compute_output_shape((2, 5)) == (2, 3)
    with pytest.raises(TypeError, match="rows of a hashed table cannot be made by .*GlorotUniform"):
        HashEmbedding(3, "glorot_uniform")
    with pytest.raises(ValueError, match="'mean', 'sqrtn' or 'sum', or None, got 'max'"):
        HashEmbedding(3, combiner="max")
    with pytest.raises(ValueError, match="dim is 0"):
        HashEmbedding(0)


def test_ids_of_64_bits_travel_as_two_halves():
    assert wide_ids(np.array([[1, -1], [2**40 + 3, -(2**63)]])).tolist() == [
        [[1, 0], [2**32 - 1, 2**32 - 1]],
        [[3, 256], [0, 2**31]],
    ]
    with pytest.raises(TypeError, match="wide_ids takes integers, got dtype float64"):
        wide_ids([1.5])


@pytest.mark.slow
def test_a_model_with_a_hashed_table_is_fitted_evaluated_and_used():
    ids, clicks = np.maximum(WIDE.reshape(-1, 3), -2), CLICKS.reshape(-1, 1)
    ids = np.where(ids == -1, 5, ids)
    vocabulary, numbers = np.unique(ids, return_inverse=True)
    initial = keras.initializers.Constant(INITIAL)

    def fitted(kind, shape, embedded, inputs):
        taken = keras.Input(shape, dtype=kind)
        outputs = keras.layers.Dense(1, kernel_initializer="ones")(embedded(taken))
        model = keras.Model(taken, outputs)
        model.compile(keras.optimizers.Adagrad(0.1), "mse")
        data = Dataset.from_tensor_slices((inputs, clicks)).batch(8)
        history = model.fit(data, epochs=2, verbose=0).history["loss"]
        found = model.predict(inputs, batch_size=8, verbose=0)
        return history, model.evaluate(data, verbose=0), found, model

    embedding = keras.layers.Embedding(len(vocabulary), UNITS, initial)
    pooled = keras.layers.GlobalAveragePooling1D()
    *expected, _ = fitted("int32", (3,), lambda ids: pooled(embedding(ids)), numbers.reshape(-1, 3))
    with coordinated() as (strategy, _), strategy.scope():
        layer = HashEmbedding(UNITS, initial, combiner="mean")
        *found, model = fitted("uint32", (3, 2), layer, wide_ids(ids))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
        with pytest.raises(NotImplementedError, match="cannot be read or assigned as an array"):
            model.get_weights()
