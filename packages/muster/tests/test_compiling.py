"""conftest.py compiles quickly by way of a private function of JAX: where that changes, this says so."""

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
