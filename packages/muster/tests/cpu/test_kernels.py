"""Operations that oneDNN computes give what JAX's own give, and steps do without it where it is not."""

import functools
import logging
import platform
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from both_lowerings import lowered_both_ways
from hypothesis import given, settings
from jax import export, lax
from test_convolution import convolutions, with_gradients

from muster import cpu
from muster.config import use_cpu_lowerings
from muster.cpu import _kernel_convolution, _kernels, prepare
from muster.cpu._dot import BY_ROWS

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="oneDNN's package is for Linux on x86-64",
)

NHWC = ("NHWC", "HWIO", "NHWC")


@pytest.fixture(autouse=True)
def few_threads(monkeypatch):
    """So that the images here are enough for all."""
    monkeypatch.setattr(_kernel_convolution, "_threads", lambda: 2)


def numbers(*shape, seed=0):
    """Whole numbers, so that sums are exact in every order."""
    return jnp.asarray(np.random.default_rng(seed).integers(-4, 5, shape), jnp.float32)


def calls(lowered, kind):
    return lowered.as_text().count(f"@muster_{kind}")


def test_this_machine_has_them():
    assert cpu.has_kernels(), "needs the packages of the extra onednn, and a C compiler"


@pytest.mark.parametrize(
    ("shape", "window", "outputs", "options"),
    [
        ((4, 17, 16, 8), (3, 3), 24, {"padding": "SAME"}),
        ((4, 17, 16, 8), (3, 2), 16, {"padding": "SAME", "window_strides": (2, 2)}),
        ((4, 17, 16, 8), (3, 3), 16, {"padding": "VALID", "window_strides": (3, 2)}),
        ((4, 17, 16, 3), (5, 5), 16, {"padding": "SAME", "rhs_dilation": (2, 1)}),
        ((4, 16, 16, 16), (4, 4), 16, {"padding": "VALID", "window_strides": (4, 4)}),
        ((8, 60, 16), (5,), 32, {"padding": "SAME", "window_strides": (2,)}),
    ],
    ids=str,
)
def test_convolutions_and_their_gradients(monkeypatch, shape, window, outputs, options):
    monkeypatch.setattr(_kernel_convolution, "LEAST_PRODUCTS", 1)
    layout = NHWC if len(window) == 2 else ("NWC", "WIO", "NWC")
    options = {"window_strides": (1,) * len(window), **options, "dimension_numbers": layout}
    x, k = numbers(*shape), numbers(*window, shape[-1], outputs, seed=1)
    ours, theirs = lowered_both_ways(with_gradients(options), x, k)
    assert (calls(ours, "convolution"), calls(theirs, "convolution")) == (3, 0)
    np.testing.assert_array_equal(ours.compile()(x, k), theirs.compile()(x, k))


@pytest.mark.parametrize(
    ("shape", "window", "options"),
    [
        ((4, 17, 16, 24), (3, 3), {"padding": "SAME"}),
        ((5, 16, 16, 8), (3, 5), {"padding": "SAME", "window_strides": (2, 2)}),
        ((4, 17, 16, 40), (3, 3), {"padding": "VALID", "window_strides": (2, 1)}),
        ((8, 60, 16), (5,), {"padding": "SAME", "window_strides": (2,)}),
    ],
    ids=str,
)
def test_depthwise_convolutions_and_their_gradients(monkeypatch, shape, window, options):
    monkeypatch.setattr(_kernel_convolution, "LEAST_PRODUCTS", 1)
    layout = NHWC if len(window) == 2 else ("NWC", "WIO", "NWC")
    options = {"window_strides": (1,) * len(window), **options, "dimension_numbers": layout}
    options["feature_group_count"] = shape[-1]
    x, k = numbers(*shape), numbers(*window, 1, shape[-1], seed=1)
    ours, theirs = lowered_both_ways(with_gradients(options), x, k)
    assert (calls(ours, "convolution"), calls(theirs, "convolution")) == (3, 0)
    np.testing.assert_array_equal(ours.compile()(x, k), theirs.compile()(x, k))


@pytest.mark.slow
@settings(max_examples=60, derandomize=True, deadline=None)
@given(convolutions())
def test_any_convolution(convolution):
    """Of those with channels first, with negative padding and so on some are left to JAX."""
    x, k, options = convolution
    x, k = jnp.asarray(x, jnp.float32), jnp.asarray(k, jnp.float32)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(_kernel_convolution, "LEAST_PRODUCTS", 1)
        ours, theirs = lowered_both_ways(with_gradients(options), x, k)
    np.testing.assert_array_equal(ours.compile()(x, k), theirs.compile()(x, k))


@pytest.mark.parametrize(
    ("left", "right", "summed", "called"),
    [
        ((2048, 96), (2048, 128), 1, 1),
        ((16, 128, 64), (16, 128, 4, 32), 2, 1),
        ((4099, 64), (4099, 96), 1, 1),
        ((512, 256), (512, 256), 1, 0),
        ((8192, 8), (8192, 512), 1, 0),
    ],
)
def test_products_that_sum_over_many_rows(left, right, summed, called):
    x, y = numbers(*left), numbers(*right, seed=1)
    dims = tuple(range(summed))
    ours, theirs = lowered_both_ways(lambda x, y: lax.dot_general(x, y, ((dims, dims), ((), ()))), x, y)
    assert (calls(ours, "product"), calls(theirs, "product")) == (called, 0)
    np.testing.assert_array_equal(ours.compile()(x, y), theirs.compile()(x, y))


@pytest.mark.parametrize(
    ("left", "right", "dims", "called"),
    [
        ((2048, 96), (96, 128), ((1,), (0,)), 1),
        ((2048, 96), (128, 96), ((1,), (1,)), 1),
        ((16, 257, 64), (64, 4, 32), ((2,), (0,)), 1),
        ((16, 257, 4, 32), (64, 4, 32), ((2, 3), (1, 2)), 1),
        ((16, 257, 4, 32), (4, 32, 64), ((2, 3), (0, 1)), 1),
        ((64, 16, 257), (128, 64), ((0,), (1,)), 0),
        ((4096, 128), (128, 8), ((1,), (0,)), 0),
        ((512, 256), (256, 256), ((1,), (0,)), 0),
    ],
)
def test_products_of_many_rows(left, right, dims, called):
    x, y = numbers(*left), numbers(*right, seed=1)
    ours, theirs = lowered_both_ways(lambda x, y: lax.dot_general(x, y, (dims, ((), ()))), x, y)
    assert (calls(ours, "product"), calls(theirs, "product")) == (called, 0)
    np.testing.assert_array_equal(ours.compile()(x, y), theirs.compile()(x, y))


@pytest.mark.parametrize("rows", [1, 2, 63, 1000, 4099])
@pytest.mark.parametrize("features", [1, 8, 48, 130])
def test_sums_over_rows(rows, features):
    """Of whole numbers, which are exact, but for the distances from a value near the mean."""
    x, y, mean = numbers(rows, features) + 1000, numbers(rows, features, seed=1), numbers(features, seed=2)
    found, variance = jax.jit(cpu.moments)(x)
    np.testing.assert_allclose(found, np.mean(np.asarray(x), 0, np.float64), rtol=1e-6)
    np.testing.assert_allclose(variance, np.var(np.asarray(x), 0, np.float64), rtol=1e-5, atol=1e-5)

    def normalized(x, mean, offset):
        return cpu.batch_norm(0.0, x, mean, jnp.ones(features), offset, jnp.ones(features))

    _, pull_back = jax.vjp(normalized, x, mean, mean)
    of_x, of_mean, of_offset = jax.jit(pull_back)(y)
    np.testing.assert_array_equal(of_x, y)
    np.testing.assert_array_equal(of_offset, np.sum(np.asarray(y), 0))
    np.testing.assert_array_equal(of_mean, -np.sum(np.asarray(y), 0))


def test_an_error_of_a_part_is_one_of_the_step():
    """Which other threads than the one that XLA called may find."""
    prepare()
    result = [jax.ShapeDtypeStruct((2048, 32), jnp.float32)]
    wrong = jax.jit(lambda x, y: _kernels.call("product", (BY_ROWS, 2048, -1, 32), result, x, y))
    with pytest.raises(jax.errors.JaxRuntimeError, match="oneDNN could not compute a product: status 2"):
        jax.block_until_ready(wrong(numbers(2048, 32), numbers(32, 32)))


def test_replicas_side_by_side_compute_at_the_same_time(monkeypatch):
    monkeypatch.setattr(_kernel_convolution, "LEAST_PRODUCTS", 1)
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    x, k = numbers(8, 12, 12, 8), numbers(3, 3, 8, 16, seed=1)

    def conv(x):
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=NHWC)

    each = jax.jit(jax.shard_map(conv, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"))).lower(x)
    assert calls(each, "convolution") == 1
    step, expected = each.compile(), jax.jit(conv)(x)
    for _ in range(20):
        np.testing.assert_array_equal(step(x), expected)


def test_what_xla_divides_over_devices_is_left_to_xla(monkeypatch):
    """It would gather the arrays for a call that it does not know."""
    monkeypatch.setattr(_kernel_convolution, "LEAST_PRODUCTS", 1)
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.device_put(numbers(8, 12, 12, 8), jax.NamedSharding(mesh, jax.P("x")))
    k = numbers(3, 3, 8, 16, seed=1)
    lowered = jax.jit(lambda x: lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=NHWC)).lower(
        x
    )
    assert calls(lowered, "convolution") == 0


def test_what_is_exported_calls_none(monkeypatch):
    """Neither for others nor for the workers of a job, whose machines may be without oneDNN."""
    monkeypatch.setattr(_kernel_convolution, "LEAST_PRODUCTS", 1)
    prepare()
    x, k = numbers(4, 12, 12, 8), numbers(3, 3, 8, 16, seed=1)
    steps = numbers(2, 3, 4), numbers(2, 5), numbers(2, 5), numbers(4, 20), numbers(5, 20), numbers(20)

    def program(x, *steps):
        images = lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=NHWC)
        return images, cpu.lstm(False, True, *steps)

    with cpu.exported_for_this_job():
        found = export.export(jax.jit(lambda *args: program(*args)))(x, *steps)
    assert "muster_" not in found.mlir_module()
    here = jax.jit(program).lower(x, *steps)
    assert (calls(here, "convolution"), calls(here, "lstm_forward")) == (1, 1)
    for ours, theirs in zip(
        jax.tree.leaves(here.compile()(x, *steps)), jax.tree.leaves(found.call(x, *steps)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_switched_off_there_are_none():
    x, y = numbers(2048, 96), numbers(2048, 128, seed=1)
    prepare()
    use_cpu_lowerings(False)
    try:
        lowered = jax.jit(lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ())))).lower(x, y)
    finally:
        use_cpu_lowerings(True)
    assert calls(lowered, "product") == 0


@pytest.fixture
def unloaded(tmp_path, monkeypatch):
    """As in a process that has not loaded them, of a user who has not compiled them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(_kernels, "kernels", functools.cache(_kernels.kernels.__wrapped__))
    return tmp_path / "muster/kernels"


@pytest.mark.processes
def test_they_are_compiled_once(unloaded, monkeypatch):
    assert _kernels._load().muster_product
    (built,) = unloaded.iterdir()
    monkeypatch.setenv("CC", "/nonexistent/compiler")
    assert _kernels._load().muster_product
    assert list(unloaded.iterdir()) == [built]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("compiler", "said"),
    [
        ("/nonexistent/compiler", "there is no C compiler: CC=/nonexistent/compiler"),
        ("false", "false could not compile"),
    ],
)
def test_without_a_compiler_that_works_steps_do_without(unloaded, monkeypatch, caplog, compiler, said):
    monkeypatch.setenv("CC", compiler)
    with caplog.at_level(logging.INFO, "muster"):
        assert not cpu.has_kernels()
    assert said in caplog.text
    assert not list(unloaded.iterdir())
    x, y = numbers(2048, 96), numbers(2048, 128, seed=1)
    ours, _ = lowered_both_ways(lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ()))), x, y)
    assert calls(ours, "product") == 0


def test_without_the_package_nothing_is_said(unloaded, monkeypatch, caplog):
    monkeypatch.setattr(_kernels, "_LIBRARY", "onednn-of-nobody")
    with caplog.at_level(logging.INFO, "muster"):
        assert not cpu.has_kernels()
    assert not caplog.text
    assert not unloaded.exists()


def test_a_folder_that_others_may_write_to_is_not_used(unloaded, caplog):
    unloaded.mkdir(parents=True)
    unloaded.chmod(0o777)
    with caplog.at_level(logging.INFO, "muster"):
        assert not cpu.has_kernels()
    assert f"{unloaded} belongs to another user, or others may write to it" in caplog.text
