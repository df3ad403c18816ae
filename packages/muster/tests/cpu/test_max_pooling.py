"""Max pooling's gradient, against JAX's own lowering: which element is chosen must be the same exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from both_lowerings import both_ways, lowered_text
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

pytestmark = pytest.mark.optimized

DTYPES = ["float32", "float16", "bfloat16", "float64"]


@st.composite
def poolings(draw):
    """An operand with many ties, and a window over it that fits."""
    rank = draw(st.integers(1, 4))
    window = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    strides = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    padding = [tuple(draw(st.integers(0, w - 1)) for _ in range(2)) for w in window]
    shape = [draw(st.integers(max(1, w - sum(p)), 6)) for w, p in zip(window, padding, strict=True)]
    values = draw(
        st.sampled_from([[0.0, 1.0, 2.0], [0.0, -0.0, 1.0, np.nan], [np.inf, -np.inf, 0.0, np.nan]])
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    operand = rng.choice(values, shape)
    return operand, tuple(window), tuple(strides), tuple(padding), draw(st.sampled_from(DTYPES)), rng


def gradient_of(window, strides, padding, least=False):
    start, fold = (jnp.inf, lax.min) if least else (-jnp.inf, lax.max)

    def pooled(x):
        return lax.reduce_window(x, np.array(start, x.dtype), fold, window, strides, padding)

    def gradient(x, weight):
        return jax.vjp(pooled, x)[1](weight)[0]

    return pooled, gradient


@pytest.mark.slow
@settings(max_examples=30, derandomize=True)
@given(poolings(), st.booleans())
def test_the_same_elements_are_chosen(pooling, least):
    operand, window, strides, padding, dtype, rng = pooling
    with jax.enable_x64(dtype == "float64"):
        x = jnp.asarray(operand, dtype)
        pooled, gradient = gradient_of(window, strides, padding, least)
        # Powers of two, so that sums are exact in every order and in every type.
        shape = jax.eval_shape(pooled, x).shape
        weight = jnp.asarray(2.0 ** rng.integers(-2, 3, shape), dtype)
        ours, theirs = both_ways(gradient, x, weight)
    np.testing.assert_array_equal(ours, theirs)
    assert ours.dtype == theirs.dtype == x.dtype


POOL = (1, 2, 2, 1)


@pytest.fixture
def images():
    return jnp.asarray(np.random.default_rng(0).integers(0, 4, (4, 7, 6, 3)), jnp.float32)


def squared(window=POOL, strides=POOL, padding="VALID"):
    pooled, _ = gradient_of(window, strides, padding)
    return jax.grad(lambda x: jnp.sum(pooled(x) ** 2))


def test_it_replaces_jax_s_own(images):
    ours, theirs = lowered_text(squared(), images)
    assert "select_and_scatter" in theirs
    assert "select_and_scatter" not in ours


@pytest.mark.parametrize("window", [(1, 6, 6, 1), (1, 7, 5, 1)], ids=["too many positions", "even more"])
def test_large_windows_are_left_alone(images, window):
    ours, theirs = lowered_text(squared(window), images)
    assert ours == theirs


def test_integers_are_left_alone():
    x = jnp.arange(6, dtype=jnp.int32)
    scatter = lambda x, s: lax.select_and_scatter_add_p.bind(  # noqa: E731
        s, x, select_prim=lax.ge_p, window_dimensions=(2,), window_strides=(2,), padding=((0, 0),)
    )
    ours, theirs = lowered_text(scatter, x, x[:3])
    assert ours == theirs


def test_under_vmap(images):
    ours, theirs = both_ways(jax.vmap(squared((2, 2, 1), (2, 2, 1))), images)
    np.testing.assert_array_equal(ours, theirs)


def test_gradient_of_the_gradient(images):
    twice = jax.grad(lambda x: jnp.sum(squared((1, 3, 3, 1), (1, 2, 2, 1), "SAME")(x) ** 2))
    ours, theirs = both_ways(twice, images)
    np.testing.assert_array_equal(ours, theirs)
    assert np.any(ours)


@pytest.mark.samples("True")
@pytest.mark.parametrize("check_vma", [True, False])
def test_under_shard_map(images, check_vma):
    mesh = jax.make_mesh((2,), ("replica",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("replica")
    for strides in (POOL, (1, 3, 3, 1)):
        sharded = jax.shard_map(
            squared(strides=strides), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma
        )
        ours, theirs = both_ways(sharded, images)
        np.testing.assert_array_equal(ours, theirs)
