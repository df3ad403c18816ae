"""A step that is cut at its reductions computes the same as in one piece."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster._errors import TraceError
from muster.program.passes import all_reduce_on_host, split_at_all_reduces


def run(parts, args, add):
    """Run parts one after the other; ``add`` reduces values in between."""
    values = jax.tree.leaves(args)
    for part in parts:
        results = jax.jit(part.function)(*[values[i] for i in part.takes])
        count = len(part.sums)
        values += [*map(add, results[:count]), *results[count:]]
    return results


def doubled(function, *args):
    """Run a step as one of two processes with equal values."""
    parts, structure = split_at_all_reduces(function, *args, donated=0)
    return parts, jax.tree.unflatten(structure, run(parts, args, lambda value: 2 * value))


def test_values_meet_one_after_the_other():
    def step(x, y):
        first = all_reduce_on_host(jnp.stack([x, y]))
        second = all_reduce_on_host(first * x)
        return {"x": x, "one": jnp.float32(1), "first": first, "second": second, "sum": second.sum() + y}

    parts, results = doubled(step, np.float32(3), np.float32(5))
    assert [len(part.sums) for part in parts] == [1, 1, 0]
    assert results.pop("one") == 1
    np.testing.assert_allclose(results.pop("first"), [6, 10])
    np.testing.assert_allclose(results.pop("second"), [36, 60])
    assert (results["x"], results["sum"]) == (3, 101)


def test_values_that_do_not_depend_on_each_other_meet_at_once():
    def step(x):
        return all_reduce_on_host(x) + all_reduce_on_host(x * x), all_reduce_on_host(x[:1])

    parts, (both, single) = doubled(step, np.arange(3, dtype=np.float32))
    assert [len(part.sums) for part in parts] == [3, 0]
    np.testing.assert_allclose(both, [0, 4, 12])
    np.testing.assert_allclose(single, [0])


def test_a_step_in_which_nothing_meets_is_one_part():
    constant = jnp.arange(3.0)
    parts, result = doubled(lambda x: x + constant, np.float32(1))
    assert len(parts) == 1
    np.testing.assert_allclose(result, [1, 2, 3])


def test_values_may_be_reduced_by_jit_compiled_functions():
    @jax.jit
    def mean(x):
        return all_reduce_on_host(x) / 2

    @jax.jit
    def standardized(x):
        return x - mean(x)

    parts, result = doubled(lambda x: mean(standardized(x) + 1), np.arange(3, dtype=np.float32))
    assert [len(part.sums) for part in parts] == [1, 1, 0]
    np.testing.assert_allclose(result, [1, 1, 1])


def test_an_argument_is_overwritten_by_the_last_part_that_uses_it():
    def step(state, x):
        seed, weight, unused = state
        gradient = all_reduce_on_host(x * weight + seed)
        return seed, weight - gradient, unused, gradient

    state = [np.float32(i) for i in range(3)]
    (first, last), _ = split_at_all_reduces(step, state, np.float32(1), donated=3)
    donated = [{part.takes[i] for i in part.donates} for part in (first, last)]
    assert donated[0] == set()
    assert {0, 1, 2} <= donated[1]
    assert 3 not in donated[0] | donated[1]


def test_a_part_is_the_same_in_every_run():
    def step(x):
        kept = [jnp.sin(x * i) for i in range(20)]
        return all_reduce_on_host(sum(kept)) * jnp.stack(kept)

    texts = set()
    for _ in range(2):
        parts, _ = split_at_all_reduces(step, np.ones(3, np.float32), donated=0)
        texts.add(jax.jit(parts[0].function).lower(np.ones(3, np.float32)).as_text())
    assert len(texts) == 1


def test_values_that_meet_are_differentiated():
    parts, gradient = doubled(
        jax.grad(lambda x: jnp.sum(all_reduce_on_host(x**2))), np.array([3.0], np.float32)
    )
    assert sum(len(part.sums) for part in parts) >= 1
    np.testing.assert_allclose(gradient, [12])


@pytest.mark.parametrize(
    ("step", "named"),
    [
        (lambda x: jax.lax.cond(x[0] > 0, all_reduce_on_host, lambda x: x, x), "cond"),
        (lambda x: jax.lax.scan(lambda carry, _: (all_reduce_on_host(carry), None), x, length=2)[0], "scan"),
    ],
)
def test_a_step_cannot_be_cut_inside_of_a_loop_or_a_branch(step, named):
    with pytest.raises(TraceError, match=f"inside of a {named}"):
        split_at_all_reduces(step, np.ones(2, np.float32), donated=0)


def test_each_result_may_have_the_memory_of_the_argument_that_it_replaces():
    """Also where the second is used first: XLA copies an array whose memory another result was given."""

    def step(table, slots, x):
        total = all_reduce_on_host(x)
        slots = slots.at[0].add(total)
        return table.at[0].add(slots[0] * total), slots

    values = [jnp.ones((1000, 3)), jnp.zeros((1000, 3)), jnp.ones(3)]
    (first, last), _ = split_at_all_reduces(step, *values, donated=2)
    values += first.function(*[values[i] for i in first.takes])
    assert last.takes[:2] == (0, 1)
    assert last.donates[:2] == (0, 1)
    taken = [values[i] for i in last.takes]
    compiled = jax.jit(last.function, donate_argnums=last.donates).lower(*taken).compile()
    assert "= f32[1000,3]{1,0} copy(" not in compiled.as_text()


def test_nothing_is_computed_or_kept_that_no_result_needs():
    def step(x):
        unused = jnp.zeros((1000, 1000)).at[0, 0].set(x[0])
        total = all_reduce_on_host(x)
        return total, unused.at[0, 0].add(total[0]).shape[0]

    parts, _ = split_at_all_reduces(step, jnp.ones(3), donated=0)
    assert [len(part.keeps) for part in parts] == [0, 0]
    assert "1000" not in str(jax.make_jaxpr(parts[0].function)(*[jnp.ones(3)] * len(parts[0].takes)))


def test_what_a_step_prints_is_printed(capfd):
    def step(x):
        jax.debug.print("before {}", x[0])
        total = all_reduce_on_host(x)
        jax.debug.print("after {}", total[0])
        return total

    doubled(step, np.full(2, 3, np.float32))
    jax.effects_barrier()
    assert capfd.readouterr().out == "before 3.0\nafter 6.0\n"
