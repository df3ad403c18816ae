"""Checkpoints of hashed tables: servers write their rows, and any number of servers takes them back."""

import contextlib
import errno
import os

import numpy as np
import pytest

import muster
from jobs import free_addresses
from muster.__main__ import main
from muster._errors import CheckpointError, CheckpointMismatchError, DamagedCheckpointError
from muster._keras import keras
from muster.checkpoint import (
    _keyed,
    latest_checkpoint,
    list_checkpoints,
    list_rows,
    list_tables,
    list_variables,
    read_checkpoint,
)
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.data import wide_ids
from muster.distribute import FixedShardsPartitioner, ParameterServerStrategy, Server
from muster.distribute.coordinator import ClusterCoordinator
from muster.layers import HashEmbedding
from muster.ps import _part_writer, _shard_snapshot
from object_checkpoints import ObjectCheckpoint

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
        self.checkpoint = ObjectCheckpoint(model=self.model, optimizer=self.optimizer)

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


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(_keyed, "_PIECE_BYTES", 500)


@pytest.fixture(scope="module")
def alone():
    """What training gives that goes on without a pause, and rows and counts on the way."""
    with job(2) as running:
        hashed = running.build()
        losses, rows, counts = [], {}, {}
        for stop in (20, 25, 30, 40):
            losses += running.train(hashed, len(losses), stop)
            rows[stop], counts[stop] = running.rows(hashed), running.tables()
    assert counts[20][0] > 20 < counts[20][1]
    return losses, rows, counts


@pytest.mark.samples("2", "3")
@pytest.mark.parametrize("servers", [2, 1, 3])
def test_training_goes_on_from_a_checkpoint_on_any_number_of_servers(alone, servers, tmp_path):
    losses, rows, counts = alone
    with job(2) as running:
        hashed = running.build()
        running.train(hashed, 0, 20)
        path = hashed.checkpoint.save(tmp_path)
        running.train(hashed, 20, 24)  # which is not in it
        if servers == 2:
            hashed.checkpoint.restore(path)
            np.testing.assert_array_equal(running.rows(hashed), rows[20])
            assert running.tables() == counts[20]
    with job(servers) as running:
        hashed = running.build()
        running.train(hashed, 30, 32)  # rows that go
        hashed.checkpoint.restore(path)
        np.testing.assert_array_equal(running.rows(hashed), rows[20])
        assert running.tables() == counts[20]
        found = running.train(hashed, 20, 40)
        np.testing.assert_allclose(found, losses[20:], rtol=1e-5)
        np.testing.assert_allclose(running.rows(hashed), rows[40], rtol=1e-4, atol=1e-6)
        assert running.tables() == counts[40]


def test_between_full_checkpoints_only_rows_that_have_changed_are_written(alone, tmp_path):
    losses, rows, counts = alone
    wide = {"dim": 512, "admit_after": 1, "max_age": 30}
    sizes, expected = [], []
    with job(2) as running:
        hashed = running.build(**wide)
        for start, stop in ((0, 32), (32, 33), (33, 35), (35, 36)):
            running.train(hashed, start, stop)
            path = hashed.checkpoint.save(tmp_path, max_to_keep=3)
            own = [each.stat() for each in os.scandir(path) if each.stat().st_nlink == 1]
            sizes.append(sum(each.st_size for each in own))
            expected.append((running.rows(hashed), running.tables()))
        later = running.train(hashed, 36, 40)
    assert max(sizes[1:]) < sizes[0] / 2
    kept = [each.path for each in list_checkpoints(tmp_path)]
    for path, (rows, counts) in zip(kept, expected[1:], strict=True):
        with job(1) as running:
            hashed = running.build(**wide)
            hashed.checkpoint.restore(path)
            np.testing.assert_array_equal(running.rows(hashed), rows)
            assert running.tables() == counts
            found = read_checkpoint(path).variables
            (name,) = list_tables(path)
            ids, table = found[f"{name}#ids"], found[name]
            assert len(np.unique(ids)) == len(ids) == len(table) == counts[0]
            np.testing.assert_array_equal(running.rows(hashed, ids), table)
            if path == kept[-1]:
                np.testing.assert_allclose(running.train(hashed, 36, 40), later, rtol=1e-4)


def test_a_checkpoint_shows_its_tables(tmp_path, capsys):
    with job(2) as running:
        hashed = running.build()
        running.train(hashed, 0, 5)
        rows, waiting = running.tables()
        path = hashed.checkpoint.save(tmp_path)
        ((name, table),) = list_tables(path).items()
        for ids, uses, (found,), is_waiting in table.pieces([name]):
            assert not is_waiting
            np.testing.assert_array_equal(found, running.rows(hashed, ids))
            assert set(uses[:, 0]) <= set(range(6))
            assert uses[:, 1].min() == 2  # batches, at which an id gets a row
            break
    assert (len(table), table.waiting, table.clock()) == (rows, waiting, 5)
    assert len(table.columns) == 3  # with the slots of Adam
    assert list_variables(path)[name].shape == (rows, DIM)
    assert sum(each.stop - each.start for each in list_rows(path)[name]) == rows
    assert main(["inspect", str(path), "--variables"]) == 0
    said = capsys.readouterr().out
    assert f"{name} is a hashed table of {rows} rows; {waiting} ids wait for theirs." in said
    assert f"{name}#ids" in said


@pytest.mark.parametrize("when", ["before", "after a look-up", "before restoring"])
def test_an_optimizer_is_built_in_any_order(alone, when, tmp_path):
    losses, rows, _ = alone
    with job(2) as running:
        start, hashed = 0, running.build(build=when == "before")
        if when == "after a look-up":
            running.rows(hashed)
            with running.strategy.scope():
                hashed.optimizer.build(hashed.weights)
        elif when == "before restoring":
            start, trained = 20, running.build()
            running.train(trained, 0, start)
            running.rows(hashed)
            with running.strategy.scope():
                hashed.optimizer.build(hashed.weights)
            hashed.checkpoint.restore(trained.checkpoint.save(tmp_path))
        np.testing.assert_allclose(running.train(hashed, start, 30), losses[start:30], rtol=1e-5)
        np.testing.assert_allclose(running.rows(hashed), rows[30], rtol=1e-4, atol=1e-6)


def test_slots_that_come_after_rows_begin_with_their_number_and_older_functions_go_on(tmp_path):
    options = {"admit_after": 1, "max_age": None}
    with job(2) as running:
        hashed = running.build(**options)
        expected = running.train(hashed, 0, 10)
    with job(2) as running:
        hashed = running.build(build=False, **options)
        with running.strategy.scope():
            still = keras.optimizers.SGD(0.0)
            still.build(hashed.weights)

        @muster.function
        def stand_still(ids, clicks):
            with muster.GradientTape() as tape:
                loss = keras.ops.mean((hashed.model(ids) - clicks) ** 2)
            still.apply(tape.gradient(loss, hashed.weights), hashed.weights)

        def train_without_slots():
            for ids, clicks in zip(BATCHES[:10], CLICKS[:10], strict=True):
                running.coordinator.schedule(stand_still, args=(wide_ids(ids), clicks))
            running.coordinator.join()

        train_without_slots()
        counts = running.tables()
        with running.strategy.scope():
            hashed.optimizer.build(hashed.weights)
        np.testing.assert_allclose(running.train(hashed, 0, 10), expected, rtol=1e-5)
        assert running.tables() == counts
        rows = running.rows(hashed)
        train_without_slots()
        np.testing.assert_array_equal(running.rows(hashed), rows)
        path = hashed.checkpoint.save(tmp_path)
        later = running.train(hashed, 10, 20)
    with job(1) as running:
        hashed = running.build(**options)
        hashed.checkpoint.restore(path)
        np.testing.assert_allclose(running.train(hashed, 10, 20), later, rtol=1e-5)


def other_dim(running):
    return running.build(dim=DIM + 1).checkpoint


def fewer_slots(running):
    return running.build(lambda: keras.optimizers.Adagrad(0.1)).checkpoint


def no_table(running):
    with running.strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        return ObjectCheckpoint(model=model, optimizer=keras.optimizers.Adam(0.1))


def only_a_model(running):
    return ObjectCheckpoint(model=running.build().model)


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
        path = hashed.checkpoint.save(tmp_path)
        checkpoint = other(running)
        before = [np.array(v.value) for v in checkpoint.objects["model"].layers[-1].variables]
        with pytest.raises(CheckpointMismatchError, match=text):
            checkpoint.restore(path)
        for one, variable in zip(before, checkpoint.objects["model"].layers[-1].variables, strict=True):
            np.testing.assert_array_equal(one, variable.value)
        # A table, and a checkpoint that has none.
        without = no_table(running).save(tmp_path / "without")
        rows = running.rows(hashed)
        with pytest.raises(CheckpointMismatchError, match="of a HashEmbedding, is not there"):
            hashed.checkpoint.restore(without)
        np.testing.assert_array_equal(running.rows(hashed), rows)


def test_a_model_without_its_optimizer_keeps_rows_and_slots_begin_anew(tmp_path):
    with job(2) as running:
        hashed = running.build(admit_after=1)
        running.train(hashed, 0, 5)
        rows = running.rows(hashed)
        path = ObjectCheckpoint(model=hashed.model).save(tmp_path)
        running.train(hashed, 5, 8)
        ObjectCheckpoint(model=hashed.model).restore(path)
        np.testing.assert_array_equal(running.rows(hashed), rows)
        with pytest.raises(CheckpointError, match="a HashEmbedding's, which is not among .*Give the model"):
            ObjectCheckpoint(optimizer=hashed.optimizer).save(tmp_path)


def test_servers_alone_write_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(_part_writer, "sees_folder", lambda folder, token: False)
    with job(1) as running:
        hashed = running.build()
        with pytest.raises(CheckpointError, match="Save to a folder on storage that they share"):
            hashed.checkpoint.save(tmp_path)
    assert latest_checkpoint(tmp_path) is None


def test_what_would_need_all_rows_names_the_layer_and_the_way(tmp_path):
    with job(1) as running:
        hashed = running.build()
        for use in (
            hashed.model.get_weights,
            lambda: hashed.model.save_weights(tmp_path / "a.weights.h5"),
            lambda: hashed.model.set_weights(hashed.model.weights),
        ):
            with pytest.raises(NotImplementedError, match="HashEmbedding 'users' .*tf.train.Checkpoint"):
                use()


def test_a_damaged_table_is_found_before_anything_is_set(tmp_path):
    with job(1) as running:
        hashed = running.build(admit_after=1)
        running.train(hashed, 0, 5)
        path = hashed.checkpoint.save(tmp_path)
        (file,) = (each.path for each in os.scandir(path) if "-ps-" in each.name)
        (name,) = list_tables(path)
        ids = read_checkpoint(path).variables[f"{name}#ids"]
        with open(file, "r+b") as opened:
            opened.seek(opened.read().index(ids.tobytes()))
            opened.write(b"x")
        running.train(hashed, 5, 8)
        rows = running.rows(hashed)
        with pytest.raises(DamagedCheckpointError, match="its bytes have changed"):
            hashed.checkpoint.restore(path)
        np.testing.assert_array_equal(running.rows(hashed), rows)


def test_after_a_checkpoint_that_was_not_written_the_next_one_has_all_rows(tmp_path, monkeypatch):
    with job(2) as running:
        hashed = running.build(admit_after=1)
        running.train(hashed, 0, 10)
        first = hashed.checkpoint.save(tmp_path)
        running.train(hashed, 10, 11)

        def fail(*args):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(_shard_snapshot, "write_part", fail)
            with pytest.raises(CheckpointError, match="No space left.* Earlier checkpoints are untouched"):
                hashed.checkpoint.save(tmp_path)
        assert latest_checkpoint(tmp_path) == first
        running.train(hashed, 11, 12)
        path = hashed.checkpoint.save(tmp_path)
        expected, counts = running.rows(hashed), running.tables()
    with job(1) as running:
        hashed = running.build(admit_after=1)
        hashed.checkpoint.restore(path)
        np.testing.assert_array_equal(running.rows(hashed), expected)
        assert running.tables() == counts
