"""Loops that are made anew at every call."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster import GradientTape, keras
from muster.program.gradients import _same_loops

X = jnp.ones((2, 3))
W = jnp.full((3, 3), 0.5)


def loop(factor):
    with GradientTape() as tape:
        tape.watch(W)
        y = jax.lax.scan(lambda c, _: (jnp.tanh(c @ W) * factor, c), X, None, length=3)[0]
    return y, tape.gradient(y, W)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_it_is_compiled_once(factor, caplog):
    first = loop(factor)
    known = len(_same_loops._known)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        second = loop(factor)
    assert [record.message for record in caplog.records if "Compiling" in record.message] == []
    assert len(_same_loops._known) == known
    jax.tree.map(np.testing.assert_array_equal, first, second)


def test_others_are_not_taken_for_the_same():
    expected = jax.grad(lambda w: jnp.sum(jnp.tanh(X @ w)))(W)
    values = []
    for function in (jnp.tanh, jnp.sin, jax.nn.relu, lambda x: x * 2.0, lambda x: x * 3.0):
        with GradientTape() as tape:
            tape.watch(W)
            y = jax.lax.cond(X[0, 0] > 0, lambda f=function: f(X @ W), lambda: X)
        values.append((float(jnp.sum(y)), float(jnp.sum(tape.gradient(y, W)))))
    assert len(set(values)) == len(values)
    assert values[0][1] == pytest.approx(float(jnp.sum(expected)), rel=1e-5)


def test_recurrent_layers_have_the_gradients_that_jax_finds():
    layer = keras.layers.GRU(4)
    layer.build((2, 3, 5))
    x = np.ones((2, 3, 5), np.float32)
    others = [v.value for v in layer.non_trainable_variables]
    expected = jax.grad(lambda values: jnp.sum(layer.stateless_call(values, others, x)[0]))(
        [v.value for v in layer.trainable_variables]
    )
    for _ in range(2):
        with GradientTape() as tape:
            y = layer(x)
        found = tape.gradient(y, layer.trainable_variables)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
