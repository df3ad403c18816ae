"""An update of a table changes the rows that were looked up, however the step is computed."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from muster.program import update_rows
from muster.program._replicas import Replicas, Shares
from muster.program.partition import partitioned
from muster.program.passes import all_reduce_on_host, split_at_all_reduces
from muster.program.passes._gradient_markers import has_gradient_markers
from muster.program.passes._sparse_gradients import by_masks, with_sparse_gradients
from sparse_steps import FACTORS, IDS, PROGRAM, ROWS, TABLE, check_steps


@pytest.mark.parametrize("masked", [False, True], ids=["by rows", "masked"])
def test_on_one_device(masked):
    compute = jax.jit(PROGRAM.step)

    def one(state, ids, factors):
        if masked:
            with by_masks():
                return compute(state, ids, factors)[0]
        return compute(state, ids, factors)[0]

    check_steps(one)


@pytest.mark.samples("2-by rows", "4-masked")
@pytest.mark.parametrize("masked", [False, True], ids=["by rows", "masked"])
@pytest.mark.parametrize("count", [2, 4])
def test_on_replicas(count, masked):
    sizes = []

    def add(flat):
        sizes.append(flat.size)
        return lax.psum(flat, "replicas")

    def on_replica(index, state, ids, factors):
        replicas = Replicas(index=index, all_reduce=add, count=count, active=count)
        return PROGRAM.step(state, ids, factors, replicas=replicas)[0]

    on_all = jax.jit(jax.vmap(on_replica, (0, None, 0, 0), axis_name="replicas"))

    def one(state, ids, factors):
        rows = [each.reshape(count, -1, *each.shape[1:]) for each in (ids, factors)]
        with by_masks() if masked else contextlib.nullcontext():
            states = on_all(jnp.arange(count), state, *rows)
        return {path: value[-1] for path, value in states.items()}

    check_steps(one)
    if not masked:
        assert max(sizes) < ROWS  # and not the whole gradient


def test_on_replicas_with_different_numbers_of_rows():
    steps = []
    for rank, (begin, end) in enumerate([(0, 5), (5, 8)]):

        def on_worker(state, ids, factors, index, own=end - begin):
            shares = Shares((5, 3), own)
            replicas = Replicas(index=index, all_reduce=all_reduce_on_host, count=2, active=2, shares=shares)
            return PROGRAM.step(state, ids, factors, replicas=replicas)[0]

        arguments = PROGRAM.initial, IDS[0][begin:end], FACTORS[0][begin:end], jnp.uint32(rank)
        steps.append((split_at_all_reduces(on_worker, *arguments, donated=0), rank, slice(begin, end)))

    def one(state, ids, factors):
        values = [
            [*jax.tree.leaves((state, ids[rows], factors[rows])), jnp.uint32(rank)] for _, rank, rows in steps
        ]
        for parts in zip(*(parts for (parts, _), _, _ in steps), strict=True):
            made = [
                part.function(*(taken[i] for i in part.takes))
                for part, taken in zip(parts, values, strict=True)
            ]
            count = len(parts[0].sums)
            sums = [sum(each) for each in zip(*(results[:count] for results in made), strict=True)]
            for taken, results in zip(values, made, strict=True):
                taken += [*sums, *results[count:]]
        (_, structure), _, _ = steps[0]
        return jax.tree.unflatten(structure, made[0])

    check_steps(one)


def test_on_workers_that_divide_a_global_batch():
    def on_worker(index, state, ids, factors):
        replicas = Replicas(index=index, all_reduce=lambda flat: lax.psum(flat, "workers"), count=2, active=2)
        return partitioned(lambda state, batch: PROGRAM.step(state, *batch), state, (ids, factors), replicas)[
            0
        ]

    on_all = jax.jit(jax.vmap(on_worker, (0, None, 0, 0), axis_name="workers"))

    def one(state, ids, factors):
        rows = [each.reshape(2, -1, *each.shape[1:]) for each in (ids, factors)]
        return {path: value[-1] for path, value in on_all(jnp.arange(2), state, *rows).items()}

    check_steps(one)


def halved(gradient, table):
    return (table - gradient / 2,)


def lookup_gradient(table, ids=IDS[0]):
    return jax.grad(lambda table: jnp.sum(table[ids] * FACTORS[0]))(table)


def of_counts(gradient, table):
    return (table + 1,)


def rewritten(function, *args):
    closed = jax.make_jaxpr(function)(*args)
    closed = jax.make_jaxpr(with_sparse_gradients(closed))(*args)
    assert not has_gradient_markers(closed)
    return jax.jit(jax.extend.core.jaxpr_as_fun(closed))(*args)


def counted(gradient, table=TABLE):
    return update_rows(of_counts, gradient, [table])[0]


SPARSE = {
    "scaled": lambda t: counted(lookup_gradient(t) * t[0, 0]),
    "added": lambda t: counted(lookup_gradient(t) + lookup_gradient(t, IDS[2])),
    "in a function": lambda t: counted(jax.jit(lookup_gradient)(t)),
    "clipped": lambda t: counted(jnp.clip(lookup_gradient(t), -0.1, 0.1)),
    "used elsewhere": lambda t: counted(lookup_gradient(t)) + 0 * jnp.sum(lookup_gradient(t) ** 2),
    "in a branch": lambda t: lax.cond(t[0, 0] < 9, lambda t: counted(lookup_gradient(t), t), lambda t: t, t),
    "in a loop": lambda t: lax.scan(lambda t, _: (counted(lookup_gradient(t), t), None), t, length=1)[0],
}
DENSE = {
    "with a penalty": lambda t: counted(lookup_gradient(t) + t),
    "of all": lambda t: counted(jax.grad(lambda t: jnp.sum(t**2))(t)),
    "shifted": lambda t: counted(lookup_gradient(t) + 1),
    "of elements": lambda t: counted(jax.grad(lambda t: jnp.sum(t[IDS[0], 0]))(t)),
    "divisor": lambda t: counted(1 / lookup_gradient(t)),
}


@pytest.mark.parametrize("name", SPARSE)
def test_rows_that_were_not_looked_up_stay(name):
    (made,) = rewritten(SPARSE[name], TABLE)
    looked_up = np.union1d(IDS[0], IDS[2] if name == "added" else [])
    changed = np.flatnonzero((np.asarray(made) != TABLE).any(axis=1))
    np.testing.assert_array_equal(changed, looked_up)


@pytest.mark.parametrize("name", DENSE)
def test_other_gradients_change_all_rows(name):
    np.testing.assert_array_equal(rewritten(DENSE[name], TABLE)[0], TABLE + 1)


def test_rows_that_the_table_does_not_have_are_left_out():
    def function(table):
        return update_rows(halved, lookup_gradient(table, np.array([3, 70, -2, -70, 3, 1, 1, 1])), [table])[0]

    gradient = np.zeros_like(TABLE)
    np.add.at(gradient, [3, 58, 3, 1, 1, 1], FACTORS[0][[0, 2, 4, 5, 6, 7]])
    np.testing.assert_allclose(rewritten(function, TABLE)[0], TABLE - gradient / 2, rtol=1e-5)


def test_an_update_can_be_differentiated():
    def function(table, other):
        def loss(other):
            gradient = jax.grad(lambda table: jnp.sum(table[IDS[0]] * other))(table)
            return jnp.sum(update_rows(halved, gradient, [table])[0] ** 2)

        return jax.grad(loss)(other)

    (made,) = rewritten(function, TABLE, FACTORS[0])
    gradient = np.zeros_like(TABLE)
    np.add.at(gradient, IDS[0], FACTORS[0])
    np.testing.assert_allclose(made, -(TABLE - gradient / 2)[IDS[0]], rtol=1e-5)
