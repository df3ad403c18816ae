"""Tables whose optimizer leaves rows without a gradient as they are change by rows, to the same values."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from muster._keras import keras
from muster.program._replicas import Replicas
from muster.program.partition import partitioned
from muster.program.passes import exchanging_rows, with_table_updates

ROWS, UNITS, BATCH = 3000, 4, 12
RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((ROWS, UNITS), np.float32)
KERNEL = RNG.standard_normal((UNITS, 1), np.float32)
IDS = RNG.integers(0, ROWS, (BATCH, 3)).astype(np.int32)
IDS[:, 2] = IDS[0, 2]  # some row is looked up by all
LABELS = RNG.standard_normal((BATCH, 1)).astype(np.float32)

MAKERS = {
    "SGD": lambda: keras.optimizers.SGD(0.1),
    "Adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "clipped by norm": lambda: keras.optimizers.SGD(0.1, clipnorm=0.1),
    "clipped by the norm of all": lambda: keras.optimizers.Adagrad(0.1, global_clipnorm=0.1),
    "a schedule": lambda: keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
}
OTHERS = {
    "Adam": lambda: keras.optimizers.Adam(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "weight decay": lambda: keras.optimizers.SGD(0.1, weight_decay=0.1),
    "average": lambda: keras.optimizers.SGD(0.1, use_ema=True),
    "Ftrl": lambda: keras.optimizers.Ftrl(0.1),
}


def looked_up(table, kernel, ids):
    return jnp.take(table, ids, axis=0).mean(1) @ kernel


def looked_up_twice(table, kernel, ids):
    return (jnp.take(table, ids[:, 0], axis=0) + 2 * jnp.take(table, ids[:, 1], axis=0)) @ kernel


def step_of(make, model=looked_up):
    """A step of training and its state."""
    variables = [keras.Variable(TABLE, name="table"), keras.Variable(KERNEL, name="kernel")]
    optimizer = make()
    optimizer.build(variables)

    def step(state, batch):
        weights, slots = state
        ids, labels = batch
        loss, grads = jax.value_and_grad(lambda w: jnp.mean((model(*w, ids) - labels) ** 2))(weights)
        weights, slots = optimizer.stateless_apply(slots, grads, weights)
        return (weights, slots), loss

    return step, ([v.value for v in variables], [v.value for v in optimizer.variables])


def trained(step, state, steps=3):
    losses = []
    run = jax.jit(step)
    for number in range(steps):
        state, loss = run(state, (np.roll(IDS, number, 1), LABELS))
        losses.append(loss)
    return state, losses


def close(ours, theirs):
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6), ours, theirs
    )


def by_rows(step):
    return lambda state, batch: with_table_updates(step, state, batch)


def dense_operations(step, state):
    """The operations of a step on all rows of a table, but for those that put rows into it."""
    closed = jax.make_jaxpr(step)(state, (IDS, LABELS))
    made = [
        eqn.primitive.name for eqn in closed.jaxpr.eqns for v in eqn.outvars if v.aval.shape[:1] == (ROWS,)
    ]
    return [name for name in made if name != "scatter"]


@pytest.mark.parametrize("model", [looked_up, looked_up_twice])
@pytest.mark.parametrize("name", MAKERS)
def test_only_rows_that_are_looked_up_are_computed(name, model):
    step, state = step_of(MAKERS[name], model)
    assert dense_operations(by_rows(step), state) == []
    close(trained(by_rows(step), state), trained(step, state))


@pytest.mark.parametrize("name", OTHERS)
def test_an_optimizer_that_changes_other_rows_changes_them(name):
    step, state = step_of(OTHERS[name])
    assert dense_operations(by_rows(step), state)
    jax.tree.map(np.testing.assert_array_equal, trained(by_rows(step), state), trained(step, state))


def test_a_gradient_that_is_also_a_result_is_whole():
    step, state = step_of(MAKERS["SGD"])

    def with_norm(state, batch):
        ids, labels = batch
        grads = jax.grad(lambda table: jnp.mean((looked_up(table, state[0][1], ids) - labels) ** 2))(
            state[0][0]
        )
        new, loss = step(state, batch)
        return new, (loss, jnp.linalg.norm(grads))

    close(trained(by_rows(with_norm), state), trained(with_norm, state))


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_workers_send_rows(name):
    step, state = step_of(MAKERS[name])
    sent = []

    def add(flat):
        sent.append(flat.size)
        return jax.lax.psum(flat, "workers")

    def on_worker(index, ids, labels):
        replicas = Replicas(index=index, all_reduce=add, count=3, active=3)
        return partitioned(by_rows(step), state, (ids, labels), replicas)

    parts = IDS.reshape(3, -1, 3), LABELS.reshape(3, -1, 1)
    found = jax.jit(jax.vmap(on_worker, axis_name="workers"))(jnp.arange(3), *parts)
    assert sum(sent) < 3 * IDS.size * (UNITS + 1)
    expected = jax.jit(step)(state, (IDS, LABELS))
    for rank in range(3):
        jax.tree.map(
            lambda ours, theirs, rank=rank: np.testing.assert_allclose(
                ours[rank], theirs, rtol=1e-5, atol=1e-6
            ),
            found,
            expected,
        )


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_devices_send_rows(name):
    step, state = step_of(MAKERS[name])
    mesh = Mesh(jax.devices()[:2], ("replica",))
    everywhere, divided = NamedSharding(mesh, P()), NamedSharding(mesh, P("replica"))

    def everyones(rows):
        summed = rows.summed_by_device([BATCH // 2] * 2)
        return dataclasses.replace(summed, parts=jax.lax.with_sharding_constraint(summed.parts, everywhere))

    def on_devices(state, batch):
        with exchanging_rows(everyones):
            return with_table_updates(step, state, batch)

    placed = jax.device_put(state, everywhere), jax.device_put((IDS, LABELS), divided)
    compiled = jax.jit(on_devices, out_shardings=everywhere).lower(*placed).compile()
    assert f"f32[{ROWS},{UNITS}]{{1,0}} all-" not in compiled.as_text()
    close(compiled(*placed), jax.jit(step)(state, (IDS, LABELS)))
