"""Quotients by sums that may be zero."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster._ratios import combined, ratio, root


def test_a_ratio_by_zero_is_zero_and_so_are_its_derivatives() -> None:
    total, divisor = jnp.array([3.0, 2.0, 0.0]), jnp.array([2.0, 0.0, 0.0])
    assert ratio(total, divisor).tolist() == [1.5, 0, 0]
    grads = jax.grad(lambda a, b: ratio(a, b).sum(), (0, 1))(total, divisor)
    assert [each.tolist() for each in grads] == [[0.5, 0, 0], [-0.75, 0, 0]]


def test_the_root_of_zero_has_a_derivative() -> None:
    assert jax.value_and_grad(root)(0.0) == (0, 0)
    assert jax.value_and_grad(root)(4.0) == (2, 0.25)
    assert np.isnan(root(jnp.float32(-1)))


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -1.0]])
def test_rows_whose_weights_add_up_to_zero_have_finite_gradients(combiner: str, weights: list[float]) -> None:
    rows = jnp.array([[1.0, 2.0], [3.0, 5.0]])

    def loss(rows: jax.Array, weights: jax.Array) -> jax.Array:
        return jnp.square(combined(rows, weights, combiner)).sum()

    found = jax.value_and_grad(loss, (0, 1))(rows, jnp.array(weights))
    assert all(np.isfinite(each).all() for each in jax.tree.leaves(found))
