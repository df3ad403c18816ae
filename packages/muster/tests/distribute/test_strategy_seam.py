"""The seam between strategies and the engine: variables can live elsewhere, in fit, loops and Estimators.

The strategy here keeps variables in a store in memory, a stand-in for a parameter server. A step pulls their
values, and pushes by how much it has changed them. With one replica it gives the server its gradients, too,
and goes on with the sum that it gets back. The engines know nothing of it.

Another one has tables there, whose rows alone travel, and steps that it makes beside somebody else.
Estimators know nothing of that, either.
"""

import jax
import numpy as np
import pytest
from conformance import CASES, by_keras, check_same, fitted
from conformance_loops import by_hand, looped
from estimator_runs import trained

import muster
from muster._keras import keras
from muster.checkpoint import latest_checkpoint
from muster.data import Dataset
from muster.distribute import Strategy
from muster.distribute.engine import _shards
from muster.distribute.engine._exchange import ExchangeEngine
from muster.distribute.engine._placement import Placement
from muster.distribute.engine._served import ServedEngine
from muster.distribute.engine._state_store import StateStore
from muster.distribute.input import StepSource
from muster.distribute.strategies._mirrored import local_devices, on_mesh
from muster.distribute.workers._workers import SingleWorker
from muster.estimator import Estimator, EstimatorSpec, RunConfig
from served_in_memory import MemoryServers, place


class MemoryServer:
    """Holds the values of variables by key, adds what is pushed, and sums gradients."""

    def __init__(self):
        self.values, self.pushes, self.sums = {}, 0, 0

    def push(self, key, change):
        self.pushes += 1
        self.values[key] = self.values[key] ^ change if change.dtype == bool else self.values[key] + change

    def sum(self, arrays):
        self.sums += 1
        return [array.copy() for array in arrays]  # of the only worker


class ServedWorker(SingleWorker):
    """A worker that has a server sum gradients, and what else replicas reduce."""

    def __init__(self, server):
        super().__init__()
        self.all_reduce = server.sum


class ServedStore(StateStore):
    """Pulls the values of a step from a server, and pushes their changes."""

    def __init__(self, local, server):
        self._local, self._server = local, server

    @property
    def keys(self):
        return self._local.keys

    def take(self):
        leaves, structure = jax.tree.flatten(self._local.take())
        pulled = [self._pull(key, leaf) for key, leaf in zip(self.keys, leaves, strict=True)]
        return jax.tree.unflatten(structure, pulled)

    def _pull(self, key, leaf):
        if key is None:  # replicas keep values of their own, on their devices
            return leaf
        if not np.array_equal(self._server.values.get(key), leaf):
            self._server.values[key] = np.array(leaf)  # new, or assigned between steps
        return jax.device_put(self._server.values[key], leaf.sharding)

    def give(self, state):
        leaves, structure = jax.tree.flatten(state)
        for i, (key, after) in enumerate(zip(self.keys, leaves, strict=False)):
            if key is not None:
                before, after = self._server.values[key], np.asarray(after)
                self._server.push(key, before ^ after if before.dtype == bool else after - before)
                leaves[i] = jax.device_put(self._server.values[key], leaves[i].sharding)
        self._local.give(jax.tree.unflatten(structure, leaves))

    def peek(self):
        return self._local.peek()


class ServedStrategy(Strategy):
    """Replicas on devices, whose variables are on a server."""

    def __init__(self, count):
        self.server = MemoryServer()
        mesh = jax.sharding.Mesh(np.array(local_devices([f"/cpu:{i}" for i in range(count)])), ("replica",))
        if count > 1:
            super().__init__(**on_mesh(mesh), local_replicas=count)
        else:
            worker, device = ServedWorker(self.server), jax.sharding.SingleDeviceSharding(mesh.devices[0])
            super().__init__(Placement(device, workers=worker), ExchangeEngine(mesh, worker), worker)
        self.placement.store = lambda store: ServedStore(store, self.server)


SOAK = [pytest.param(case, marks=pytest.mark.soak) for case in CASES["mirrored 3"]]


@pytest.mark.samples("tape-sequential-sgd-shuffled-2")
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("case", [*CASES["mirrored 2"], *SOAK], ids=str)
def test_training_is_that_of_one_device(count, case):
    strategy = ServedStrategy(count)
    if case.way == "fit":
        check_same(fitted(strategy, case), by_keras(case))
    else:
        found = looped(strategy, case)
        check_same(found, by_hand(case, count, found["seeds"]))
    assert strategy.server.pushes > 50
    assert (strategy.server.sums > 50) == (count == 1)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_an_estimator_trains_as_on_one_device(tmp_path, count):
    def optimizer():
        return keras.optimizers.Adam(0.01)

    strategy = ServedStrategy(count)
    losses, weights, metrics, predictions = trained(tmp_path / "served", strategy, optimizer)
    same = trained(tmp_path / "one", None, optimizer)
    np.testing.assert_allclose(losses, same[0], atol=1e-5)
    for name, value in same[1].items():
        np.testing.assert_allclose(weights[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    assert metrics["accuracy"] == pytest.approx(same[2]["accuracy"], abs=1e-6)
    np.testing.assert_allclose(predictions, same[3], atol=1e-5)
    assert strategy.server.pushes > 50
    assert (strategy.server.sums > 50) == (count == 1)
    assert set(weights) <= set(strategy.server.values)


class NumberedSteps(StepSource):
    """Numbers steps in memory: of this worker, and of another one that makes two after each fourth."""

    shared = True
    max_staleness = None

    def begin(self, last_step):
        self.last_step = last_step

    def permitted(self, batches, at_end):
        for count, batch in enumerate(batches, 1):
            if self.global_step >= self.last_step:
                break
            self.global_step += 3 if count % 4 == 0 else 1
            yield batch
        at_end()


def of_a_table(features, labels, mode):
    """A model of a table of 60 rows and a dense layer."""
    logits = keras.layers.Dense(3)(keras.layers.Embedding(60, 8, name="table")(features))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    train_op = muster.minimize(keras.optimizers.Adagrad(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_rows_and_steps_can_be_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(_shards, "LEAST_ROWS_BYTES", 1)
    ids = np.random.default_rng(1).integers(0, 60, 400)

    def trained(folder, strategy, steps):
        estimator = Estimator(of_a_table, folder, RunConfig(tf_random_seed=1, train_distribute=strategy))
        estimator.train(
            lambda: Dataset.from_tensor_slices((ids, ids % 3)).batch(20).repeat(), max_steps=steps
        )
        return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}

    servers, steps = MemoryServers(), NumberedSteps()
    strategy = Strategy(Placement(None), ServedEngine(servers, place), steps=steps)
    values = trained(tmp_path / "served", strategy, 18)
    assert (servers.pushes, steps.global_step) == (12, 18)
    assert 0 < servers.looked_up < 12 * 20  # each once, of those that a batch asks for
    for name, expected in trained(tmp_path / "one", None, 12).items():
        if name != "global_step":
            np.testing.assert_allclose(values[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
    assert latest_checkpoint(tmp_path / "served").endswith("-18")
