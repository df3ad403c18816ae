"""Jacobian-vector products of what is computed under a `ForwardAccumulator`."""

import jax.numpy as jnp
import numpy as np
import pytest

import muster
from muster import keras
from muster.program import ForwardAccumulator as Accumulator

X = jnp.asarray([[2.0, 3.0], [1.0, 4.0]])


def test_results_change_as_their_derivatives_say():
    with Accumulator(X, jnp.ones_like(X)) as acc:
        cubes, other, sines = jnp.sum(X**3), jnp.asarray(1.0), jnp.sin(X)

    assert float(acc.jvp(cubes)) == 90
    np.testing.assert_allclose(acc.jvp({"sines": sines})["sines"], np.cos(X), rtol=1e-6)
    np.testing.assert_array_equal(acc.jvp(X), np.ones((2, 2)))
    assert acc.jvp(other) is None
    assert float(acc.jvp(other, unconnected_gradients="zero")) == 0


def test_several_primals_change_at_once_and_variables_do():
    v = keras.Variable(3.0)
    with Accumulator([v, X], [jnp.asarray(2.0), jnp.ones_like(X)]) as acc:
        y = v * v * jnp.sum(X)

    assert float(acc.jvp(y)) == 156


def test_gradients_of_a_tape_change_too():
    v = keras.Variable(3.0)
    with Accumulator(v, jnp.asarray(1.0)) as acc:
        with muster.GradientTape() as tape:
            y = v**3
        gradient = tape.gradient(y, v)

    assert float(acc.jvp(gradient)) == 18


def test_one_within_another_gives_second_derivatives():
    x = jnp.asarray(3.0)
    with Accumulator(x, jnp.asarray(1.0)) as outer:
        with Accumulator(x, jnp.asarray(1.0)) as inner:
            y = x**3
        first = inner.jvp(y)

    assert (float(first), float(outer.jvp(first))) == (27, 18)


def test_functions_use_them():
    v = keras.Variable(2.0)

    @muster.function
    def changes(x):
        with Accumulator([x, v], [jnp.ones_like(x), jnp.asarray(1.0)]) as acc:
            y = x * x * v
        return acc.jvp(y)

    assert float(changes(jnp.asarray(3.0))) == 21
    assert float(changes(jnp.asarray(1.0))) == 5
    with Accumulator(X, jnp.ones_like(X)) as acc:
        y = muster.function(lambda x: jnp.sum(x**2))(X)
    assert float(acc.jvp(y)) == 20


def test_gradients_of_a_step_cannot_be_gone_through():
    v = keras.Variable(3.0)

    @muster.function
    def second():
        with Accumulator(v, jnp.asarray(1.0)) as acc:
            with muster.GradientTape() as tape:
                y = v**3
            gradient = tape.gradient(y, v)
        return acc.jvp(gradient)

    with pytest.raises(muster.GradientError, match="gradients of a tape"):
        second()


@pytest.mark.parametrize(
    ("primals", "tangents", "message"),
    [
        ([X, X], [X, X], "twice"),
        ([X], X, "one structure"),
        (X, jnp.asarray(1.0), "primal's shape"),
    ],
)
def test_tangents_fit_primals(primals, tangents, message):
    with pytest.raises(ValueError, match=message):
        Accumulator(primals, tangents)


def test_primals_are_arrays_of_jax():
    with pytest.raises(TypeError, match="jax.numpy.asarray"):
        Accumulator(np.ones(2), np.ones(2))
