"""A program's step, compiled once for each shape of its input."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from muster import cpu
from muster.distribute.engine._limits import Limits

Array = Any
State = Any  # a nested structure of arrays
Outputs = dict[str, Any]
Step = Callable[[State, Any], tuple[State, Any]]
"""``(state, batch) -> (state, outputs)``."""

Executables = dict[str, Callable[..., Any]]
"""Fingerprint of a lowered function and the compiler's options -> the compiled one. An owner of programs
keeps one, so that a model that is built anew (for every evaluation, say) is not compiled anew."""


@jax.tree_util.register_dataclass
@dataclass
class Several:
    """Batches of one shape for steps that are dispatched together.

    Attributes:
        batches: at least one; each as a step takes it.
    """

    batches: list[Any]


class StepMaker(Protocol):
    """Says how batches of some shape are worked on."""

    def __call__(self, state: State, batch: Any, executables: Executables) -> Step:
        """A compiled step for batches like this one. It puts them onto the devices, and donates the state."""


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
        self._by_signature: dict[Any, tuple[Step, Limits]] = {}

    def __call__(self, state: State, batch: Any) -> tuple[State, Outputs]:
        """Run one step.

        Args:
            state: path -> array; must not be used afterwards.
            batch: a nested structure of NumPy or JAX arrays, per worker; or ``Several`` of them, and the
                outputs are those of the last.

        Raises:
            DatasetError: if the batch holds a whole number that JAX would cut off to 32 bits.
        """
        leaves, structure = jax.tree.flatten(batch)
        signature = (structure, *[(leaf.shape, leaf.dtype) for leaf in leaves])
        step, limits = self._by_signature.get(signature) or (None, Limits(leaves))
        limits.check(leaves, batch)
        if step is None:
            step = self._make(state, batch, self._executables)
            self._by_signature[signature] = step, limits
        result = step(state, batch)
        return result if self._run_ahead else jax.block_until_ready(result)


def in_turn(step: Step, state: State, batch: Any) -> tuple[State, Outputs]:
    """Take one step, or one after the other for ``Several`` batches, in one program."""
    if not isinstance(batch, Several):
        return step(state, batch)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batch.batches)
    state, outputs = jax.lax.scan(step, state, stacked)
    return state, jax.tree.map(lambda values: values[-1], outputs)


def compiled(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    donates: tuple[int, ...],
    executables: Executables,
) -> Callable[..., Any]:
    """A function compiled for arguments like these, or what was compiled before if it is the same.

    Args:
        function: pure.
        args: arrays or ``jax.ShapeDtypeStruct`` s, in nested structures.
        donates: which of the arguments it may overwrite, by their place.
        executables: looked up by fingerprint and added to.
    """

    def step(*args: Any) -> Any:  # the name that profiles and the compilation cache show
        return function(*args)

    cpu.keep_memory()
    lowered = jax.jit(step, donate_argnums=donates).lower(*args)
    text = lowered.as_text()
    options = cpu.compiler_options(text)
    # An executable is called with arguments in the structure that it was compiled for.
    described = f"{options}\n{lowered.in_tree}\n{lowered.out_tree}\n{text}"
    fingerprint = hashlib.sha256(described.encode()).hexdigest()
    if fingerprint not in executables:
        executables[fingerprint] = lowered.compile(compiler_options=options)
    return executables[fingerprint]
