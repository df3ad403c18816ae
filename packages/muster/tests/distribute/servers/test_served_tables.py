"""Tables on an Estimator's servers: workers take and push rows of a batch, and train as in one process."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_servers import MachineServers

from muster import optimizers
from muster._errors import DatasetError
from muster._keras import keras
from muster.distribute.engine import _shards
from muster.distribute.engine._flat_arrays import RowRange
from muster.program import minimize
from muster.program.trace import Program
from sparse_steps import FACTORS, IDS, PROGRAM, ROWS, TABLE, check_steps

DIVIDED = [RowRange(0, 0, 20), RowRange(1, 20, ROWS)]
# Each trains a table and its slots by rows.
BY_ROWS = {
    "SGD": lambda: keras.optimizers.SGD(0.5),
    "schedule": lambda: keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.5, 2, 0.5)),
    "Adagrad": lambda: keras.optimizers.Adagrad(0.5),
    "Adagrad of tf": lambda: optimizers.Adagrad(0.5),
    "Ftrl of tf": lambda: optimizers.Ftrl(0.5),
    "momentum of tf": lambda: optimizers.SGD(0.5, momentum=0.9),
    "clipped by value": lambda: optimizers.SGD(0.5, clipvalue=0.01),
    "clipped by norm": lambda: optimizers.Adagrad(0.5, global_clipnorm=0.1),
}
# These change every row at each step.
WHOLE = {
    "Adam": lambda: keras.optimizers.Adam(0.1),
    "weight decay": lambda: keras.optimizers.SGD(0.1, weight_decay=0.01),
}


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    monkeypatch.setattr(_shards, "LEAST_ROWS_BYTES", 1)


def program_of(make):
    def step(ids, factors):
        table = keras.Variable(TABLE, name="table")
        dense = keras.Variable(np.ones(TABLE.shape[1], np.float32), name="dense")
        rows = jnp.sin(keras.ops.take(table, ids, axis=0)) * factors * dense
        minimize(make(), jnp.mean(jnp.sum(rows, axis=-1)))
        return {"loss": jnp.mean(rows)}, None

    return Program(step, IDS[0], FACTORS[0])


@pytest.mark.parametrize(("placed", "count"), [({}, 1), ({"table": DIVIDED}, 2)], ids=["whole", "divided"])
def test_only_rows_that_are_looked_up_change(placed, count):
    servers = MachineServers(PROGRAM, placed, count, IDS[0], FACTORS[0], by_rows=True)
    assert servers.division.lookups.tables == ("table",)

    def one(state, ids, factors):
        servers.step(ids, factors)
        return servers.values()

    check_steps(one)


@pytest.mark.samples("Adagrad of tf", "clipped by norm", "Adam")
@pytest.mark.parametrize("name", [*BY_ROWS, *WHOLE])
def test_an_optimizer_trains_a_table_as_in_one_process(name):
    program = program_of({**BY_ROWS, **WHOLE}[name])
    servers = MachineServers(program, {"table": DIVIDED}, 2, IDS[0], FACTORS[0], by_rows=True)
    travels = servers.division.lookups.tables if servers.division.lookups else ()
    assert travels == (("table",) if name in BY_ROWS else ())
    whole, state = jax.jit(program.step), program.initial
    for ids, factors in zip(IDS, FACTORS, strict=True):
        state, outputs = whole(state, ids, factors)
        np.testing.assert_allclose(servers.step(ids, factors)["loss"], outputs["loss"], rtol=1e-5, atol=1e-6)
        values = servers.values()
        assert values.keys() == state.keys()
        for path, value in state.items():
            np.testing.assert_allclose(values[path], value, rtol=1e-4, atol=1e-6, err_msg=f"{name}: {path}")


def test_why_a_table_travels_as_a_whole_is_known():
    program = program_of(WHOLE["weight decay"])
    division = MachineServers(program, {}, 1, IDS[0], FACTORS[0], by_rows=True).division
    assert "its optimizer has weight_decay" in str(division.whole["table"])


def test_a_worker_holds_no_table():
    servers = MachineServers(
        program_of(BY_ROWS["Adagrad"]), {"table": DIVIDED}, 2, IDS[0], FACTORS[0], by_rows=True
    )
    held = [piece.shape for share in servers.division.shares for piece in share.columns]
    assert held == [(20, 3), (20, 3), (40, 3), (40, 3)]
    for share in servers.division.shares:
        assert "table" not in " ".join(str(p.key) for p in (*share.pulled.pieces, *share.kept.pieces))


def test_an_id_of_no_row_is_named_before_anything_is_sent():
    servers = MachineServers(PROGRAM, {}, 1, IDS[0], FACTORS[0], by_rows=True)
    before = servers.values()
    with pytest.raises(DatasetError, match=rf"table: received an id value of {ROWS} .*\[0, {ROWS}\)"):
        servers.step(np.where(IDS[0] == 4, ROWS, IDS[0]), FACTORS[0])
    np.testing.assert_array_equal(servers.values()["table"], before["table"])
