"""Loops compute the same with their products taken out, and the products are out."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from muster._keras import keras
from muster.program.passes._jaxprs import contains, scan_counts
from muster.program.passes._loops import with_wide_products

ROUNDS, BATCH, UNITS = 5, 3, 4
RNG = np.random.default_rng(0)
W, U = RNG.standard_normal((2, UNITS, UNITS)).astype(np.float32)
XS = RNG.standard_normal((ROUNDS, BATCH, UNITS)).astype(np.float32)
H = np.ones((BATCH, UNITS), np.float32)


def recurrent(w, u, xs, h, **options):
    def a_round(h, x):
        h = jnp.tanh(x @ w + h @ u)
        return h, h

    return lax.scan(a_round, h, xs, **options)


def gradients(w, u, xs, h, **options):
    def loss(*args):
        last, every = recurrent(*args, **options)
        return jnp.sum(last) + jnp.sum(jnp.sin(every))

    return jax.grad(loss, argnums=(0, 1, 2, 3))(w, u, xs, h)


def reversed_gradients(*args):
    return gradients(*args, reverse=True)


def unrolled_gradients(*args):
    return gradients(*args, unroll=2)


def in_a_jit(*args):
    return jax.jit(gradients)(*args)


def output_products(w, u, xs, h):
    """Stack a product, and once more a part of it."""

    def a_round(h, x):
        h = jnp.tanh(x + h)
        out = h @ w
        return h, (out, -out * 2, h @ u + x)

    return lax.scan(a_round, h, xs)


def sums(w, u, xs, h):
    """Sum products, their transposes and other values; each iteration reads one of the sums."""

    def a_round(carry, x):
        h, total, turned, bias, read = carry
        h = jnp.tanh(h @ u + x)
        product = h.T @ x
        carry = (h, total + product, (x.T @ h).T + turned, bias + jnp.sum(x, 0), read + product)
        return carry, (jnp.sum(read), h, jnp.sin(h), jnp.cos(h))

    return lax.scan(a_round, (h, w, w, w[0], w), xs)


def batched_sums(w, u, xs, h):
    def a_round(carry, x):
        h, total = carry
        h = jnp.sin(h + x)
        return (h, total + jnp.einsum("bi,bj->bij", h, x)), h

    return lax.scan(a_round, (h, jnp.zeros((BATCH, UNITS, UNITS))), xs)


def stacks_of_stacks(w, u, xs, h):
    def a_round(h, x):
        h = jnp.tanh(h @ u + x)
        return h, (h, 1 - h, h * (1 - h) * x, h)

    return lax.scan(a_round, h, xs)


def counted(w, u, xs, h):
    """No inputs, an integer carry, and a carry and a stack that are numbers."""

    def a_round(carry, _):
        i, h, _ = carry
        return (i + 1, jnp.tanh(h @ w) + i, 2.0), (h @ u, 3.0)

    return lax.scan(a_round, (0, h, 1.0), None, length=ROUNDS)


def out_and_in(f):
    """Flat results of a function as it is, and with wide products; and what the latter computes."""
    args = (W, U, XS, H)
    closed = jax.make_jaxpr(f)(*args)
    wide = jax.make_jaxpr(with_wide_products(closed))(*args)
    return jax.tree.leaves(jax.jit(f)(*args)), jax.jit(jax.extend.core.jaxpr_as_fun(wide))(*args), wide.jaxpr


def products_in_loops(jaxpr):
    """The number of products in the bodies of loops."""
    bodies = [eqn.params["jaxpr"].jaxpr for eqn in jaxpr.eqns if eqn.primitive is lax.scan_p]
    return sum(eqn.primitive is lax.dot_general_p for body in bodies for eqn in body.eqns)


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (recurrent, 1),
        (gradients, 2),
        (reversed_gradients, 2),
        (unrolled_gradients, 2),
        (in_a_jit, 2),
        (output_products, 0),
        (sums, 2),
        (batched_sums, 0),
        (stacks_of_stacks, 1),
        (counted, 2),
    ],
)
def test_results_stay_and_products_leave_the_loop(function, left):
    expected, got, jaxpr = out_and_in(function)
    for one, other in zip(expected, got, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        assert one.dtype == other.dtype
    assert products_in_loops(jaxpr) == left


def test_the_loop_stacks_no_more_than_it_has_to():
    *_, jaxpr = out_and_in(stacks_of_stacks)
    (loop,) = [eqn for eqn in jaxpr.eqns if eqn.primitive is lax.scan_p]
    assert len(loop.outvars) == 2  # the last h, and all of them


def test_a_product_over_two_leading_axes_is_one_over_one():
    others = ((1, 2), (1, 2))

    def f(w, u, xs, h):
        return [lax.dot_general(xs, xs + 1, (axes, ((), ()))) for axes in (((0, 1), (0, 1)), others)]

    expected, got, jaxpr = out_and_in(f)
    for one, other in zip(expected, got, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    products = [eqn.params["dimension_numbers"] for eqn in jaxpr.eqns if eqn.primitive is lax.dot_general_p]
    assert products == [(((0,), (0,)), ((), ())), (others, ((), ()))]


def test_products_stay_where_their_results_are_much_larger():
    wide = np.ones((UNITS, 100), np.float32)

    def f(w, u, xs, h):
        return lax.scan(lambda h, x: (jnp.sum(x @ wide * h[0, 0]) + h, None), h, xs)

    *_, jaxpr = out_and_in(f)
    assert products_in_loops(jaxpr) == 1


@pytest.mark.samples("options1-GRU")
@pytest.mark.parametrize("layer", [keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN])
@pytest.mark.parametrize("options", [{}, {"return_sequences": True, "go_backwards": True}])
def test_recurrent_layers_of_keras(layer, options):
    model = keras.Sequential([keras.Input((ROUNDS, UNITS)), layer(UNITS, **options)])
    weights = [v.value for v in model.trainable_variables]
    rest = [v.value for v in model.non_trainable_variables]

    def loss(weights, x):
        return jnp.sum(jnp.sin(model.stateless_call(weights, rest, x)[0]))

    closed = jax.make_jaxpr(jax.grad(loss))(weights, XS.transpose(1, 0, 2))
    args = [*weights, XS.transpose(1, 0, 2)]
    wide = jax.make_jaxpr(with_wide_products(closed))(*args)
    for one, other in zip(
        jax.extend.core.jaxpr_as_fun(closed)(*args), with_wide_products(closed)(*args), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert products_in_loops(wide.jaxpr) < products_in_loops(closed.jaxpr)
    assert contains(wide.jaxpr, lax.scan_p)


def test_loops_of_an_unknown_number_of_iterations_stay_as_they_are():
    shape = jax.export.symbolic_shape(f"rounds, {BATCH}, {UNITS}")
    shapes = W, U, jax.ShapeDtypeStruct(shape, np.float32), H
    before = jax.make_jaxpr(recurrent)(*shapes)
    after = jax.make_jaxpr(with_wide_products(before))(*shapes)
    assert str(after) == str(before)


def test_the_operands_of_a_scan_are_counted() -> None:
    """JAX tells by parameters that are not public: see `scan_counts`."""

    def loop(first, second, carry, xs):
        def body(carry, x):
            left, right = carry
            return (left * first + x, right + second), left

        return lax.scan(body, (carry, carry), xs)

    def counts(function):
        jaxpr = jax.make_jaxpr(function)(2.0, 3.0, 1.0, np.ones(4, np.float32))
        return [
            (*scan_counts(eqn.params), len(eqn.invars))
            for eqn in jaxpr.jaxpr.eqns
            if eqn.primitive is lax.scan_p
        ]

    assert counts(loop) == [(2, 2, 5)]
    forward, backward = counts(jax.grad(lambda *args: loop(*args)[0][0]))
    assert forward[0] + forward[1] < forward[2]
    assert backward[0] + backward[1] < backward[2]
