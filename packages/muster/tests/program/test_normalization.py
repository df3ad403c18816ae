"""Normalization and GELU give in steps what Keras gives elsewhere, by muster's kernels where those apply."""

import platform
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import muster
from muster import cpu
from muster._keras import keras

NAMES = ("layer_norm", "moments", "batch_norm", "gelu")
SHAPE = 3, 5, 7, 24
has_package = sys.platform == "linux" and platform.machine() == "x86_64"


@pytest.fixture
def replaced(monkeypatch):
    """What muster computed, by name."""
    seen = set()
    for name in NAMES:
        original = getattr(cpu, name)
        noting = lambda *args, name=name, original=original: seen.add(name) or original(*args)  # noqa: E731
        monkeypatch.setattr(cpu, name, noting)
    monkeypatch.setattr(cpu, "LEAST_NUMBERS", 1)
    return seen


def of(name, shape=SHAPE):
    """A function of arrays, the arrays, and what muster computes of it."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    x, gamma, beta = 3 + draw(*shape), draw(shape[-1]), draw(shape[-1])
    if name == "layer":
        return lambda x, *each: keras.ops.layer_normalization(x, *each, epsilon=1e-3), (x, gamma, beta)
    if name == "layer without a scale":
        return keras.ops.layer_normalization, (x,)
    if name == "gelu":
        return lambda x: keras.activations.gelu(x - 3), (x,)
    if name == "moments":
        return lambda x: keras.ops.moments(x, [*range(len(shape) - 1)]), (x,)

    def batch(x, gamma, beta):
        return keras.ops.batch_normalization(x, *keras.ops.moments(x, (0, 1, 2)), -1, beta, gamma)

    return batch, (x, gamma, beta)


KINDS = {
    "layer": {"layer_norm"},
    "layer without a scale": {"layer_norm"},
    "moments": {"moments"},
    "batch": {"moments", "batch_norm"},
    "gelu": {"gelu"},
}


def with_gradients(function):
    def both(*operands):
        results, pull_back = jax.vjp(function, *operands)
        return results, pull_back(jax.tree.map(jnp.cos, results))

    return both


def assert_equal(function, *arguments):
    for mine, theirs in zip(
        jax.tree.leaves(muster.function(function)(*arguments)),
        jax.tree.leaves(function(*arguments)),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=2e-5)
        assert np.any(np.asarray(mine))


@pytest.mark.parametrize("kind", KINDS)
def test_results_and_gradients_are_keras_own(kind, replaced):
    function, operands = of(kind)
    assert_equal(with_gradients(function), *operands)
    assert replaced == (KINDS[kind] if has_package else set())


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_gradients(kind, replaced):
    function, operands = of(kind, (2, 3, 1, 6))

    def loss(*operands):
        return sum(jnp.sum(jnp.sin(each)) for each in jax.tree.leaves(function(*operands)))

    def second(*operands):
        return jax.grad(lambda *each: sum(jnp.sum(g**2) for g in jax.grad(loss, (0,))(*each)))(*operands)

    assert_equal(second, *operands)
    assert bool(replaced) == has_package


@pytest.mark.parametrize("kind", KINDS)
def test_each_of_several_examples_by_itself(kind, replaced):
    function, operands = of(kind)
    assert_equal(jax.vmap(with_gradients(function)), *(np.stack([each, 2 * each]) for each in operands))


@pytest.mark.parametrize("layer", [keras.layers.LayerNormalization, keras.layers.BatchNormalization])
def test_layers_use_it(layer, replaced):
    made = layer()
    x = np.random.default_rng(0).standard_normal((4, 6, 8)).astype(np.float32)
    made.build(x.shape)
    weights, others = (
        [each.value for each in variables]
        for variables in (made.trainable_variables, made.non_trainable_variables)
    )
    options = {} if layer is keras.layers.LayerNormalization else {"training": True}

    def function(weights, x):
        def loss(weights):
            found, changed = made.stateless_call(weights, others, x, **options)
            return jnp.sum(jnp.sin(found)), changed

        return jax.value_and_grad(loss, has_aux=True)(weights)

    assert_equal(function, weights, x)
    assert bool(replaced) == has_package


def test_what_is_left_to_jax(replaced):
    (x, gamma, beta) = of("layer")[1]
    axes = {"axis": [1, 2, 3]}
    wide = np.ones(SHAPE[1:], np.float32)
    assert_equal(lambda x: keras.ops.layer_normalization(x, gamma=wide, **axes), x)
    assert_equal(lambda x: keras.activations.gelu(x, approximate=True), x)
    assert_equal(lambda x: keras.ops.moments(x, [1, 2]), x)
    assert_equal(lambda x: keras.ops.moments(x, [0, 1, 2], keepdims=True), x)
    jax.block_until_ready(
        muster.function(of("layer")[0])(*(each.astype("bfloat16") for each in (x, gamma, beta)))
    )
    assert not replaced


def test_small_arrays_are_left_to_jax(replaced, monkeypatch):
    monkeypatch.setattr(cpu, "LEAST_NUMBERS", np.prod(SHAPE) + 1)
    function, operands = of("layer")
    assert_equal(function, *operands)
    assert not replaced


def test_gelu_of_large_and_small_numbers():
    x = np.concatenate([np.linspace(-14, 14, 20001), [0, -0.0, np.inf, 1e30, np.nan]]).astype(np.float32)
    exact = 0.5 * x.astype(np.float64) * scipy.special.erfc(-x.astype(np.float64) * 0.5**0.5)
    cpu.prepare()
    found = jax.jit(cpu.gelu)(x)
    np.testing.assert_allclose(found, exact, rtol=2e-5, atol=1e-36)
    (slope,) = jax.jit(lambda x: jax.vjp(cpu.gelu, x)[1](jnp.ones_like(x)))(x[:20001])
    np.testing.assert_allclose(slope, np.gradient(exact[:20001], x[:20001].astype(np.float64)), atol=1e-4)
