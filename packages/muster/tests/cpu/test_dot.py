"""Products that sum over several dimensions have them joined, and are otherwise JAX's own."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from both_lowerings import both_ways, lowered_both_ways, lowered_text
from jax import lax

from muster.config import use_cpu_lowerings
from muster.cpu import prepare
from muster.cpu._compiler_options import OPTIONS

pytestmark = pytest.mark.optimized


def whole(seed, *shape, dtype=jnp.float32):
    return jnp.asarray(np.random.default_rng(seed).integers(-4, 5, shape), dtype)


def product(left, right, batch=((), ()), **options):
    return lambda x, y: lax.dot_general(x, y, ((left, right), batch), **options)


X, Y = whole(0, 4, 5, 6), whole(1, 4, 5, 3)


@pytest.mark.parametrize(
    ("left", "right", "other"),
    [
        ((0, 1), (0, 1), Y),
        ((1, 2), (0, 1), whole(1, 5, 6, 3)),
        ((0, 1, 2), (0, 1, 2), whole(1, 4, 5, 6)),
        ((0, 1), (2, 3), whole(1, 2, 7, 4, 5)),
    ],
    ids=str,
)
def test_neighbouring_dimensions_are_joined(left, right, other):
    ours, theirs = lowered_text(product(left, right), X, other)
    assert ours.count("stablehlo.reshape") == 2
    assert f"contracting_dims = [{left[0]}] x [{right[0]}]" in ours
    assert "stablehlo.reshape" not in theirs
    ours, theirs = both_ways(product(left, right), X, other)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("function", "x", "y"),
    [
        (product((2,), (0,)), X, whole(1, 6, 3)),
        (product((0, 2), (0, 1)), X, whole(1, 4, 6, 3)),
        (product((1, 0), (1, 0)), X, Y),
        (product((1, 2), (1, 2), ((0,), (0,))), X, whole(1, 4, 5, 6)),
        (product((), ()), X, Y),
        (product((0, 1), (0, 1)), X.astype(jnp.bfloat16), Y.astype(jnp.bfloat16)),
        (product((0, 1), (0, 1), preferred_element_type=jnp.float32), X.astype(jnp.int8), Y.astype(jnp.int8)),
        (product((0, 1), (0, 1)), X, Y.astype(jnp.bfloat16)),
        (product((0, 1), (0, 1), precision=lax.DotAlgorithmPreset.F32_F32_F32), X, Y),
        (product((2,), (0,), precision=lax.Precision.HIGHEST), X, whole(1, 6, 3)),
    ],
    ids=["one", "apart", "order", "batch", "none", "bfloat16", "int8", "mixed", "algorithm", "precision"],
)
def test_all_else_is_jax_s_own_program(function, x, y):
    ours, theirs = lowered_text(function, x, y)
    assert ours == theirs


@pytest.mark.parametrize("use", [True, False])
def test_an_algorithm_that_cpus_do_not_have_is_an_error_as_in_jax(use):
    prepare()
    use_cpu_lowerings(use)
    try:
        with pytest.raises(ValueError, match="TF32_TF32_F32.* is not supported by dot_general on CPU"):
            jax.jit(product((2,), (0,), precision=lax.DotAlgorithmPreset.TF32_TF32_F32)).lower(X, X[0].T)
    finally:
        use_cpu_lowerings(True)


def test_what_a_kernel_s_gradient_is_made_of_is_not_computed_in_another_order():
    def gradient(x, k):
        return jax.grad(lambda k: jnp.sum((jnp.tanh(jnp.tanh(x) @ k) @ k.T) ** 2))(k)

    ours, theirs = (
        lowered.compile(compiler_options=OPTIONS).as_text()
        for lowered in lowered_both_ways(gradient, whole(0, 16, 128, 128), jnp.ones((128, 64)))
    )
    turned = re.compile(r"f32\[(64|128),2048\]")
    assert turned.search(theirs)
    assert not turned.search(ours)
