"""Rows that a step looked up are added to their table; everything else is computed as it was written."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from muster._keras import keras
from muster.program import minimize
from muster.program.passes import all_reduce_on_host
from muster.program.passes._jaxprs import needed_equations
from muster.program.passes._row_updates import with_row_updates
from muster.program.trace._program import Program

ROWS, UNITS, RATE = 50, 3, 0.5
RNG = np.random.default_rng(0)
TABLE, OTHER = RNG.standard_normal((2, ROWS, UNITS), np.float32)
IDS = np.array([4, 7, 4, -1, 0, 4, ROWS - 1], np.int32)


def loss(table, ids=IDS):
    rows = table[ids]
    return jnp.sum(jnp.sin(rows) * jnp.arange(rows.size).reshape(rows.shape))


def gradient(table, ids=IDS):
    return jax.grad(loss)(table, ids)


def several_tables(table, other):
    grads = jax.grad(lambda tables: loss(tables[0] * 1) * loss(tables[1]))([table, other])
    return table - RATE * grads[0], other - RATE * grads[1]


def looked_up_twice(table, other):
    return table - RATE * jax.grad(lambda t: loss(t) * loss(t, IDS[::2] + 1))(table)


def added_and_subtracted(table, other):
    return table - (gradient(table) / 2 - RATE * gradient(other, IDS + 1))


def passed_to_a_function(table, other):
    return table - RATE * jax.jit(gradient)(table)


def of_momentum(table, other):
    other = 0.9 * other - RATE * gradient(table)
    return table + other, other


def read_afterwards(table, other):
    new = table - RATE * gradient(table)
    return new, loss(table), loss(new)


def with_two_uses(table, other):
    g = gradient(table)
    return table - RATE * g, jnp.sum(g**2)


def that_is_a_result(table, other):
    g = RATE * gradient(table)
    return table - g, g


def with_a_penalty(table, other):
    return table - RATE * jax.grad(lambda t: loss(t) + jnp.sum(t**2))(table)


def in_a_loop(table, other):
    return lax.scan(lambda t, ids: (t - RATE * gradient(t, ids), None), table, jnp.stack([IDS, IDS + 1]))[0]


def in_a_branch(table, other):
    return lax.cond(jnp.sum(table) > 0, lambda t: t - RATE * gradient(t), lambda t: t, table)


def of_16_bits(table, other):
    table = table.astype(jnp.bfloat16)
    return table - gradient(table)


APPLIES = {
    "multiplied": (1, lambda table, other: table - RATE * gradient(table)),
    "multiplied by an argument": (1, lambda table, other: table - gradient(table) * other[0, 0]),
    "divided": (1, lambda table, other: table - gradient(table) / jnp.float32(3)),
    "divided by a broadcast": (1, lambda table, other: table - gradient(table) / jnp.full_like(table, 3)),
    "negated": (1, lambda table, other: table + -RATE * gradient(table)),
    "negated twice": (1, lambda table, other: lax.neg(-gradient(table)) + table),
    "not scaled": (1, lambda table, other: table - gradient(table)),
    "ids in two dimensions": (1, lambda table, other: table - gradient(table, IDS[:6].reshape(2, 3))),
    "one id": (1, lambda table, other: table - gradient(table, IDS[:1])),
    "elements": (
        1,
        lambda table, other: table - jax.grad(lambda t: jnp.sum(t[IDS, IDS % UNITS] ** 2))(table),
    ),
    "of another table": (1, lambda table, other: other - gradient(table)),
    "of a computed table": (1, lambda table, other: table * 2 - gradient(table)),
    "several tables": (2, several_tables),
    "looked up twice": (2, looked_up_twice),
    "added and subtracted": (2, added_and_subtracted),
    "passed to a function": (1, passed_to_a_function),
    "of momentum": (1, of_momentum),
    "read afterwards": (1, read_afterwards),
    "with a penalty": (1, with_a_penalty),  # the rows are added to the gradient of the penalty
}
DOES_NOT_APPLY = {
    "with two uses": with_two_uses,
    "that is a result": that_is_a_result,
    "in a loop": in_a_loop,
    "in a branch": in_a_branch,
    "of 16 bits": of_16_bits,
    "clipped": lambda table, other: table - jnp.clip(gradient(table), -1, 1),
    "scaled by an array": lambda table, other: table - gradient(table) * other,
    "a divisor": lambda table, other: table - 1 / (gradient(table) + 5),
    "of whom the table is taken": lambda table, other: gradient(table) - table,
    "multiplied by another": lambda table, other: table - gradient(table) * gradient(other),
    "of another start": lambda table, other: table - jnp.ones_like(table).at[IDS].add(other[IDS]),
    "of more rows than the table": lambda table, other: table - gradient(table, np.tile(IDS, 8)),
    "of a broadcast": lambda table, other: table[0] - gradient(table),
}


def rewritten(function, *args):
    return jax.make_jaxpr(lambda *args: with_row_updates(jax.make_jaxpr(function)(*args))(*args))(*args)


def row_updates(jaxpr):
    """How many times rows are added to something else than zeros."""
    zeros = {
        eqn.outvars[0]
        for eqn in jaxpr.eqns
        if eqn.primitive is lax.broadcast_in_dim_p and not eqn.invars[0].aval.shape
    }
    return sum(
        eqn.invars[0] not in zeros
        for eqn in jaxpr.eqns
        if eqn.primitive is lax.scatter_add_p  # those of a function that is called are not of this level
    )


def computed(closed):
    """Return the primitives that a jaxpr needs for its results, in any order."""
    eqns, _ = needed_equations(closed.jaxpr.eqns, closed.jaxpr.outvars)
    return sorted(
        f"{eqn.primitive} {eqn.params} {[v.aval for v in (*eqn.invars, *eqn.outvars)]}" for eqn in eqns
    )


def same(results, expected):
    for result, value in zip(results, jax.tree.leaves(expected), strict=True):
        assert result.dtype == value.dtype
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", APPLIES)
def test_rows_are_added_to_their_table(name):
    count, function = APPLIES[name]
    closed = rewritten(function, TABLE, OTHER)
    assert row_updates(closed.jaxpr) == count
    same(jax.jit(jax.extend.core.jaxpr_as_fun(closed))(TABLE, OTHER), function(TABLE, OTHER))


@pytest.mark.parametrize("name", DOES_NOT_APPLY)
def test_another_gradient_is_computed_as_it_was_written(name):
    function = DOES_NOT_APPLY[name]
    closed = rewritten(function, TABLE, OTHER)
    assert computed(closed) == computed(jax.make_jaxpr(function)(TABLE, OTHER))
    same(jax.jit(jax.extend.core.jaxpr_as_fun(closed))(TABLE, OTHER), jax.jit(function)(TABLE, OTHER))


@pytest.mark.slow
@given(
    rows=st.sampled_from([1, 2, 5]),
    units=st.sampled_from([1, 3]),
    lookups=st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=4), min_size=1, max_size=3),
    mode=st.sampled_from(["fill", "clip"]),
    factor=st.floats(-2, 2, width=32),
    seed=st.integers(0, 9),
)
@settings(max_examples=16, derandomize=True)
def test_any_ids_are_handled_as_in_the_dense_gradient(rows, units, lookups, mode, factor, seed):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((rows, units), np.float32)

    def step(table, factor):
        def loss(table):
            found = [table.at[np.array(ids)].get(mode=mode, fill_value=0) for ids in lookups]
            return sum(jnp.sum(i * jnp.sin(values)) for i, values in enumerate(found, 1))

        return table - factor * jax.grad(loss)(table)

    closed = jax.make_jaxpr(step)(table, np.float32(factor))
    same(with_row_updates(closed)(table, np.float32(factor)), step(table, factor))


def test_an_infinite_factor_leaves_the_other_rows():
    (new,) = with_row_updates(jax.make_jaxpr(lambda table: table - jnp.inf * gradient(table))(TABLE))(TABLE)
    assert not np.isfinite(new[IDS]).all()
    others = np.setdiff1d(np.arange(ROWS), IDS % ROWS)
    np.testing.assert_array_equal(new[others], TABLE[others])


def test_effects_stay():
    seen = []

    def step(table):
        new = table - gradient(table)
        jax.debug.callback(seen.append, jnp.sum(table))
        return new

    jax.block_until_ready(with_row_updates(jax.make_jaxpr(step)(TABLE))(TABLE))
    jax.effects_barrier()
    np.testing.assert_allclose(seen, [TABLE.sum()], rtol=1e-5)


def test_gradients_that_meet_others_are_computed_as_they_were_written():
    def step(table):
        return table - RATE * all_reduce_on_host(gradient(table).reshape(-1)).reshape(table.shape)

    assert computed(rewritten(step, TABLE)) == computed(jax.make_jaxpr(step)(TABLE))


def test_gradients_added_over_devices_are_computed_as_they_were_written():
    mesh = jax.make_mesh((1,), ("replica",))
    spec = jax.P()

    def summed(rewrite):
        def step(table):
            closed = jax.make_jaxpr(lambda table: table - RATE * lax.psum(gradient(table), "replica"))(table)
            compute = with_row_updates(closed) if rewrite else jax.extend.core.jaxpr_as_fun(closed)
            return compute(table)[0]

        return jax.make_jaxpr(jax.shard_map(step, mesh=mesh, in_specs=spec, out_specs=spec))(TABLE)

    assert computed(summed(True)) == computed(summed(False))


def program(optimizer, rows, ids):
    def function(ids, labels):
        embedded = keras.layers.Embedding(rows, 16)(ids)
        logits = keras.layers.Dense(2)(keras.layers.Flatten()(embedded))
        loss = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        loss = keras.ops.mean(loss)
        minimize(optimizer(), loss)
        return {"loss": loss}, None

    return Program(function, ids, np.zeros(len(ids), np.int32), seed=0)


OPTIMIZERS = {
    "sgd": (1, lambda: keras.optimizers.SGD(0.1)),
    "scaled loss": (1, lambda: keras.optimizers.SGD(0.1, loss_scale_factor=8.0)),
    "momentum": (1, lambda: keras.optimizers.SGD(0.1, momentum=0.9)),
    "adagrad": (0, lambda: keras.optimizers.Adagrad(0.1)),
    "clipped by norm": (0, lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.1)),
}


@pytest.mark.samples("sgd", "scaled loss")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_program_updates_the_rows_of_its_embedding(name):
    count, optimizer = OPTIMIZERS[name]
    ids = RNG.integers(0, 40, (8, 3)).astype(np.int32)
    labels = RNG.integers(0, 2, 8).astype(np.int32)
    model = program(optimizer, 40, ids)
    assert row_updates(jax.make_jaxpr(model.step)(model.initial, ids, labels).jaxpr) == count
    step = jax.jit(model.step, donate_argnums=0)
    state, expected = jax.tree.map(jnp.copy, model.initial), model.initial
    for _ in range(3):
        state, outputs = step(state, ids, labels)
        expected, expected_outputs = model.step_eagerly(expected, ids, labels)
    same(jax.tree.leaves((state, outputs)), (expected, expected_outputs))


@pytest.mark.samples("1")
@pytest.mark.optimized
@pytest.mark.parametrize("steps", [1, 3])
def test_a_table_that_is_donated_stays_where_it_is(steps):
    ids, labels = np.zeros((steps, 8, 3), np.int32), np.zeros((steps, 8), np.int32)
    model = program(lambda: keras.optimizers.SGD(0.1), 10_000, ids[0])

    def several(state, ids, labels):
        return lax.scan(lambda state, batch: model.step(state, *batch), state, (ids, labels))

    run = jax.jit(several if steps > 1 else lambda s, i, y: model.step(s, i[0], y[0]), donate_argnums=0)
    memory = run.lower(model.initial, ids, labels).compile().memory_analysis()
    table = max(value.nbytes for value in model.initial.values())
    assert memory.alias_size_in_bytes >= table
    assert memory.temp_size_in_bytes < table / 2


def test_an_unknown_number_of_rows_is_added_as_it_was_written():
    def added(table, ids):
        return table + jnp.zeros_like(table).at[ids].add(1.0)

    shapes = TABLE, jax.ShapeDtypeStruct(jax.export.symbolic_shape("rows"), np.int32)
    before = jax.make_jaxpr(added)(*shapes)
    after = jax.make_jaxpr(with_row_updates(before))(*shapes)
    assert str(after) == str(before)
