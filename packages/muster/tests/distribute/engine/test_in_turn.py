"""Virtual replicas that one process computes in turn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster.distribute.engine import _in_turn
from muster.distribute.engine._in_turn import InTurnEngine
from muster.distribute.engine._traced import Traced
from muster.distribute.workers._workers import SingleWorker

REPLICAS = 3
BATCH = np.arange(12, dtype=np.float32).reshape(6, 2)


class StepLeftError(Exception):
    """A worker is lost in a reduction."""


class Worker(SingleWorker):
    """All replicas are here, and a reduction may fail."""

    fails = False

    def sum_terms(self, terms):
        if self.fails:
            raise StepLeftError
        return super().sum_terms(terms)


@pytest.fixture
def worker():
    return Worker(virtual_replicas=REPLICAS)


@pytest.fixture
def runs(monkeypatch):
    """How often each compiled part of a step has run, by its order."""
    counts = []

    def counting(*args):
        executables, place = args[2], len(counts)
        counts.append(0)
        run = compiled(*args)

        def counted(*given):
            counts[place] += 1
            return run(*given)

        executables[f"part {place}"] = counted
        return counted

    compiled = _in_turn.compiled
    monkeypatch.setattr(_in_turn, "compiled", counting)
    return counts


def run(state, reads, batch, replicas):
    gradient = replicas.all_reduce(batch.sum(0))
    return {"weight": state["weight"] - gradient}, {"rows": batch * 2, "total": gradient.sum()}


def step_of(worker, batch=BATCH, **sharded):
    traced = Traced(run=run, batch_sharded=True, **sharded)
    return InTurnEngine(worker, 0).step_for(traced, {}, state(), (), batch)


def state():
    return {"weight": jnp.ones(2, jnp.float32)}


def test_what_follows_the_last_reduction_is_computed_once(worker, runs):
    new, results = step_of(worker)(state(), (), BATCH)
    np.testing.assert_array_equal(new["weight"], 1 - BATCH.sum(0))
    assert float(results["total"]) == BATCH.sum()
    assert runs == [REPLICAS, 1]


def test_it_is_computed_for_each_replica_whose_results_are_its_own(worker, runs):
    step = step_of(worker, results_sharded={"rows": True, "total": False})
    new, results = step(state(), (), BATCH)
    np.testing.assert_array_equal(new["weight"], 1 - BATCH.sum(0))
    np.testing.assert_array_equal(results["rows"], BATCH * 2)
    assert runs == [REPLICAS, REPLICAS]


@pytest.mark.parametrize("rows_sharded", [True, False])
def test_a_step_that_was_left_is_taken_again_and_then_overwrites_the_state(worker, rows_sharded):
    step = step_of(worker, results_sharded={"rows": rows_sharded, "total": False})
    before = state()
    worker.fails = True
    with pytest.raises(StepLeftError):
        step(before, (), BATCH)
    worker.fails = False
    new, _ = step(before, (), BATCH)
    np.testing.assert_array_equal(new["weight"], 1 - BATCH.sum(0))
    assert before["weight"].is_deleted()
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(new))


def test_a_step_of_a_loop_keeps_the_state_since_results_are_gathered_after_it(worker):
    class InLoop(Worker):
        in_loops = property(lambda self: worker)

        def all_gather(self, array):
            return [array]

    traced = Traced(run=run, batch_sharded=True, results_sharded={"rows": True, "total": False})
    engine = InTurnEngine(InLoop(virtual_replicas=REPLICAS), 0, in_loops=True)
    before = state()
    new, results = engine.step_for(traced, {}, before, (), BATCH)(before, (), BATCH)
    np.testing.assert_array_equal(before["weight"], [1, 1])
    np.testing.assert_array_equal(new["weight"], 1 - BATCH.sum(0))
    np.testing.assert_array_equal(results["rows"], BATCH * 2)
