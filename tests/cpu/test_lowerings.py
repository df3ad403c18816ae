"""Which lowerings JAX uses, and what they lean on in JAX."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from both_lowerings import lowered_both_ways
from jax import export, lax
from jax.interpreters import mlir

from muster.config import use_cpu_lowerings
from muster.cpu import _lowerings, prepare
from muster.cpu._jax_rules import jax_rule


def pooled(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 2), "VALID")


def gradient(x):
    return jax.grad(lambda x: jnp.sum(pooled(x)))(x)


@pytest.fixture
def off():
    use_cpu_lowerings(False)
    yield
    use_cpu_lowerings(True)


X = jnp.ones((2, 4))


def uses_muster_s():
    return "select_and_scatter" not in jax.jit(gradient).lower(X).as_text()


def test_switching_is_followed_by_a_function_that_was_compiled_before():
    prepare()
    assert uses_muster_s()
    use_cpu_lowerings(False)
    assert not uses_muster_s()
    use_cpu_lowerings(True)
    assert uses_muster_s()


def test_switched_off_it_stays_off(off):
    prepare()
    assert not uses_muster_s()


def test_switching_off_puts_back_what_was_there(off):
    before = {primitive: jax_rule(primitive) for primitive in _lowerings.CHOOSERS}
    for _ in range(2):
        use_cpu_lowerings(True)
    assert all(jax_rule(primitive) is not rule for primitive, rule in before.items())
    use_cpu_lowerings(False)
    assert before == {primitive: jax_rule(primitive) for primitive in before}


def test_importing_changes_nothing():
    program = (
        "import jax, muster, muster.config, muster.estimator\n"
        "from muster.cpu import _lowerings\n"
        "from muster.cpu._jax_rules import jax_rule\n"
        "assert not any(jax_rule(p).__module__.startswith('muster') for p in _lowerings.CHOOSERS)\n"
        "_lowerings.prepare()\n"
        "assert all(jax_rule(p).__module__.startswith('muster') for p in _lowerings.CHOOSERS)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_other_platforms_are_left_alone():
    prepare()
    for_gpu = export.export(jax.jit(gradient), platforms=["cuda"])(X)
    assert "select_and_scatter" in for_gpu.mlir_module()


def test_a_size_that_is_not_known_is_left_to_jax():
    prepare()
    (rows,) = export.symbolic_shape("rows")
    exported = export.export(jax.jit(gradient))(jax.ShapeDtypeStruct((rows, 4), jnp.float32))
    assert "select_and_scatter" in exported.mlir_module()
    assert exported.call(X).tolist() == gradient(X).tolist()


def test_jax_still_keeps_its_lowerings_where_they_are_looked_for(off):
    """If this fails, a release of JAX has moved its tables: see muster/cpu/_jax_rules.py."""
    rule = jax_rule(lax.select_and_scatter_add_p)
    seen = []

    def watch(ctx, *operands, **params):
        seen.append(ctx.primitive)
        return rule(ctx, *operands, **params)

    mlir.register_lowering(lax.select_and_scatter_add_p, watch, platform="cpu")
    try:
        assert jax_rule(lax.select_and_scatter_add_p) is watch
        jax.jit(lambda x: gradient(x)).lower(X)
    finally:
        mlir.register_lowering(lax.select_and_scatter_add_p, rule, platform="cpu")
    assert seen == [lax.select_and_scatter_add_p]


@pytest.mark.parametrize("primitive", _lowerings.CHOOSERS, ids=str)
def test_jax_has_a_lowering_of_its_own(off, primitive):
    """If this fails, a release of JAX lowers the primitive otherwise, or has another one in its place."""
    assert jax_rule(primitive).__module__.startswith(("jax.", "functools"))


def test_what_is_computed_both_ways_differs_in_the_program():
    ours, theirs = lowered_both_ways(gradient, X)
    assert ours.as_text() != theirs.as_text()
