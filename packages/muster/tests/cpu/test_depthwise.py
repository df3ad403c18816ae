"""Depthwise convolutions and their gradients: the same results as JAX's, exactly for small whole numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from both_lowerings import both_ways, lowered_text
from jax import lax

pytestmark = pytest.mark.optimized

BATCH = 3


def numbers(rank):
    letters = "DHW"[-rank:]
    return f"N{letters}C", f"{letters}IO", f"N{letters}C"


def depthwise(features, rank=2, **options):
    """The convolution as a function of images and kernel."""
    strides = options.pop("strides", (1,) * rank)
    padding = options.pop("padding", "SAME")
    layout = {"dimension_numbers": numbers(rank), "feature_group_count": features}
    return lambda x, k: lax.conv_general_dilated(x, k, strides, padding, **layout | options)


def whole(seed, *shape, dtype=jnp.float32):
    return jnp.asarray(np.random.default_rng(seed).integers(-4, 5, shape), dtype)


def with_gradients(function):
    def both(x, k):
        y, vjp = jax.vjp(function, x, k)
        return jnp.concatenate([v.ravel() for v in (y, *vjp(jnp.round(jnp.cos(y) * 4)))])

    return both


@pytest.mark.samples("strides", "spread", "negative padding", "line")
@pytest.mark.parametrize(
    ("size", "window", "options"),
    [
        ((8, 7), (3, 3), {}),
        ((6, 7), (3, 2), {"strides": (2, 2)}),
        ((7, 8), (3, 2), {"strides": (2, 3), "padding": "VALID"}),
        ((8, 9), (2, 3), {"rhs_dilation": (2, 1)}),
        ((7, 7), (5, 5), {"padding": [(0, 4), (1, 0)]}),
        ((9, 8), (3, 2), {"strides": (2, 1), "padding": [(-1, 3), (2, -1)]}),
        ((5, 5), (1, 1), {"strides": (3, 3)}),
        ((8, 8), (7, 7), {}),
        ((11,), (4,), {"strides": (2,)}),
        ((4, 5, 4), (2, 3, 2), {"strides": (1, 2, 2)}),
    ],
    ids=[
        "same",
        "strides",
        "valid",
        "spread",
        "uneven padding",
        "negative padding",
        "pointwise",
        "large",
        "line",
        "volume",
    ],
)
def test_the_result_and_both_gradients_are_the_same(size, window, options):
    x, k = whole(0, BATCH, *size, 4), whole(1, *window, 1, 4)
    function = depthwise(4, len(size), **options)
    ours, theirs = lowered_text(with_gradients(function), x, k)
    assert ("stablehlo.convolution" in ours, theirs.count("stablehlo.convolution")) == (False, 3)
    ours, theirs = both_ways(with_gradients(function), x, k)
    np.testing.assert_array_equal(ours, theirs)
    assert np.any(ours[: x.size])
    assert np.any(ours[-k.size :])


@pytest.mark.samples("13")
@pytest.mark.parametrize("batch", [1, 8, 13])
def test_a_batch_of_any_size_has_its_kernel_s_gradient(batch):
    x, k = whole(0, batch, 6, 6, 8), whole(1, 3, 1, 1, 8)
    ours, theirs = both_ways(jax.grad(lambda k, x: jnp.sum(depthwise(8)(x, k) ** 2)), k, x)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("function", "kernel_shape"),
    [
        (depthwise(4), (3, 3, 1, 8)),
        (depthwise(2), (3, 3, 2, 4)),
        (depthwise(4), (8, 8, 1, 4)),
        (depthwise(4, dimension_numbers=("NCHW", "HWIO", "NCHW")), (3, 3, 1, 4)),
    ],
    ids=["several outputs a feature", "groups of two", "large window", "features first"],
)
def test_what_is_left_to_jax(function, kernel_shape):
    x = whole(0, 2, 4, 4, 4)
    ours, theirs = lowered_text(function, x, whole(1, *kernel_shape))
    assert ours == theirs


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_other_types_are_left_alone(dtype):
    x, k = whole(0, 2, 6, 6, 4, dtype=dtype), whole(1, 3, 3, 1, 4, dtype=dtype)
    ours, theirs = lowered_text(depthwise(4), x, k)
    assert ours == theirs


@pytest.mark.samples("(2, 2)")
@pytest.mark.parametrize("strides", [(1, 1), (2, 2)], ids=str)
def test_gradients_of_the_gradients(strides):
    x, k, along_x, along_k = (whole(seed, *s) for seed, s in enumerate(((2, 6, 7, 3), (2, 2, 1, 3)) * 2))

    def slope(x, k):
        function = depthwise(3, strides=strides)
        gradients = jax.grad(lambda x, k: jnp.sum(function(x, k) ** 2), argnums=(0, 1))(x, k)
        return sum(map(jnp.vdot, gradients, (along_x, along_k)))

    def twice(x, k):
        return jnp.concatenate([g.ravel() for g in jax.grad(slope, argnums=(0, 1))(x, k)])

    ours, theirs = both_ways(twice, x, k)
    np.testing.assert_array_equal(ours, theirs)
    assert np.any(ours)


@pytest.mark.samples("nan")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_a_number_reaches_the_same_results(bad):
    x, k = whole(0, 2, 7, 7, 4).at[1, 3, 3, 2].set(bad), jnp.abs(whole(1, 3, 3, 1, 4)) + 1
    for function in (depthwise(4), lambda x, k: jax.grad(lambda k: jnp.sum(depthwise(4)(x, k)))(k)):
        ours, theirs = both_ways(function, x, k)
        np.testing.assert_array_equal(ours, theirs)
        assert not np.all(np.isfinite(ours))


def test_under_vmap():
    x, k = whole(0, 3, 2, 6, 6, 4), whole(1, 2, 2, 1, 4)
    ours, theirs = both_ways(jax.vmap(with_gradients(depthwise(4)), in_axes=(0, None)), x, k)
    np.testing.assert_array_equal(ours, theirs)


def test_under_shard_map():
    mesh = jax.make_mesh((2,), ("replica",), axis_types=(jax.sharding.AxisType.Auto,))
    spec, all_of_it = jax.sharding.PartitionSpec("replica"), jax.sharding.PartitionSpec()

    def step(x, k):
        return depthwise(4)(x, k) * jnp.sum(jax.grad(lambda k: jnp.sum(depthwise(4)(x, k) ** 2))(k))

    sharded = jax.shard_map(step, mesh=mesh, in_specs=(spec, all_of_it), out_specs=spec)
    ours, theirs = both_ways(sharded, whole(0, 4, 6, 6, 4), whole(1, 2, 2, 1, 4))
    np.testing.assert_array_equal(ours, theirs)
