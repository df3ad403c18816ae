"""Python's numbers of what a step computes of constants alone."""

import jax
import jax.numpy as jnp
import pytest

import muster_tensorflow as tf


def test_sizes_and_branches_of_constants() -> None:
    sizes = tf.constant([2, 3])

    @jax.jit
    def step(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        most = tf.reduce_max(sizes)
        if most > 2:
            x = x + sum(range(most))
        return x * float(most), tf.keras.ops.ones((most, 1))

    total, ones = step(jnp.arange(2))
    assert total.tolist() == [9, 12]
    assert ones.shape == (3, 1)


def test_inputs_have_no_value() -> None:
    with pytest.raises(jax.errors.TracerIntegerConversionError):
        jax.jit(lambda count: range(count + tf.constant(1)))(3)
