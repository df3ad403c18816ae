"""Sums over windows, and their gradients, against JAX's own lowering."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from both_lowerings import both_ways, lowered_text
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from muster._keras import keras

pytestmark = pytest.mark.optimized


@st.composite
def poolings(draw):
    """An operand, and a window over it that fits, often one that is large enough to be replaced."""
    rank = draw(st.integers(2, 4))
    window = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    window[0], window[-1] = draw(st.sampled_from([(3, 3), (3, 4), (5, 3), (window[0], window[-1])]))
    strides = draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank))
    padding = [tuple(draw(st.integers(0, w)) for _ in range(2)) for w in window]
    shape = [draw(st.integers(max(1, w - sum(p)), 7)) for w, p in zip(window, padding, strict=True)]
    # Whole numbers, so that sums are exact in every order.
    values = draw(
        st.sampled_from([np.arange(-8.0, 9.0), np.array([0.0, -0.0, 1.0, np.nan, np.inf, -np.inf])])
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.choice(values, shape), tuple(window), tuple(strides), tuple(padding), rng, values


def summed(window, strides, padding, **dilations):
    return lambda x: lax.reduce_window(
        x, np.zeros((), x.dtype), lax.add, window, strides, padding, **dilations
    )


@settings(max_examples=16, derandomize=True)
@given(poolings())
def test_the_result_and_the_gradient_are_the_same(pooling):
    operand, window, strides, padding, rng, values = pooling
    x = jnp.asarray(operand, jnp.float32)
    pooled = summed(window, strides, padding)
    weight = jnp.asarray(rng.choice(values, jax.eval_shape(pooled, x).shape), jnp.float32)

    def with_gradient(x, weight):
        y, vjp = jax.vjp(pooled, x)
        return jnp.concatenate([y.ravel(), vjp(weight)[0].ravel()])

    ours, theirs = both_ways(with_gradient, x, weight)
    np.testing.assert_array_equal(ours, theirs)


@pytest.fixture
def images():
    return jnp.asarray(np.random.default_rng(0).integers(-4, 5, (4, 12, 11, 3)), jnp.float32)


def squared(window=(1, 3, 3, 1), strides=(1, 2, 2, 1), padding="SAME"):
    return jax.grad(lambda x: jnp.sum(summed(window, strides, padding)(x) ** 2))


def test_it_replaces_jax_s_own_in_the_gradient_too(images):
    ours, theirs = lowered_text(squared(), images)
    assert theirs.count("stablehlo.reduce_window") == 2
    assert "stablehlo.reduce_window" not in ours


@pytest.mark.parametrize(
    ("window", "dilations"),
    [
        ((1, 2, 2, 1), {}),
        ((1, 2, 9, 1), {}),
        ((1, 33, 33, 1), {}),
        ((1, 3, 3, 1), {"base_dilation": (1, 2, 1, 1)}),
        ((1, 3, 3, 1), {"window_dilation": (1, 1, 2, 1)}),
    ],
    ids=["small", "narrow", "large", "dilated", "window dilated"],
)
def test_what_is_left_alone(images, window, dilations):
    pooled = summed(window, (1, 1, 1, 1), "SAME" if not dilations else "VALID", **dilations)
    ours, theirs = lowered_text(pooled, images)
    assert "stablehlo.reduce_window" in ours
    assert ours == theirs


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int32"])
def test_other_types_are_left_alone(images, dtype):
    with jax.enable_x64(dtype == "float64"):
        x = images.astype(dtype)
        ours, theirs = lowered_text(summed((1, 3, 3, 1), (1, 2, 2, 1), "SAME"), x)
    assert ours == theirs


def test_a_window_over_the_whole_image_is_left_alone_in_the_gradient():
    x = jnp.ones((2, 7, 7, 3))
    ours, theirs = lowered_text(squared((1, 7, 7, 1), (1, 7, 7, 1), "VALID"), x)
    assert theirs.count("stablehlo.reduce_window") == 2
    assert ours.count("stablehlo.reduce_window") == 1


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_average_pooling_of_keras_differs_by_rounding(padding):
    x = jnp.asarray(np.random.default_rng(0).standard_normal((4, 14, 13, 5)), jnp.float32)
    layer = keras.layers.AveragePooling2D(3, 2, padding)
    ours, theirs = both_ways(jax.grad(lambda x: jnp.sum(jnp.sin(layer(x)))), x)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert np.any(ours)


def test_under_vmap(images):
    ours, theirs = both_ways(jax.vmap(squared((3, 3, 1), (2, 2, 1))), images)
    np.testing.assert_array_equal(ours, theirs)


def test_gradient_of_the_gradient(images):
    twice = jax.grad(lambda x: jnp.sum(squared()(x) ** 2))
    ours, theirs = both_ways(twice, images)
    np.testing.assert_array_equal(ours, theirs)
    assert np.any(ours)


@pytest.mark.samples("True")
@pytest.mark.parametrize("check_vma", [True, False])
def test_under_shard_map(images, check_vma):
    mesh = jax.make_mesh((2,), ("replica",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("replica")
    for strides in ((1, 1, 1, 1), (1, 3, 3, 1)):
        sharded = jax.shard_map(
            squared(strides=strides), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma
        )
        ours, theirs = both_ways(sharded, images)
        np.testing.assert_array_equal(ours, theirs)
