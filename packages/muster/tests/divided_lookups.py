"""Steps that train tables of which a worker takes the rows that a batch looks up, and that as one step."""

import jax
import numpy as np

import muster
from muster._keras import keras
from muster._row_ids import NO_ROW, unique_ids
from muster.program.passes import LookupStep, split_at_pushes
from muster.program.trace import Program
from muster.program.variables._origins import VariableKind

RNG = np.random.default_rng(0)
ROWS, UNITS = 53, 4
IDS = RNG.integers(0, ROWS, (5, 6, 3)).astype(np.int32)
IDS[0] = IDS[0, 0, 0]  # one id alone
IDS[1, 1] = IDS[1, 0]
WEIGHTS = RNG.normal(size=(5, 6, 1)).astype(np.float32)
BATCHES = list(zip(IDS, WEIGHTS, strict=True))


def evaluated(function):
    """Return a function that is traced once, and computed operation by operation, which compiles little."""
    traced = []

    def call(*args):
        if not traced:
            traced.append(jax.make_jaxpr(function, return_shape=True)(*args))
        closed, shapes = traced[0]
        flat = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shapes), flat)

    return call


class Served:
    """A step whose tables are on the host: what a worker and servers do, in one process."""

    def __init__(self, program, tables, *batch):
        own = [v.path for v in program.variables if v.kind in (VariableKind.SEED, VariableKind.METRIC)]
        step = split_at_pushes(lambda state, batch: program.step(state, *batch), program.initial, batch, own)
        self.program, self.step = program, step
        self.tables = tables
        self.lookups = LookupStep(step, tables, shapes_of(program), batch)
        self.ids = evaluated(self.lookups.ids)
        self.work = evaluated(self.lookups.work)
        self.others = [step.update(group) for group in self.lookups.other_groups()]
        self.update_others = evaluated(self._update_others)
        sizes = jax.eval_shape(self.lookups.ids, [program.initial[path] for path in step.local], batch)
        self.sizes = {path: max(1, sizes[path].size) for path in tables}
        self.parts = {path: self.lookups.update(path, self.sizes[path]) for path in tables}
        self.update_rows = {path: evaluated(part.function) for path, part in self.parts.items() if part}

    def padded(self, path, ids):
        return np.pad(ids, (0, self.sizes[path] - len(ids)), constant_values=NO_ROW)

    def asked(self, state, batch):
        ids = self.ids([state[path] for path in self.step.local], batch)
        return {path: unique_ids(path, ids[path], state[path].shape[0]) for path in self.tables}

    def inputs(self, state, batch):
        """What the worker's program takes: rows of tables, other variables, and the batch."""
        rows = {}
        for path, ids in self.asked(state, batch).items():
            padded = self.padded(path, ids)
            values = np.zeros((len(padded), *state[path].shape[1:]), state[path].dtype)
            values[: len(ids)] = np.asarray(state[path])[ids]
            rows[path] = (padded, values)
        taken, local = ([state[path] for path in paths] for paths in (self.lookups.takes, self.step.local))
        return rows, taken, local, batch

    def run(self, state, *batch):
        asked = self.asked(state, batch)
        pushed, local, outputs = self.work(*self.inputs(state, batch))
        new = {**state, **dict(zip(self.step.local, local, strict=True))}
        new.update(self.update_others(state, pushed))
        for path, ids in asked.items():
            padded, part = self.padded(path, ids), self.parts[path]
            taken = [np.asarray(state[each]) for each in part.takes]
            size = len(state[path])
            taken = [
                each.take(padded, 0, mode="clip") if each.shape[:1] == (size,) else each for each in taken
            ]
            made = self.update_rows[path](*taken, *(pushed[i] for i in part.pushes))
            for each, rows in zip(part.updates, made, strict=True):
                new[each] = np.array(state[each])
                new[each][ids] = rows[: len(ids)]
        return new, outputs

    def _update_others(self, state, pushed):
        new = {}
        for part in self.others:
            made = part.function(*(state[path] for path in part.takes), *(pushed[i] for i in part.pushes))
            new.update(zip(part.updates, made, strict=True))
        return new


def shapes_of(program):
    return {v.path: jax.ShapeDtypeStruct(v.shape, v.dtype) for v in program.variables}


def check(program, tables, batches, rtol=1e-6, atol=1e-6, leaves_others=False):
    """Train undivided and divided.

    Args:
        leaves_others: Whether the undivided step leaves rows that are not looked up as they are. Otherwise
            they are restored after each step.
    """
    served = Served(program, tables, *batches[0])
    whole = evaluated(program.step)
    expected = state = program.initial
    of_table = {}
    for path in tables:
        part = served.lookups.update(path, 1)
        of_table.update(dict.fromkeys(part.updates if part else [], path))
    for batch in batches:
        asked = served.asked(state, batch)
        before, (expected, wanted) = expected, whole(expected, *batch)
        for path, table in of_table.items():
            value = np.array(expected[path] if leaves_others else before[path])
            value[asked[table]] = np.asarray(expected[path])[asked[table]]
            expected = {**expected, path: value}
        state, outputs = served.run(state, *batch)
        jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol, atol), outputs, wanted)
        for path, value in expected.items():
            np.testing.assert_allclose(state[path], value, rtol, atol, err_msg=path)
    assert any((np.asarray(state[path]) != program.initial[path]).any() for path in tables)
    return served


def trained(lookup, optimizer, batch=(IDS[0], WEIGHTS[0])):
    """A step that trains what `lookup` reads, and a layer on top of it."""

    def train(ids, targets):
        found = lookup(ids)
        loss = keras.ops.mean((keras.layers.Dense(1)(found) - targets) ** 2)
        made = optimizer()
        if isinstance(made, keras.optimizers.Optimizer):
            muster.minimize(made, loss, muster.get_or_create_global_step())
        else:
            made.minimize(loss, muster.get_or_create_global_step())
        return {"loss": loss}, None

    return Program(train, *batch, seed=1)


def variable(rows=ROWS, name="table"):
    return keras.Variable(np.sin(np.arange(rows * UNITS).reshape(rows, UNITS)), dtype="float32", name=name)
