"""Attention gives in steps what Keras gives elsewhere, by muster's kernel where that applies."""

import platform
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
from muster import cpu
from muster._keras import keras

BATCH, TIME, SOURCES, HEADS, FEATURES = 2, 70, 90, 3, 8
MASKS = {
    "sources": (BATCH, 1, 1, SOURCES),
    "pairs": (1, 1, TIME, SOURCES),
    "all": (BATCH, HEADS, TIME, SOURCES),
}
has_package = sys.platform == "linux" and platform.machine() == "x86_64"


@pytest.fixture
def replaced(monkeypatch):
    """How often muster computed attention."""
    seen = []
    original = cpu.attention
    monkeypatch.setattr(cpu, "attention", lambda *args: seen.append(1) or original(*args))
    return seen


def operands(time=TIME, sources=SOURCES):
    rng = np.random.default_rng(0)
    shapes = [(BATCH, each, HEADS, FEATURES) for each in (time, sources, sources)]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def mask_of(kind):
    mask = np.random.default_rng(1).random(MASKS[kind]) < 0.7
    mask[0, 0, 0] = False  # the first query, or all of the first example's, see nothing
    return mask


def with_gradients(**options):
    def function(*operands):
        results, pull_back = jax.vjp(
            lambda *each: keras.ops.dot_product_attention(*each, **options), *operands
        )
        return results, pull_back(jnp.cos(results))

    return function


def assert_equal(function, *arguments):
    for mine, theirs in zip(
        jax.tree.leaves(muster.function(function)(*arguments)),
        jax.tree.leaves(function(*arguments)),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
        assert np.any(np.asarray(mine))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, *MASKS])
def test_results_and_gradients_are_jax_s_own(mask, causal, replaced):
    options = {"mask": None if mask is None else mask_of(mask), "is_causal": causal, "scale": 0.3}
    assert_equal(with_gradients(**options), *operands())
    assert bool(replaced) == has_package


def test_more_queries_than_sources_and_the_default_scale(replaced):
    assert_equal(with_gradients(is_causal=True), *operands(SOURCES, TIME))
    assert bool(replaced) == has_package


def test_gradients_of_gradients(replaced):
    def function(*operands):
        def loss(*each):
            return jnp.sum(jnp.sin(keras.ops.dot_product_attention(*each)))

        gradients = jax.grad(loss, (0, 1, 2))
        return jax.grad(lambda *each: sum(jnp.sum(g**2) for g in gradients(*each)), (0, 1, 2))(*operands)

    assert_equal(function, *operands(9, 7))
    assert bool(replaced) == has_package


def test_each_of_several_examples_by_itself():
    assert_equal(jax.vmap(with_gradients()), *(np.stack([each, 2 * each]) for each in operands(9, 7)))


def test_a_layer_uses_it(replaced):
    layer = keras.layers.MultiHeadAttention(2, 4)
    x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    layer.build(x.shape, x.shape)
    weights = [each.value for each in layer.trainable_variables]

    def function(weights, x):
        def loss(weights):
            return jnp.sum(jnp.sin(layer.stateless_call(weights, [], x, x, use_causal_mask=True)[0]))

        return jax.value_and_grad(loss)(weights)

    assert_equal(function, weights, x)
    assert bool(replaced) == has_package


@pytest.mark.parametrize(
    "options",
    [
        {"bias": np.ones((1, 1, TIME, SOURCES), np.float32)},
        {"attn_logits_soft_cap": 2.0, "flash_attention": False},
        {"mask": np.ones((BATCH, 1, TIME, SOURCES), np.float32)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_is_left_to_jax(options, replaced):
    try:
        with_gradients(**options)(*operands())
    except Exception as exc:  # what Keras itself refuses on CPUs stays refused
        with pytest.raises(type(exc)):
            muster.function(with_gradients(**options))(*operands())
    else:
        assert_equal(with_gradients(**options), *operands())
    assert not replaced


def test_floats_of_16_bits_are_left_to_jax(replaced):
    jax.block_until_ready(
        muster.function(with_gradients())(*(each.astype("bfloat16") for each in operands()))
    )
    assert not replaced
