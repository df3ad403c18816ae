"""Computing a value of a step again from what variables hold later."""

import jax
import jax.numpy as jnp

from muster.program.passes._markers import reread, with_rereads


def test_a_value_is_computed_from_what_variables_hold_later() -> None:
    def step(total: jax.Array, count: jax.Array, batch: jax.Array) -> list[jax.Array]:
        value = jnp.sqrt(total / count)
        new_total, new_count = total + batch.sum(), count + batch.size
        held = [(total, new_total), (new_total, new_total), (count, new_count), (new_count, new_count)]
        return [new_total, new_count, reread(value, held), reread(batch[0], held)]

    batch = jnp.array([1.0, 2.0, 5.0])
    closed = with_rereads(jax.make_jaxpr(step)(jnp.zeros(()), jnp.zeros(()), batch))
    found = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, jnp.float32(1), jnp.float32(1), batch)
    assert [float(each) for each in found] == [9.0, 4.0, 1.5, 1.0]


def test_what_comes_after_a_variable_is_not_computed_twice() -> None:
    def step(total: jax.Array, batch: jax.Array) -> list[jax.Array]:
        after = total + batch
        return [reread(after * 2, [(total, after), (after, after)])]

    closed = with_rereads(jax.make_jaxpr(step)(1.0, 2.0))
    assert float(jax.core.eval_jaxpr(closed.jaxpr, closed.consts, 1.0, 2.0)[0]) == 6.0
