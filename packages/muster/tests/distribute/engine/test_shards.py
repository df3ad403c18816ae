"""Variables that are divided among servers are trained as in one process."""

import jax
import numpy as np
import pytest

import muster
from muster._errors import TraceError
from muster._keras import keras
from muster.distribute.engine._flat_arrays import RowRange
from muster.distribute.engine._shards import Division
from muster.program.trace import Program
from muster.ps import Held
from served_steps import OPTIMIZERS, X, Y, divided, program_of

WHOLE = {"dense_1/kernel": [RowRange(1)], "batch_normalization/gamma": [RowRange(1)]}
BY_ROWS = {
    "dense/kernel": [RowRange(0, 0, 3), RowRange(1, 3, 5)],
    "dense_1/kernel": [RowRange(1, 0, 1), RowRange(0, 1, 2), RowRange(1, 2, 4)],
    "batch_normalization/moving_mean": [RowRange(0, 0, 2), RowRange(1, 2, 4)],
}


class Servers:
    """What servers hold, updated by pushes in turn."""

    def __init__(self, program, placed, count):
        self.program = program
        self.step = divided(program, X, Y)
        shared = {
            v.path: jax.ShapeDtypeStruct(v.shape, v.dtype)
            for v in program.variables
            if v.path not in self.step.local
        }
        self.division = Division(self.step, shared, placed, count)
        self.buffers = self.division.split(program.initial)
        self.updates = [jax.jit(share.update) for share in self.division.shares]
        self.work = jax.jit(self.division.work)

    def push(self, pushes):
        self.buffers = [
            Held(*update(*held[:2], push))
            for update, held, push in zip(self.updates, self.buffers, pushes.flat, strict=True)
        ]

    def values(self):
        return self.division.read(self.buffers)


@pytest.mark.samples("Adam-placed4")
@pytest.mark.parametrize(
    ("name", "placed"),
    [("Lamb", WHOLE), ("global_clipnorm", {}), *((name, BY_ROWS) for name in OPTIMIZERS if name != "Lamb")],
)
def test_one_worker_trains_as_without_servers(name, placed):
    program = program_of(OPTIMIZERS[name])
    servers = Servers(program, placed, 2)
    local = [program.initial[path] for path in servers.step.local]
    whole = jax.jit(program.step)
    expected = program.initial
    for _ in range(4):
        expected, of_one = whole(expected, X, Y)
        pushes, local, outputs = servers.work([held.pulled for held in servers.buffers], [], local, (X, Y))
        servers.push(pushes)
        np.testing.assert_allclose(outputs["loss"], of_one["loss"], rtol=1e-5)
    for path, value in servers.values().items():
        np.testing.assert_allclose(value, expected[path], rtol=1e-4, atol=1e-6, err_msg=path)


def test_an_update_that_couples_rows_needs_whole_variables():
    with pytest.raises(TraceError, match=r"dense/kernel.*: they are divided among parameter servers by rows"):
        Servers(program_of(OPTIMIZERS["Lamb"]), BY_ROWS, 2)


def test_each_server_holds_its_rows_and_their_slots():
    servers = Servers(program_of(OPTIMIZERS["Adam"]), BY_ROWS, 2)
    for share, rows in zip(servers.division.shares, (3, 2), strict=True):
        kernels = [piece.shape for piece in share.kept.pieces if "dense_kernel" in str(piece.key)]
        assert kernels == [(rows, 4)] * 3
        assert sum(piece.key == "adam/iteration" for piece in (*share.pulled.pieces, *share.kept.pieces)) == 1


def test_a_number_of_one_element_that_divided_variables_read_is_on_each_server():
    def train(x, y):
        weight = keras.Variable(np.ones((4, 3), np.float32), name="weight")
        average = keras.Variable(np.ones((4, 3), np.float32), name="average", trainable=False)
        decay = keras.Variable([0.5], name="decay", trainable=False)
        average.assign(average * decay + weight * 0.1)
        decay.assign(decay * 0.9)
        loss = keras.ops.mean((keras.ops.mean(weight) - y) ** 2)
        muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
        return {"loss": loss}, None

    program = Program(train, X, Y)
    rows = [RowRange(0, 0, 2), RowRange(1, 2, 4)]
    servers = Servers(program, {"weight": rows, "average": rows}, 2)
    pushes, _, _ = servers.work([held.pulled for held in servers.buffers], [], [], (X, Y))
    servers.push(pushes)
    values = servers.values()
    np.testing.assert_allclose(values["decay"], [0.45], rtol=1e-6)
    np.testing.assert_allclose(values["average"], np.full((4, 3), 0.6), rtol=1e-6)
    assert [piece.shape for piece in servers.division.held()["decay"]] == [(1,)]
