"""A program's step, compiled once for each shape of its input."""

import hashlib
from collections.abc import Callable
from typing import Any, Protocol

import jax

Array = Any
State = dict[str, Array]
Outputs = dict[str, Any]
Step = Callable[[State, Any], tuple[State, Outputs]]

Executables = dict[str, Step]
"""Fingerprint of a lowered step -> the compiled step. An owner of programs keeps one, so that a model
that is built anew (for every evaluation, say) is not compiled anew."""


class StepMaker(Protocol):
    """Says how batches of some shape are worked on."""

    def __call__(self, batch: Any) -> tuple[Step, Callable[[Any], Any]]:
        """The step to compile for batches like this one, and what puts such a batch onto the devices."""


class CompiledStep:
    """Runs a step: ``(state, batch) -> (state, outputs)``. The state is donated.

    Args:
        make: gives the step for the shape of a batch.
        executables: what was compiled before; looked up by fingerprint and added to.
        run_ahead: whether a step may be dispatched before the one before is done.
    """

    def __init__(self, make: StepMaker, executables: Executables, *, run_ahead: bool = True) -> None:
        self._make = make
        self._executables = executables
        self._run_ahead = run_ahead
        self._by_signature: dict[Any, tuple[Step, Callable[[Any], Any]]] = {}

    def __call__(self, state: State, batch: Any) -> tuple[State, Outputs]:
        """Run one step.

        Args:
            state: path -> array; must not be used afterwards.
            batch: a nested structure of NumPy or JAX arrays, per worker.
        """
        leaves, structure = jax.tree.flatten(batch)
        signature = (structure, *[(leaf.shape, leaf.dtype) for leaf in leaves])
        found = self._by_signature.get(signature)
        if found is None:
            found = self._by_signature[signature] = self._compiled(state, batch)
        run, place = found
        result = run(state, place(batch))
        return result if self._run_ahead else jax.block_until_ready(result)

    def _compiled(self, state: State, batch: Any) -> tuple[Step, Callable[[Any], Any]]:
        step, place = self._make(batch)
        lowered = jax.jit(step, donate_argnums=0).lower(state, place(batch))
        fingerprint = hashlib.sha256(lowered.as_text().encode()).hexdigest()
        if fingerprint not in self._executables:
            self._executables[fingerprint] = lowered.compile()
        return self._executables[fingerprint], place
