"""``tf.train.Checkpoint`` of hashed tables: it builds optimizers, and may have a model alone."""

import contextlib

import numpy as np
import pytest

import muster
import muster_tensorflow as tf
from jobs import free_addresses
from muster._errors import CheckpointError, CheckpointMismatchError
from muster._keras import keras
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.data import wide_ids
from muster.distribute import FixedShardsPartitioner, ParameterServerStrategy, Server
from muster.distribute.coordinator import ClusterCoordinator
from muster.layers import HashEmbedding

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]

DIM = 4
RNG = np.random.default_rng(0)
VOCABULARY = RNG.integers(-(2**62), 2**62, 300)
# Some ids are frequent, and some do not come back: they are admitted, wait, and are given up.
BATCHES = [VOCABULARY[np.minimum(RNG.geometric(0.02, (6, 3)), 299)] for _ in range(40)]
CLICKS = RNG.normal(size=(40, 6, 1)).astype("float32")


class Hashed:
    """A model with a hashed table and a dense layer, and its optimizer; `step` trains it."""

    def __init__(self, optimizer=lambda: keras.optimizers.Adam(0.1), dim=DIM, build=True, **options):
        keras.utils.set_random_seed(1)
        options = {"admit_after": 2, "max_age": 16} | options
        self.layer = HashEmbedding(dim, combiner="sum", name="users", **options)
        inputs = keras.Input((3, 2), dtype="uint32")
        self.model = keras.Sequential([inputs, self.layer, keras.layers.Dense(1)])
        self.optimizer = optimizer()
        self.weights = self.model.trainable_variables
        if build:
            self.optimizer.build(self.weights)
        self.checkpoint = tf.train.Checkpoint(model=self.model, optimizer=self.optimizer)

        @muster.function
        def step(ids, clicks):
            with muster.GradientTape() as tape:
                loss = keras.ops.mean((self.model(ids) - clicks) ** 2)
            self.optimizer.apply(tape.gradient(loss, self.weights), self.weights)
            return loss

        self.step = step
        self.look = muster.function(lambda ids: self.layer(ids))


class Job:
    """Servers and a worker in threads of this process, and a coordinator."""

    def __init__(self, strategy, coordinator):
        self.strategy, self.coordinator = strategy, coordinator

    def build(self, *args, **options):
        with self.strategy.scope():
            return Hashed(*args, **options)

    def train(self, hashed, start, stop):
        losses = [
            self.coordinator.schedule(hashed.step, args=(wide_ids(ids), clicks))
            for ids, clicks in zip(BATCHES[start:stop], CLICKS[start:stop], strict=True)
        ]
        return self.coordinator.fetch(losses)

    def rows(self, hashed, ids=VOCABULARY):
        return self.coordinator.schedule(hashed.look, args=(wide_ids(ids[:, None]),)).fetch()

    def tables(self):
        with self.strategy.storage.store() as store:
            found = [each.tables[0] for each in store.statistics()]
        return sum(each.rows for each in found), sum(each.candidates for each in found)


@contextlib.contextmanager
def job(servers):
    cluster = ClusterSpec({"ps": free_addresses(servers), "worker": free_addresses(1)})
    with contextlib.ExitStack() as stack:
        for kind, index in (*(("ps", index) for index in range(servers)), ("worker", 0)):
            stack.enter_context(Server(cluster, kind, index))
        strategy = ParameterServerStrategy(SimpleClusterResolver(cluster), FixedShardsPartitioner(servers))
        stack.callback(strategy.close)
        coordinator = ClusterCoordinator(strategy)
        stack.callback(coordinator.close)
        yield Job(strategy, coordinator)


@pytest.mark.parametrize("servers", [1, 3])
def test_training_goes_on_and_an_optimizer_is_built_while_it_is_restored(servers, tmp_path):
    with job(2) as running:
        hashed = running.build()
        running.train(hashed, 0, 20)
        path = hashed.checkpoint.save(tmp_path / "ckpt")
        losses, rows = running.train(hashed, 20, 30), running.rows(hashed)
    with job(servers) as running:
        hashed = running.build(build=False)
        running.rows(hashed)
        hashed.checkpoint.restore(path)
        np.testing.assert_allclose(running.train(hashed, 20, 30), losses, rtol=1e-5)
        np.testing.assert_allclose(running.rows(hashed), rows, rtol=1e-4, atol=1e-6)


def other_dim(running):
    return running.build(dim=DIM + 1).checkpoint


def fewer_slots(running):
    return running.build(lambda: keras.optimizers.Adagrad(0.1)).checkpoint


def no_table(running):
    with running.strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        return tf.train.Checkpoint(model=model, optimizer=keras.optimizers.Adam(0.1))


def only_a_model(running):
    return tf.train.Checkpoint(model=running.build().model)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (other_dim, r"embeddings, of a HashEmbedding, is .* there, \(4,\); here its rows have shape \(5,\)"),
        (fewer_slots, "it has 1 tables and slots of HashEmbedding that are not here, such as optimizer/"),
        (no_table, "it has 3 tables and slots of HashEmbedding that are not here"),
        (only_a_model, "it has 2 tables and slots of HashEmbedding that are not here"),
    ],
)
def test_a_checkpoint_of_another_table_changes_nothing(other, text, tmp_path):
    with job(1) as running:
        hashed = running.build(admit_after=1)
        running.train(hashed, 0, 2)
        path = hashed.checkpoint.save(tmp_path / "ckpt")
        checkpoint = other(running)
        before = [np.array(v.value) for v in checkpoint.model.layers[-1].variables]
        with pytest.raises(CheckpointMismatchError, match=text):
            checkpoint.restore(path)
        for one, variable in zip(before, checkpoint.model.layers[-1].variables, strict=True):
            np.testing.assert_array_equal(one, variable.value)
        # A table, and a checkpoint that has none.
        without = no_table(running).save(tmp_path / "without/ckpt")
        rows = running.rows(hashed)
        with pytest.raises(CheckpointMismatchError, match="of a HashEmbedding, is not there"):
            hashed.checkpoint.restore(without)
        np.testing.assert_array_equal(running.rows(hashed), rows)


def test_a_model_without_its_optimizer_keeps_rows_and_slots_begin_anew(tmp_path):
    with job(2) as running:
        hashed = running.build(admit_after=1)
        running.train(hashed, 0, 5)
        rows = running.rows(hashed)
        path = tf.train.Checkpoint(model=hashed.model).save(tmp_path / "ckpt")
        running.train(hashed, 5, 8)
        tf.train.Checkpoint(model=hashed.model).restore(path)
        np.testing.assert_array_equal(running.rows(hashed), rows)
        with pytest.raises(CheckpointError, match="a HashEmbedding's, which is not among .*Give the model"):
            tf.train.Checkpoint(optimizer=hashed.optimizer).save(tmp_path / "ckpt")
