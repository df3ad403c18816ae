"""harness.py compiles quickly by way of private functions of JAX: where they change, this says so."""

import jax
import jax.numpy as jnp
import pytest


def compiled_quickly() -> bool:
    executable = jax.jit(lambda x: jnp.tanh(x) + 1).lower(jnp.ones(3)).compile().runtime_executable()
    assert executable is not None
    return b"xla_llvm_disable_expensive_passes" in executable.serialize()


@pytest.mark.optimized
def test_programs_are_those_of_users_where_a_mark_asks_for_them() -> None:
    assert not compiled_quickly()


def test_programs_are_compiled_quickly_elsewhere() -> None:
    assert compiled_quickly()


def test_programs_are_lowered_in_contexts_of_others() -> None:
    modules = [jax.jit(lambda x, by=by: x + by).lower(1.0).compiler_ir() for by in range(3)]
    assert len({id(module.context) for module in modules}) < 3  # one may be full, and the next be made
    assert len(set(map(str, modules))) == 3
