"""Which lowerings JAX uses, and what they lean on in JAX."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from both_lowerings import lowered_both_ways
from jax import export, lax

from jobs import free_addresses
from muster.config import use_cpu_lowerings
from muster.cpu import exported_for_this_job, prepare

pytestmark = pytest.mark.optimized


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


def test_what_is_exported_for_the_workers_of_a_job_has_them_and_what_others_may_run_has_not():
    prepare()

    def program():
        return export.export(jax.jit(lambda x: gradient(x)))(X)  # another function: JAX keeps modules

    assert "stablehlo.select_and_scatter" in program().mlir_module()
    with exported_for_this_job():
        found = program()
    assert "stablehlo.select_and_scatter" not in found.mlir_module()
    assert export.deserialize(found.serialize()).call(X).tolist() == gradient(X).tolist()
    assert "stablehlo.select_and_scatter" in program().mlir_module()


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


JAX_S_OWN = """
import difflib
import re

import jax
import jax.numpy as jnp
import muster, muster.config, muster.estimator
from jax import export, lax
from jax.experimental.compute_on import compute_on
from muster.cpu import exported_for_this_job, prepare

NHWC = ("NHWC", "HWIO", "NHWC")
IMAGES = jax.ShapeDtypeStruct((2, 9, 9, 4), jnp.float32)
UNKNOWN = jax.ShapeDtypeStruct((*export.symbolic_shape("rows"), 9, 9, 4), jnp.float32)


def conv(x, strides=(1, 1), **options):
    kernel = jnp.ones((3, 3, x.shape[-1] // options.get("feature_group_count", 1), 8), x.dtype)
    return lax.conv_general_dilated(x, kernel, strides, "SAME", dimension_numbers=NHWC, **options)


def pool(x, start, operation):
    return lax.reduce_window(x, start, operation, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def gradient(function):
    return jax.grad(lambda x: jnp.sum(function(x)).real.astype(float))


APPLY = [
    (conv, IMAGES),
    (lambda x: jnp.tensordot(x, x, ((0, 1, 2), (0, 1, 2))), IMAGES),
    (lambda x: pool(x, 0.0, lax.add), IMAGES),
    (gradient(lambda x: pool(x, -jnp.inf, lax.max)), IMAGES),
]
DO_NOT_APPLY = [
    (gradient(lambda x: conv(x, strides=(2, 2))), IMAGES),
    (gradient(lambda x: conv(x.astype(complex))), IMAGES),
    (gradient(lambda x: conv(x, preferred_element_type=jnp.float32)), IMAGES.update(dtype=jnp.bfloat16)),
    (gradient(lambda x: conv(x, rhs_dilation=(2, 2), feature_group_count=2)), IMAGES),
    (lambda x: pool(x, 0, lax.add), IMAGES.update(dtype=jnp.int8)),
    (lambda x: jnp.tensordot(x, x.astype(jnp.float32), ((0, 1), (0, 1))), IMAGES.update(dtype=jnp.bfloat16)),
    (gradient(lambda x: jnp.einsum("abcd,abcd->abd", x, x @ jnp.ones((4, 4)))), IMAGES),
    (gradient(lambda x: pool(x * 1j, 0, lax.add)), IMAGES),
    (jax.shard_map(
        lambda x: conv(x, rhs_dilation=(2, 2), feature_group_count=2),
        mesh=jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,)),
        in_specs=jax.P("x"), out_specs=jax.P("x"),
    ), IMAGES),
]
EXPORTED = [*APPLY, *DO_NOT_APPLY, *((function, UNKNOWN) for function, _ in APPLY)]


def exported(cases):
    # The modules are for any processor.
    for function, x in cases:
        with_places = export.export(jax.jit(lambda x: function(x)))(x).mlir_module()
        yield re.sub(r'^#loc.*\\n| loc\\(("[^"]*"\\()?#?\\w+\\)+', "", with_places, flags=re.MULTILINE)


def texts(cases):
    return [jax.jit(lambda x: function(x)).lower(x).as_text() for function, x in cases]


def same(befores, nows):
    for case, (before, now) in enumerate(zip(befores, nows, strict=True)):
        changes = "\\n".join(difflib.unified_diff(before.splitlines(), now.splitlines(), "jax", "muster"))
        assert before == now, f"case {case}: {changes}"


def on_host(x):
    with compute_on("device_host"):
        return jnp.stack([jnp.sum(function(x)) for function, _ in (*APPLY, DO_NOT_APPLY[0], DO_NOT_APPLY[3])])


def algorithms():
    for preset in lax.DotAlgorithmPreset:
        try:
            jax.jit(lambda x: lax.dot(x, x, precision=preset)).lower(jnp.ones((4, 4)))
        except ValueError as exc:
            yield str(exc)
        else:
            yield "taken"


X = jax.random.normal(jax.random.key(0), IMAGES.shape)
taken = list(algorithms())
on_host_before = jax.jit(lambda x: on_host(x))(X)
apply, do_not_apply, for_any = texts(APPLY), texts(DO_NOT_APPLY), [*exported(EXPORTED)]
prepare()
assert [before == now for before, now in zip(apply, texts(APPLY), strict=True)] == [False] * len(APPLY)
same(do_not_apply, texts(DO_NOT_APPLY))
assert taken == list(algorithms())
same(for_any, exported(EXPORTED))
assert jnp.allclose(on_host_before, jax.jit(lambda x: on_host(x))(X), rtol=1e-5)
muster.config.use_cpu_lowerings(False)
same(apply + do_not_apply, texts(APPLY + DO_NOT_APPLY))
assert taken == list(algorithms())
"""


@pytest.mark.slow
@pytest.mark.processes
def test_switched_off_or_where_they_do_not_apply_programs_are_jax_s_own():
    """If this fails, a release of JAX lowers these for CPU and for GPUs by different rules.

    Its message is the difference; see ``_rule`` in muster/cpu/_lowerings.py. Also, importing muster changes
    nothing: JAX's own programs are made after that here.
    """
    subprocess.run([sys.executable, "-c", JAX_S_OWN], check=True, timeout=120)


def test_what_is_computed_both_ways_differs_in_the_program():
    ours, theirs = lowered_both_ways(gradient, X)
    assert ours.as_text() != theirs.as_text()


@pytest.mark.processes
def test_choosing_does_not_start_jax():
    """Or it could not become one of several processes any more, as under MultiWorkerMirroredStrategy."""
    program = """
import jax, muster
muster.config.use_cpu_lowerings(False)
muster.config.use_cpu_lowerings(True)
jax.distributed.initialize("127.0.0.1:%d", num_processes=1, process_id=0)
"""
    (address,) = free_addresses(1)
    subprocess.run([sys.executable, "-c", program % int(address.rpartition(":")[2])], check=True, timeout=120)
