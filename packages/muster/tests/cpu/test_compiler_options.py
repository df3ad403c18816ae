"""What the compiler is told about CPUs, and that a compiler which does not know it compiles all the same."""

import logging
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from muster.config import use_cpu_lowerings
from muster.cpu import _compiler_options, compiler_options
from muster.distribute.engine._compiled import compiled

pytestmark = pytest.mark.optimized

X = jnp.asarray(np.random.default_rng(0).standard_normal((32, 32, 32, 16), np.float32))
KERNEL = jnp.asarray(np.random.default_rng(1).standard_normal((3, 3, 16, 16), np.float32))
LIBRARY = "__ynn_fusion"


def convolved(x, kernel, groups=1):
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


def kernel_gradient(x, kernel):
    return jax.grad(lambda kernel: jnp.sum(convolved(x, kernel) ** 2))(kernel)


def compiled_both_ways():
    executables = {}
    ours = compiled(kernel_gradient, (X, KERNEL), executables, ())
    use_cpu_lowerings(False)
    try:
        theirs = compiled(kernel_gradient, (X, KERNEL), executables, ())
    finally:
        use_cpu_lowerings(True)
    return ours, theirs, executables


def test_a_compiled_step_s_convolutions_are_not_given_to_the_slower_library():
    ours, theirs, executables = compiled_both_ways()
    assert len(executables) == 2
    if LIBRARY not in theirs.as_text():
        pytest.skip(
            "this jaxlib gives the library no convolution on this processor, so there is none to keep"
        )
    assert LIBRARY not in ours.as_text()


def test_the_result_is_the_same():
    ours, theirs, _ = compiled_both_ways()
    expected = np.asarray(theirs(X, KERNEL))
    np.testing.assert_allclose(ours(X, KERNEL), expected, atol=1e-5 * np.abs(expected).max())


def test_what_comes_before_a_kernel_s_gradient_is_not_computed_in_its_order():
    def both(x, kernel):
        return kernel_gradient(jnp.maximum(2 * x, 1), kernel)

    program = compiled(both, (X, KERNEL), {}, ()).as_text()
    loops = re.findall(r"^%\S+ \(.*?^}", program, re.DOTALL | re.MULTILINE)
    assert any("maximum(" in loop for loop in loops)
    assert not [loop for loop in loops if "maximum(" in loop and "f32[16,32,32,32]" in loop]


def test_the_compiler_knows_the_options():
    """If this fails, a release of jaxlib has other options: see muster/cpu/_compiler_options.py."""
    assert _compiler_options.understood(tuple(_compiler_options.OPTIONS.items()))
    assert compiler_options("") == _compiler_options.OPTIONS


def test_switched_off_there_are_none():
    use_cpu_lowerings(False)
    try:
        assert compiler_options("") == {}
    finally:
        use_cpu_lowerings(True)


@pytest.mark.parametrize(("groups", "without"), [(1, True), (2, False), (16, True)], ids=str)
def test_a_program_with_groups_of_several_features_keeps_the_library(groups, without):
    lowered = jax.jit(lambda x, kernel: convolved(x, kernel, groups)).lower(X, KERNEL[:, :, : 16 // groups])
    assert (_compiler_options._LIBRARY in compiler_options(lowered.as_text())) == without


def test_other_platforms_get_none(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert compiler_options("") == {}


@pytest.mark.parametrize(
    "unknown",
    [{"xla_cpu_no_such_option": "1"}, {name: "NO_SUCH_VALUE" for name in _compiler_options.OPTIONS}],
    ids=["option", "value"],
)
def test_what_the_compiler_does_not_know_is_left_out_and_said_once(unknown, monkeypatch, caplog):
    monkeypatch.setattr(_compiler_options, "OPTIONS", unknown)
    _compiler_options.understood.cache_clear()
    with caplog.at_level(logging.DEBUG, _compiler_options.__name__):
        for scale in (1.0, 2.0):
            assert compiled(lambda x, scale=scale: x * scale, (X,), {}, ())(X).shape == X.shape
    said = [record for record in caplog.records if record.name == _compiler_options.__name__]
    assert len(said) == 1
    assert next(iter(unknown)) in said[0].getMessage()
