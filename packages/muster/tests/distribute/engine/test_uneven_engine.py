"""What the engine of uneven batches gives the one around which it is: rows that replicas share equally."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster.distribute.engine._split import ReplicatedBatch, Split, UnevenBatch
from muster.distribute.engine._traced import BatchGroup, Traced, View
from muster.distribute.engine._uneven import EvenEngine, UnevenEngine
from muster.distribute.workers._workers import SingleWorker
from muster.program import Replicas

REPLICAS = 3


class InOneArray(EvenEngine):
    """Replicas that are rows of one array, and see nothing but what they share equally.

    Attributes:
        seen: The shapes of the batches that it was to compile for.
    """

    def __init__(self):
        super().__init__(SingleWorker(), REPLICAS)
        self.seen = []

    def step_for(self, traced, executables, state, reads, batch):
        first = batch.batches[0] if isinstance(batch, BatchGroup) else batch
        assert not isinstance(first, UnevenBatch)
        self.seen.append([leaf.shape for leaf in jax.tree.leaves(batch)])
        step = functools.partial(self._step, traced)
        if not isinstance(batch, BatchGroup):
            jax.eval_shape(step, state, reads, batch)  # raises what compiling would
        return step

    def _step(self, traced, state, reads, batch):
        if traced.view is View.GLOBAL:
            return traced.step(state, reads, batch)
        whole = isinstance(batch, ReplicatedBatch)

        def one(index, batch):
            replicas = Replicas(
                index=index,
                all_reduce=lambda value: jax.lax.psum(value, "replica"),
                count=REPLICAS,
                active=1 if whole else REPLICAS,
            )
            return traced.step(state, reads, ReplicatedBatch(batch) if whole else batch, replicas)

        arrays = batch.batch if whole else jax.tree.map(lambda leaf: leaf.reshape(REPLICAS, -1), batch)
        axes = (0, None if whole else 0)
        state, results = jax.vmap(one, axes, axis_name="replica")(jnp.arange(REPLICAS), arrays)
        results = {"mean": results["mean"][0], "rows": results["rows"].reshape(-1)}
        if traced.of_all is not None:
            results = traced.of_all(results, traced.results_sharded)
        return state, results


def run(state, reads, batch, replicas):
    """Return the mean of all rows, each of a replica's less that."""
    mean = jnp.mean(batch)
    if replicas is not None:
        mean = replicas.mean([mean])[0]
    return state, {"mean": mean, "rows": batch - mean}


def compiled(**kind):
    engine = InOneArray()
    return engine, UnevenEngine(engine).compile(
        Traced(run=run, results_sharded={"mean": False, "rows": True}, **kind), {}
    )


@pytest.mark.parametrize(("rows", "padded"), [(6, 6), (7, 9), (8, 9), (10, 12)])
@pytest.mark.parametrize("view", list(View))
def test_metrics_of_replicas_are_those_of_all_rows(view, rows, padded):
    batch = np.arange(rows, dtype=np.float32) ** 2
    engine, step = compiled(view=view)
    _, results = step((), (), Split.alone(REPLICAS).worker_batch(batch))
    assert engine.seen == [[(padded,)]]
    assert results["mean"] == pytest.approx(batch.mean())
    np.testing.assert_allclose(results["rows"], batch - batch.mean(), rtol=1e-5)


def test_fewer_rows_than_replicas_are_given_as_they_are():
    engine, step = compiled()
    _, results = step((), (), Split.alone(REPLICAS).worker_batch(np.float32([1, 4])))
    assert engine.seen == [[(2,)]]
    assert results["mean"] == 2.5


def test_each_batch_of_a_group_is_padded():
    engine, step = compiled()
    group = BatchGroup([UnevenBatch(np.arange(rows, dtype=np.float32)) for rows in (7, 7)])
    step.prepare((), (), group)
    assert engine.seen == [[(9,), (9,)]]


def test_code_that_needs_equal_rows_gets_all_of_them(caplog):
    def stacked(state, reads, batch, replicas):
        return state, {"mean": jnp.max(replicas.sum([batch])[0]), "rows": batch}

    engine = InOneArray()
    step = UnevenEngine(engine).compile(
        Traced(run=stacked, results_sharded={"mean": False, "rows": True}), {}
    )
    assert step((), (), UnevenBatch(np.arange(7, dtype=np.float32)))[1]["mean"] == 6
    assert "Each replica computes all rows" in caplog.text
