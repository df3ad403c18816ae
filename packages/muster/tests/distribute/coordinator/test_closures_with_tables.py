"""Closures that look rows of tables up take and push these rows alone."""

import jax
import numpy as np
import pytest
from clusters import coordinated
from memory_servers import MemoryServers

from muster import optimizers as row_optimizers
from muster._errors import DatasetError, TraceError
from muster._keras import keras
from muster._row_ids import LEAST_TABLE_BYTES
from muster.data import Dataset
from muster.distribute import function
from muster.distribute.coordinator import _programs
from muster.feature_column import DenseFeatures, categorical_column_with_identity, embedding_column
from muster.feature_column._categorical_column import PaddedIds
from muster.feature_column._lookup import combined_rows
from muster.program import GradientTape

UNITS = 4
ROWS = LEAST_TABLE_BYTES // 4 // UNITS
HALF = ROWS // 2
RNG = np.random.default_rng(0)
IDS = RNG.choice([0, 3, 5, HALF - 1, HALF, HALF + 7, ROWS - 1], (4, 6, 3)).astype("int32")
TARGETS = RNG.normal(size=(4, 6, 1)).astype("float32")
SPLIT = [(0, 0, HALF), (1, HALF, ROWS)]


@pytest.fixture
def servers():
    return MemoryServers(servers=2)


@pytest.fixture
def coordinator(servers):
    with coordinated(workers=1, storage=servers) as coordinator:
        yield coordinator


class Trained:
    """A model with a table, and a step that trains it."""

    def __init__(self, optimizer):
        self.layer = keras.layers.Embedding(ROWS, UNITS, embeddings_initializer="zeros")
        self.layer.build()
        self.table = self.layer.embeddings
        self.table.assign(np.sin(np.arange(ROWS * UNITS)).reshape(ROWS, UNITS))
        self.dense = keras.layers.Dense(1, kernel_initializer="ones")
        self.dense.build((None, UNITS))
        self.weights = [self.table, *self.dense.trainable_variables]
        self.optimizer = optimizer()
        self.optimizer.build(self.weights)

    def step(self, ids, targets):
        with GradientTape() as tape:
            found = self.dense(keras.ops.mean(self.layer(ids), axis=1))
            loss = keras.ops.mean((found - targets) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.weights), self.weights)
        return loss

    def place(self, servers, spans):
        """Put the variables on servers: the table and its slots on both, others on the second."""
        for variable in [*self.weights, *self.optimizer.variables]:
            whole = [(1, 0, None)]
            servers.add(variable, *(spans if tuple(variable.shape) == (ROWS, UNITS) else whole))


def alone(optimizer):
    """What one process gives, where rows that a step does not look up stay as they are."""
    trained = Trained(optimizer)
    step = function(trained.step)
    tall = [v for v in trained.optimizer.variables if tuple(v.shape) == (ROWS, UNITS)]
    losses = []
    for ids, targets in zip(IDS, TARGETS, strict=True):
        before = [np.asarray(v).copy() for v in (trained.table, *tall)]
        losses.append(float(step(ids, targets)))
        for variable, old in zip((trained.table, *tall), before, strict=True):
            old[np.unique(ids)] = np.asarray(variable)[np.unique(ids)]
            variable.assign(old)
    return losses, [np.asarray(v) for v in (*trained.weights, *tall)]


# The optimizer, and how many arrays with a row for each id are pushed: the gradient, and which rows have one.
OPTIMIZERS = {
    "SGD": (lambda: keras.optimizers.SGD(0.1), 1),
    "momentum": (lambda: keras.optimizers.SGD(0.1, momentum=0.9), 1),
    "Adagrad": (lambda: keras.optimizers.Adagrad(0.1), 1),
    "Adam": (lambda: keras.optimizers.Adam(0.1), 1),
    "legacy Adagrad": (lambda: row_optimizers.Adagrad(0.1), 2),
}


@pytest.mark.samples("legacy Adagrad")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_by_one_worker_gives_what_one_process_gives(servers, coordinator, name):
    optimizer, pushes = OPTIMIZERS[name]
    expected, weights = alone(optimizer)
    trained = Trained(optimizer)
    trained.place(servers, SPLIT)
    step = function(trained.step)
    losses = [coordinator.schedule(step, args=batch) for batch in zip(IDS, TARGETS, strict=True)]
    np.testing.assert_allclose(coordinator.fetch(losses), expected, rtol=1e-5)
    slots = [v for v in trained.optimizer.variables if tuple(v.shape) == (ROWS, UNITS)]
    for variable, value in zip((*trained.weights, *slots), weights, strict=True):
        np.testing.assert_allclose(servers.value(variable), value, rtol=1e-5, atol=1e-7)
    asked = sum(len(np.unique(ids)) for ids in IDS)
    assert servers.rows["pulled"] == asked
    assert servers.rows["pushed"] == asked * pushes


def looked_up(servers, *spans, rows=ROWS, dtype="float32"):
    values = np.arange(rows * UNITS).reshape(rows, UNITS)
    return servers.add(keras.Variable(values, dtype=dtype, name="users"), *spans)


def test_rows_are_looked_up_in_all_ways(servers, coordinator):
    users = looked_up(servers, *SPLIT)
    whole = np.asarray(users)

    @function
    def rows(ids):
        return (
            jax.numpy.take(users.value, ids, axis=0),
            users.value[ids[0]],
            keras.ops.take(users, ids[:, 0], axis=0),
            jax.numpy.take(users.value, ids * 2, axis=0, mode="clip"),
        )

    found = coordinator.schedule(rows, args=(IDS[0],)).fetch()
    ids = IDS[0]
    expected = whole[ids], whole[ids[0]], whole[ids[:, 0]], whole[np.minimum(ids * 2, ROWS - 1)]
    jax.tree.map(np.testing.assert_array_equal, tuple(found), expected)
    assert servers.rows["pulled"] == len(np.union1d(ids, np.minimum(ids * 2, ROWS - 1)))


def masked(made):
    """Two layers that share a table, of which one takes ids of zero for padding."""
    layer = keras.layers.Embedding(ROWS, UNITS, mask_zero=True, embeddings_initializer="ones", name="words")
    recurrent = keras.layers.LSTM(3, kernel_initializer="ones", recurrent_initializer="ones")
    layer.build()
    recurrent.build((None, 3, UNITS))
    made += [layer.embeddings, *recurrent.trainable_variables]
    return lambda ids: recurrent(layer(ids)) + keras.ops.sum(layer(ids[:, :1]), axis=(1, 2))[:, None]


def combined(made):
    """Weighted ragged ids, of two tables."""
    tables = [keras.Variable(np.ones((ROWS, UNITS)), dtype="float32", name=name) for name in ("one", "two")]
    made += tables

    def lookup(ids):
        ragged = PaddedIds(jax.numpy.where(ids > 3, ids, -1), jax.numpy.cos(ids))
        one, two = (
            combined_rows(table.value, ragged, combiner)
            for table, combiner in zip(tables, ("sqrtn", "mean"), strict=True)
        )
        return keras.ops.concatenate([one, two], 1)

    return lookup


def columns(made):
    """An embedding column, in a Keras layer."""
    column = categorical_column_with_identity("ids", ROWS)
    embedding = embedding_column(column, UNITS, initializer=keras.initializers.Ones())
    layer = DenseFeatures([embedding])
    layer({"ids": IDS[0]})
    made += layer.trainable_variables
    return lambda ids: layer({"ids": ids})


@pytest.mark.samples("masked")
@pytest.mark.parametrize("lookup", [masked, combined, columns])
def test_layers_and_columns_train_by_rows(servers, coordinator, lookup):
    def prepared():
        weights = []
        found = lookup(weights)
        optimizer = keras.optimizers.Adagrad(0.1)
        optimizer.build(weights)

        @function
        def step(ids, targets):
            with GradientTape() as tape:
                loss = keras.ops.mean((found(ids) - targets) ** 2)
            optimizer.apply(tape.gradient(loss, weights), weights)
            return loss

        return weights, optimizer, step

    weights, _, step = prepared()
    expected = [float(step(*batch)) for batch in zip(IDS, TARGETS, strict=True)]
    trained, optimizer, step = prepared()
    for variable in [*trained, *optimizer.variables]:
        tall = tuple(variable.shape) == (ROWS, UNITS)
        servers.add(variable, *(SPLIT if tall else [(1, 0, None)]))
    losses = [coordinator.schedule(step, args=batch) for batch in zip(IDS, TARGETS, strict=True)]
    np.testing.assert_allclose(coordinator.fetch(losses), expected, rtol=1e-5)
    for variable, value in zip(trained, weights, strict=True):
        np.testing.assert_allclose(servers.value(variable), np.asarray(value), rtol=1e-5, atol=1e-7)
    assert 0 < servers.rows["pulled"] <= 2 * IDS.size


def test_ids_of_a_dataset_and_ids_that_the_worker_draws(servers, coordinator):
    users = looked_up(servers, (1, 0, HALF), (0, HALF, ROWS))
    random = keras.random.SeedGenerator(3)

    @function
    def negatives(iterator):
        ids = next(iterator)
        others = keras.random.randint((3,), 0, ROWS, seed=random)
        return ids, users.value[ids], others, users.value[others]

    data = coordinator.create_per_worker_dataset(lambda: Dataset.from_tensor_slices(IDS[:, 0]))
    iterator = iter(data)
    seen = []
    for _ in range(2):
        ids, rows, others, drawn = coordinator.schedule(negatives, args=(iterator,)).fetch()
        np.testing.assert_array_equal(rows[:, 0], ids * UNITS)
        np.testing.assert_array_equal(drawn[:, 0], others * UNITS)
        seen += others.tolist()
    assert len(set(seen)) > 3


def test_an_id_out_of_range_is_an_error_that_names_the_table_and_the_id(servers, coordinator):
    users = looked_up(servers)

    @function
    def rows(iterator):
        return users.value[next(iterator)]

    batches = np.array([[1, ROWS], [2, 3]], "int32")
    iterator = iter(coordinator.create_per_worker_dataset(lambda: Dataset.from_tensor_slices(batches)))
    coordinator.schedule(rows, args=(iterator,))
    with pytest.raises(DatasetError, match=rf"^users: received an id value of {ROWS} .*\[0, {ROWS}\)"):
        coordinator.join()
    assert coordinator.schedule(rows, args=(iterator,)).fetch()[:, 0].tolist() == [8, 12]


def test_a_table_that_is_needed_as_a_whole_travels_so(servers, coordinator):
    users = looked_up(servers, *SPLIT)

    @function
    def scores(ids):
        return keras.ops.sum(users.value[ids]) + keras.ops.max(users)

    largest = float(np.asarray(users).max())
    found = coordinator.schedule(scores, args=(np.zeros(1, np.int32),)).fetch()
    assert found == 6 + largest
    assert servers.rows["pulled"] == 0


REFUSED = {
    "needs all rows": (lambda users, ids: keras.ops.max(users) + users.value[ids], "reads all of them by"),
    "ids of parameters": (lambda users, ids: users.value[users.value[ids, 0].astype(int)], "depend on"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_large_table_that_is_needed_as_a_whole_is_refused(servers, coordinator, name, monkeypatch):
    users = looked_up(servers)
    monkeypatch.setattr(_programs, "_LARGEST_WHOLE_BYTES", LEAST_TABLE_BYTES - 1)
    lookup, reason = REFUSED[name]

    @function
    def rows(ids):
        return lookup(users, ids)

    with pytest.raises(TraceError, match=rf"'.*rows' cannot be scheduled: users: .*{reason}.* 1 MiB"):
        coordinator.schedule(rows, args=(np.zeros(2, np.int32),))


def test_a_small_table_travels_as_a_whole(servers, coordinator):
    users = looked_up(servers, rows=10)

    @function
    def rows(ids):
        return users.value[ids]

    assert coordinator.schedule(rows, args=(np.array([2]),)).fetch().tolist() == [[8, 9, 10, 11]]
    assert servers.rows["pulled"] == 0
