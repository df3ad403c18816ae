"""Embedding layers on real parameter servers, in threads of this process: rows of a batch travel alone."""

import contextlib

import numpy as np
import pytest
from clusters import coordinator_of

from jobs import free_addresses
from muster._keras import keras
from muster._row_ids import LEAST_TABLE_BYTES
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.data import Dataset
from muster.distribute import FixedShardsPartitioner, ParameterServerStrategy, Server, function
from muster.program import GradientTape

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
