"""Convolutions and their gradients, against JAX's own lowering."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from both_lowerings import both_ways, lowered_text
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

pytestmark = pytest.mark.optimized

LAYOUTS = {
    1: [("NWC", "WIO", "NWC"), ("NCW", "OIW", "NCW")],
    2: [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NHWC", "OIHW", "NCHW")],
}


@st.composite
def convolutions(draw):
    """Whole numbers, so that sums are exact in every order, with the parameters of a convolution."""
    rank = draw(st.integers(1, 2))
    window = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    spread = draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    strides = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    dilation = draw(st.sampled_from([(1,) * rank, (2,) * rank]))
    # Not -1 and 1: with these jaxlib 0.10.2 computes gradients of kernels of 1x1 wrongly.
    sides = [st.tuples(st.integers(-1, w), st.integers(-1, w)) for w in window]
    padding = [draw(pair.filter(lambda pair: sorted(pair) != [-1, 1])) for pair in sides]
    least = [(w - 1) * s + 1 for w, s in zip(window, spread, strict=True)]
    size = [draw(st.integers(n, n + 4)) - min(sum(p), 0) for n, p in zip(least, padding, strict=True)]
    batch, inputs, outputs = (draw(st.integers(1, 5)) for _ in range(3))
    layout = draw(st.sampled_from(LAYOUTS[rank]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = np.transpose(rng.integers(-4, 5, (batch, inputs, *size)), _order(layout[0], "NC"))
    k = np.transpose(rng.integers(-4, 5, (outputs, inputs, *window)), _order(layout[1], "OI"))
    options = {
        "window_strides": strides,
        "padding": padding,
        "lhs_dilation": dilation,
        "rhs_dilation": spread,
        "dimension_numbers": layout,
    }
    return x, k, options


def _order(layout, first):
    spatial = [letter for letter in layout if letter not in first]
    return [(list(first) + spatial).index(letter) for letter in layout]


def with_gradients(options):
    def both(x, k):
        y, vjp = jax.vjp(lambda x, k: lax.conv_general_dilated(x, k, **options), x, k)
        return jnp.concatenate([v.ravel() for v in (y, *vjp(jnp.round(jnp.cos(y) * 4)))])

    return both


@pytest.mark.slow
@settings(max_examples=30, derandomize=True)
@given(convolutions())
def test_the_result_and_both_gradients_are_the_same(convolution):
    x, k, options = convolution
    ours, theirs = both_ways(
        with_gradients(options), jnp.asarray(x, jnp.float32), jnp.asarray(k, jnp.float32)
    )
    np.testing.assert_array_equal(ours, theirs)


NHWC = ("NHWC", "HWIO", "NHWC")


def conv(strides=(1, 1), padding="VALID"):
    return lambda x, k: lax.conv_general_dilated(x, k, strides, padding, dimension_numbers=NHWC)


def images(features, size=12, dtype=jnp.float32):
    return jnp.asarray(np.random.default_rng(0).integers(-4, 5, (6, size, size, features)), dtype)


def kernel(*shape, dtype=jnp.float32):
    return jnp.asarray(np.random.default_rng(1).integers(-4, 5, shape), dtype)


def kernel_gradient(x, k):
    return jax.grad(lambda k: jnp.sum(conv()(x, k) ** 2))(k)


def strided_kernel_gradient(x, k):
    return jax.grad(lambda k: jnp.sum(conv((2, 2))(x, k) ** 2))(k)


def input_gradient(x, k):
    return jax.grad(lambda x: jnp.sum(conv((2, 2))(x, k) ** 2))(x)


@pytest.mark.parametrize(
    ("function", "features", "shape", "left"),
    [
        (conv(), 1, (3, 3, 1, 32), 0),
        (conv(), 3, (3, 3, 3, 16), 0),
        (conv(), 16, (1, 1, 16, 8), 0),
        (conv((2, 2)), 16, (1, 1, 16, 8), 0),
        (kernel_gradient, 16, (1, 1, 16, 8), 0),
        (strided_kernel_gradient, 16, (1, 1, 16, 8), 0),
        (input_gradient, 16, (1, 1, 16, 8), 0),
        (kernel_gradient, 3, (3, 3, 3, 64), 1),
    ],
    ids=[
        "one input",
        "few",
        "1x1",
        "1x1, strided",
        "its kernel",
        "its kernel, strided",
        "its input",
        "kernel of few inputs",
    ],
)
def test_what_is_replaced(function, features, shape, left):
    ours, theirs = lowered_text(function, images(features), kernel(*shape))
    assert ours.count("stablehlo.convolution") == left
    assert theirs.count("stablehlo.convolution") > left


@pytest.mark.samples("strided columns")
@pytest.mark.parametrize(
    ("size", "shape", "options"),
    [
        ((12, 11), (3, 3, 16, 16), {}),
        ((12, 11), (3, 3, 16, 16), {"padding": "VALID"}),
        ((9, 8), (5, 4, 6, 8), {"padding": [(4, 0), (1, 3)], "rhs_dilation": (1, 2)}),
        ((9, 8), (3, 3, 12, 8), {"padding": [(-1, 3), (2, -1)], "rhs_dilation": (2, 1)}),
        ((12, 11), (3, 3, 16, 4), {"window_strides": (2, 1)}),
        ((12, 11), (3, 2, 32, 1), {"window_strides": (1, 3)}),
        ((5, 6, 7), (2, 3, 2, 8, 8), {}),
    ],
    ids=["same", "valid", "spread columns", "spread rows", "by columns", "strided columns", "volumes"],
)
def test_few_outputs_are_added_up_by_row(size, shape, options):
    rank = len(size)
    letters = "DHW"[-rank:]
    numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    options = {"window_strides": (1,) * rank, "padding": "SAME", "dimension_numbers": numbers} | options
    rng = np.random.default_rng(0)
    x, k = (jnp.asarray(rng.integers(-4, 5, s), jnp.float32) for s in ((3, *size, shape[-2]), shape))
    function = lambda x, k: lax.conv_general_dilated(x, k, **options)  # noqa: E731
    ours, theirs = lowered_text(function, x, k)
    assert ours.count("stablehlo.add") > theirs.count("stablehlo.add")
    ours, theirs = both_ways(with_gradients(options), x, k)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("size", "shape", "function"),
    [
        (12, (3, 3, 16, 17), conv()),
        (12, (3, 3, 16, 16), conv((2, 2))),
        (3, (3, 3, 16, 16), conv((1, 1), "VALID")),
        (2, (1, 4, 32, 8), conv((1, 1), "SAME")),
        (512, (3, 3, 16, 16), conv()),
        (2048, (3, 3, 16, 8), conv()),
    ],
    ids=["more outputs", "strides", "one position", "one row", "not in the cache", "large"],
)
def test_what_is_not_added_up_by_row(size, shape, function):
    x = jax.ShapeDtypeStruct((6, size, size, shape[2]), jnp.float32)
    ours, theirs = lowered_text(function, x, jax.ShapeDtypeStruct(shape, jnp.float32))
    assert ours.count("stablehlo.add") == theirs.count("stablehlo.add")


@pytest.mark.parametrize(("strides", "padding"), [((2, 2), "SAME"), ((3, 2), "VALID")], ids=str)
def test_the_gradient_of_a_transposed_kernel_has_no_dilated_input(strides, padding):
    def gradient(x, k):
        return jax.grad(lambda k: jnp.sum(lax.conv_transpose(x, k, strides, padding) ** 2))(k)

    x, k = images(3, size=7), kernel(4, 3, 3, 8)
    ours, theirs = both_ways(gradient, x, k)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    dilated = f"lhs_dilate = [{strides[0]}, {strides[1]}]"
    ours, theirs = (text.count(dilated) for text in lowered_text(gradient, x, k))
    assert (ours, theirs) == (1, 2)  # one is the transposed convolution itself


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.int32])
def test_other_types_are_left_alone(dtype):
    ours, theirs = lowered_text(conv(), images(1, dtype=dtype), kernel(3, 3, 1, 8, dtype=dtype))
    assert ours == theirs


@pytest.mark.parametrize("shape", [(3, 3, 1, 8), (1, 1, 3, 8)], ids=str)
@pytest.mark.parametrize("function", [conv(), kernel_gradient, input_gradient])
def test_float64_is_left_alone_and_gives_exactly_what_jax_gives(function, shape):
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        x, k = (jnp.asarray(rng.standard_normal(s)) for s in ((2, 7, 7, shape[2]), shape))
        assert x.dtype == k.dtype == jnp.float64
        ours_text, theirs_text = lowered_text(function, x, k)
        ours, theirs = both_ways(function, x, k)
    assert ours_text == theirs_text
    assert ours.dtype == np.float64
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.samples("(3, 3, 1, 8)-(2, 2)")
@pytest.mark.parametrize("strides", [(1, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 5, 3), (3, 3, 1, 8), (2, 3, 3, 4)], ids=str)
def test_gradients_of_the_gradients(shape, strides):
    rng = np.random.default_rng(0)
    # Small whole numbers, so that sums are exact in every order.
    x, k, along_x, along_k = (
        jnp.asarray(rng.integers(-2, 3, s), jnp.float32) for s in ((3, 7, 6, shape[2]), shape) * 2
    )

    def slope(x, k):
        gradients = jax.grad(lambda x, k: jnp.sum(conv(strides)(x, k) ** 2), argnums=(0, 1))(x, k)
        return sum(map(jnp.vdot, gradients, (along_x, along_k)))

    def twice(x, k):
        return jnp.concatenate([g.ravel() for g in jax.grad(slope, argnums=(0, 1))(x, k)])

    ours_text, theirs_text = lowered_text(twice, x, k)
    assert ours_text.count("stablehlo.convolution") < theirs_text.count("stablehlo.convolution")
    ours, theirs = both_ways(twice, x, k)
    np.testing.assert_array_equal(ours, theirs)
    assert np.any(ours[: x.size])
    assert np.any(ours[x.size :])


@pytest.mark.samples("strides1-SAME")
@pytest.mark.parametrize(("strides", "padding"), [((1, 1), "SAME"), ((2, 2), "SAME"), ((2, 1), "VALID")])
def test_the_gradient_of_a_kernel_of_many_features(strides, padding):
    x, k = images(8, size=20), kernel(3, 2, 8, 5)

    def gradient(x, k):
        return jax.grad(lambda k: jnp.sum(conv(strides, padding)(jnp.cos(x), k) ** 2))(k)

    for function in (gradient, jax.grad(lambda x, k: jnp.sum(gradient(x, k)), argnums=(0, 1))):
        ours, theirs = both_ways(lambda x, k, f=function: _flat(f(x, k)), x, k)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5 * np.abs(theirs).max())


def _flat(tree):
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)])


def test_groups_of_several_features_are_left_alone():
    grouped = lambda x, k: lax.conv_general_dilated(  # noqa: E731
        x, k, (1, 1), "SAME", dimension_numbers=NHWC, feature_group_count=16
    )
    ours, theirs = lowered_text(grouped, images(32), kernel(1, 1, 2, 32))
    assert ours == theirs


@pytest.mark.samples("(3, 3, 1, 8)-nan")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("shape", [(3, 3, 1, 8), (1, 1, 1, 8), (3, 3, 16, 8)], ids=str)
def test_what_is_not_a_number_reaches_the_same_results(bad, shape):
    x = images(shape[2]).at[2, 5, 6, 0].set(bad)
    k = jnp.abs(kernel(*shape)) + 1
    for function in (conv(), kernel_gradient):
        ours, theirs = both_ways(function, x, k)
        np.testing.assert_array_equal(ours, theirs)
        assert not np.all(np.isfinite(ours))


def test_under_vmap():
    ours, theirs = both_ways(jax.vmap(kernel_gradient), images(1)[:, None], kernel(6, 3, 3, 1, 4))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.samples("True")
@pytest.mark.parametrize("check_vma", [True, False])
def test_under_shard_map(check_vma):
    mesh = jax.make_mesh((2,), ("replica",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("replica")
    whole = jax.sharding.PartitionSpec()

    def step(x, k):
        return conv((1, 1), "SAME")(x, k) * jnp.sum(kernel_gradient(x, k))

    sharded = jax.shard_map(step, mesh=mesh, in_specs=(spec, whole), out_specs=spec, check_vma=check_vma)
    ours, theirs = both_ways(sharded, images(1), kernel(3, 3, 1, 4))
    np.testing.assert_array_equal(ours, theirs)
