"""A program's step, compiled once for each shape of its input."""

import hashlib
from collections.abc import Callable
from typing import Any

import jax

from muster.program import Program

Array = Any
State = dict[str, Array]
Outputs = dict[str, Any]

Executables = dict[str, Callable[[State, Any], tuple[State, Outputs]]]
"""Fingerprint of a lowered step -> the compiled step. An owner of programs keeps one, so that a model
that is built anew (for every evaluation, say) is not compiled anew."""


class CompiledStep:
    """Runs a program's step: ``(state, batch) -> (state, outputs)``. The state is donated.

    Args:
        program: whose step to run.
        executables: what was compiled before; looked up by fingerprint and added to.
        eagerly: run the Python of the step at every call, for debugging.
    """

    def __init__(self, program: Program[Any], executables: Executables, *, eagerly: bool = False) -> None:
        self._program = program
        self._executables = executables
        self._eagerly = eagerly
        self._by_signature: dict[Any, Callable[[State, Any], tuple[State, Outputs]]] = {}

    def __call__(self, state: State, batch: Any) -> tuple[State, Outputs]:
        """Run one step.

        Args:
            state: path -> array; must not be used afterwards.
            batch: a nested structure of NumPy or JAX arrays.
        """
        leaves, structure = jax.tree.flatten(batch)
        signature = (structure, *[(leaf.shape, leaf.dtype) for leaf in leaves])
        run = self._by_signature.get(signature)
        if run is None:
            run = self._by_signature[signature] = self._compiled(state, batch)
        return run(state, batch)

    def _compiled(self, state: State, batch: Any) -> Callable[[State, Any], tuple[State, Outputs]]:
        if self._eagerly:
            return self._program.step_eagerly
        lowered = jax.jit(self._program.step, donate_argnums=0).lower(state, batch)
        fingerprint = hashlib.sha256(lowered.as_text().encode()).hexdigest()
        if fingerprint not in self._executables:
            self._executables[fingerprint] = lowered.compile()
        return self._executables[fingerprint]
