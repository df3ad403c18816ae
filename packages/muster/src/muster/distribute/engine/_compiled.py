"""Compiles a step once for each shape of its input."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from muster import cpu
from muster.distribute.engine._limits import Limits
from muster.distribute.engine._split import ReplicatedBatch, UnevenBatch
from muster.distribute.engine._traced import BatchGroup, Executables, Reads, State, Step
from muster.distribute.workers._workers import ReplicaShare
from muster.program.trace import no_collections

# JAX's calls to Python, on all kinds of devices, such as `@xla_ffi_python_cpu_callback`.
_CALLBACK = re.compile(r"custom_call @\w*callback")


class CompiledStep:
    """Runs a step, which is compiled for each shape of its batch. The state is donated.

    Args:
        make: Called with the state, the reads and the first batch of a shape; returns the step for such
            batches, which puts them onto the devices and donates the state.
        run_ahead: Whether a step may be dispatched before the one before is done.
        share: The virtual replicas of this process: then a step is for batches in which each has as many
            rows, however many of them are here. None if their number does not change.
    """

    def __init__(
        self,
        make: Callable[[State, Reads, Any], Step],
        *,
        run_ahead: bool = True,
        share: ReplicaShare | None = None,
    ) -> None:
        self._share = share
        self._make = make
        self._run_ahead = run_ahead
        self._by_signature: dict[Any, tuple[Step, Limits]] = {}

    def __call__(self, state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
        """Run one step.

        Args:
            state: Values of variables; must not be used afterwards.
            reads: Values of variables that stay as they are.
            batch: A nested structure of NumPy or JAX arrays, per worker; or ``BatchGroup``, which returns
                the results of the last.

        Raises:
            DatasetError: The batch holds a 64-bit integer that JAX would truncate to 32 bits.
        """
        result = self.prepare(state, reads, batch)(state, reads, batch)
        return result if self._run_ahead else jax.block_until_ready(result)

    def prepare(self, state: State, reads: Reads, batch: Any) -> Step:
        """Return the step for batches like this one, compiled if it is the first; runs nothing.

        Args:
            state: Values of variables.
            reads: Values of variables that stay as they are.
            batch: As for a call.

        Raises:
            DatasetError: The batch holds a 64-bit integer that JAX would truncate to 32 bits.
        """
        leaves, structure = jax.tree_util.tree_flatten(batch)
        if self._share is None or isinstance(batch, ReplicatedBatch | UnevenBatch):
            signature = (structure, *[(leaf.shape, leaf.dtype) for leaf in leaves])
        else:
            signature = (structure, *[(_per_replica(leaf.shape, self._share), leaf.dtype) for leaf in leaves])
        step, limits = self._by_signature.get(signature) or (None, Limits(leaves))
        if limits.exist:
            limits.check(leaves, batch)
        if step is None:
            step = self._make(state, reads, batch)
            self._by_signature[signature] = step, limits
        return step


def _per_replica(shape: tuple[int, ...], share: ReplicaShare) -> tuple[float, ...]:
    """Return the shape of a replica's part of an array of several."""
    return (shape[0] / share.count, *shape[1:]) if shape else shape


def scan_group(step: Step, loss: str | None, state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
    """Run a step; for a ``BatchGroup`` scan over its batches in one program, and return the last results.

    Args:
        step: The step.
        loss: The key of its loss, if it has one: NaN if that of any batch is.
        state: Values of variables.
        reads: Values of variables that stay as they are.
        batch: The batch, or batches.
    """
    if not isinstance(batch, BatchGroup):
        return step(state, reads, batch)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batch.batches)
    state, results = jax.lax.scan(lambda state, batch: step(state, reads, batch), state, stacked)
    last = jax.tree.map(lambda values: values[-1], results)
    if loss is not None:
        losses = results[loss]
        last[loss] = jnp.where(jnp.isnan(losses).any(0), jnp.nan, last[loss]).astype(losses.dtype)
    return state, last


def compiled_step(step: Step, args: tuple[State, Reads, Any], executables: Executables) -> Step:
    """Compile a step for a state, reads and a batch like these; see `compiled`.

    XLA puts operations in order from a program's first output on. With the new state first, the gradient of
    the first layer's kernel, which comes last, is the first to be looked at, and less runs side by side: a
    step of a small convolutional network takes 4 to 8 % longer on two cores (`bench fit`). That is for one
    device: what XLA divides over several would hold up to twice as much memory (`test_uneven_batches`).
    """

    def results_first(state: State, reads: Reads, batch: Any) -> tuple[Any, State]:
        state, results = step(state, reads, batch)
        return results, state

    run = compiled(results_first, args, executables)

    def compiled_one(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
        results, state = run(state, reads, batch)
        return state, results

    return compiled_one


def compiled(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    executables: Executables,
    donates: tuple[int, ...] = (0,),
) -> Callable[..., Any]:
    """Compile a function for arguments like these, or return the equal one that was compiled before.

    One that calls back into Python is compiled anew: the text does not say what it calls, such as which
    writer takes a summary.

    Args:
        function: Pure.
        args: Arrays or ``jax.ShapeDtypeStruct`` s, in nested structures.
        executables: Compiled functions by fingerprint; looked up and added to.
        donates: The numbers of the arguments whose memory it may reuse.
    """

    def step(*args: Any) -> Any:  # the name that profiles and the compilation cache show
        return function(*args)

    cpu.prepare()
    cpu.keep_memory()
    jitted: Any = jax.jit(step, donate_argnums=donates)  # jax.stages.Wrapped, which lacks clear_cache
    with no_collections():
        lowered = jitted.lower(*args)
    # JAX keeps traces for later calls, which do not come, and those of each call of einsum.
    jitted.clear_cache()
    text = lowered.as_text()
    options = cpu.compiler_options(text)
    if _CALLBACK.search(text):
        return lowered.compile(compiler_options=options)  # type: ignore[no-any-return]
    # An executable is called with arguments in the structure that it was compiled for, and in their shapes,
    # of which the text has only those that are used.
    shapes = [(leaf.shape, leaf.dtype.name) for leaf in jax.tree.leaves(args)]
    described = f"{options}\n{lowered.in_tree}\n{lowered.out_tree}\n{shapes}\n{text}"
    fingerprint = hashlib.sha256(described.encode()).hexdigest()
    if fingerprint not in executables:
        executables[fingerprint] = lowered.compile(compiler_options=options)
    return executables[fingerprint]
