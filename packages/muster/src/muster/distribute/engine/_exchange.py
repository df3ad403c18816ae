"""The engine of workers with one CPU device each: they all-reduce on the host, between compiled parts."""

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from muster._errors import TraceError
from muster.distribute.engine._compiled import CompiledStep, compiled
from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._mesh import MeshEngine, replicated_on
from muster.distribute.engine._split import ReplicatedBatch, Split, UnevenBatch, WholeWarning, sizes_of
from muster.distribute.engine._traced import Engine, Executables, Reads, State, Step, Traced, View
from muster.distribute.engine._uneven import (
    UnevenError,
    as_chief_has,
    is_uneven,
    own_values,
    with_replicated_fallback,
)
from muster.distribute.replicas._values import by_numbers
from muster.distribute.workers._workers import Workers
from muster.program import Gathers, Replicas, Shares, corrected
from muster.program.partition import IndivisibleError, partitioned
from muster.program.passes import UNLIKE_REDUCTIONS, Segment, all_reduce_on_host, split_at_all_reduces

_log = logging.getLogger(__name__)


class ExchangeEngine(Engine):
    """Compiles for workers that all-reduce over sockets rather than by XLA's collectives.

    On CPUs that is faster, and a lost worker is an error, not an abort. In the global view each worker keeps
    a local copy of the state and computes its rows of the batch, and reductions over the batch are exchanged:
    once for all gradients, which XLA adds one by one. A step that ``program.partition`` cannot divide, XLA
    does, or without a mesh every worker computes all rows.

    Args:
        mesh: The devices of all workers, by rank; None if JAX has only this worker's.
        workers: The processes.
        bytes_per_pack: Values are reduced in packs of about this size; 0 for a single one.
    """

    def __init__(self, mesh: Mesh | None, workers: Workers, bytes_per_pack: int = 0) -> None:
        self._mesh = mesh
        self._workers = workers
        self._rank = jnp.uint32(workers.rank)
        self._bytes_per_pack = bytes_per_pack
        self._whole_warning = WholeWarning()

    def compile(self, traced: Traced, executables: Executables) -> Step:
        if traced.view is View.REPLICA:
            self._workers.require_equal("variables", list(map(str, traced.variables)))
            return CompiledStep(functools.partial(self._replicated, traced, executables))
        engine = MeshEngine(self._mesh, self._workers) if self._mesh else DeviceEngine()
        undivided = engine.compile(traced, executables)
        return CompiledStep(functools.partial(self._divided, traced, executables, undivided))

    def _replicated(
        self, traced: Traced, executables: Executables, state: State, reads: Reads, batch: Any
    ) -> Step:
        """Return the step of the replica view."""

        def make(batch: Any) -> Step:
            return self._exchanged(traced.step, executables, state, reads, batch, unequal=is_uneven(batch))

        return with_replicated_fallback(make, batch, self._whole_warning)

    def _exchanged(
        self,
        run: Callable[[State, Reads, Any, Replicas], tuple[State, Any]],
        executables: Executables,
        state: State,
        reads: Reads,
        batch: Any,
        unequal: bool = False,
    ) -> Step:
        """Return the step of one replica on each worker.

        Args:
            run: The code.
            executables: As of ``compile``.
            state: Values of variables.
            reads: Values of variables that stay as they are.
            batch: A worker batch.
            unequal: Whether workers may differ in what they reduce, since they have different rows.

        Raises:
            UnevenError: They do, or the code of one fails on its rows. All workers raise it.
        """
        count, shares = self._workers.size, None
        if isinstance(batch, UnevenBatch):
            sizes = sizes_of(batch.rows, count)
            shares = Shares(sizes, sizes[self._workers.rank])

        def local_step(
            gathers: Gathers, state: State, reads: Reads, batch: Any, rank: jax.Array
        ) -> tuple[State, Any]:
            replicas = Replicas(
                index=rank,
                all_reduce=all_reduce_on_host,
                count=count,
                active=1 if isinstance(batch, ReplicatedBatch) else count,
                bytes_per_pack=self._bytes_per_pack,
                shares=shares,
                program_of=self._workers.rank,
                gathers=gathers,
            )
            return run(state, reads, batch, replicas)

        donated = len(jax.tree.leaves(state))
        own = self._own_rows(batch)
        known: list[tuple[int, ...]] | None = []
        while known is not None:
            gathers = Gathers(known)
            step = functools.partial(local_step, gathers)
            failure: Exception | None = None
            try:
                parts, structure = split_at_all_reduces(step, state, reads, own, self._rank, donated=donated)
            except Exception as exc:
                if not unequal:
                    raise
                failure = exc
            known = None
            if unequal:
                reduced = None if failure is not None else [part.lengths for part in parts]
                told = self._workers.all_gather_object([gathers.made, reduced])
                known = corrected([made for made, _ in told])
                if known is None:
                    _require_equal_reductions([each for _, each in told], failure)
            elif gathers.made:  # if one worker gathers, all do: they run the same code
                known = corrected(self._workers.all_gather_object(gathers.made))
        return self._in_parts(parts, structure, executables)

    def _own_rows(self, batch: Any) -> Any:
        """Return this worker's rows of an uneven batch, and its values of others without their padding."""
        if not isinstance(batch, UnevenBatch):
            return own_values(batch, self._workers.rank)
        own = Split(self._workers.rank, self._workers.size).rows(batch.rows)
        return jax.tree.map(lambda leaf: leaf[own] if np.ndim(leaf) else leaf, batch.batch)

    def _in_parts(self, parts: list[Segment], structure: Any, executables: Executables) -> Step:
        """Run the parts one after the other; each is compiled when it is first run."""
        runs: list[Callable[..., list[jax.Array]]] = []

        def step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            own = self._own_rows(as_chief_has(batch, self._workers))
            values: list[Any] = [*jax.tree.leaves((state, reads, own)), self._rank]
            results: list[jax.Array] = []
            for number, part in enumerate(parts):
                takes = [values[i] for i in part.takes]
                if number == len(runs):
                    runs.append(compiled(part.function, tuple(takes), executables, part.donates))
                results = runs[number](*takes)
                partial_sums, kept = results[: len(part.sums)], results[len(part.sums) :]
                if partial_sums:
                    sums = self._workers.all_reduce([np.asarray(value) for value in partial_sums])
                    values += [*sums, *kept]
            return jax.tree.unflatten(structure, results)  # type: ignore[no-any-return]

        return step

    def _divided(
        self,
        traced: Traced,
        executables: Executables,
        undivided: Step,
        state: State,
        reads: Reads,
        batch: Any,
    ) -> Step:
        """Return the step of the global view, divided so that this worker computes its rows of the batch."""
        state = jax.tree.map(local_copy, state)
        if isinstance(batch, ReplicatedBatch):
            whole = compiled(traced.step, (state, reads, batch), executables)
            return _on_local_state(
                lambda state, reads, batch: whole(state, reads, as_chief_has(batch, self._workers))
            )

        def run(state: State, reads: Reads, batch: Any, replicas: Replicas) -> tuple[State, Any]:
            def function(state: State, batch: Any) -> tuple[State, Any]:
                return traced.step(state, reads, batch)

            return partitioned(function, state, batch, replicas)  # type: ignore[no-any-return]

        reason = ""
        try:
            exchanged = _on_local_state(self._exchanged(run, executables, state, reads, batch))
        except IndivisibleError as exc:
            reason = str(exc)
        self._workers.require_equal("steps", [reason])
        if not reason:
            return exchanged
        if self._mesh is None:
            _log.warning(
                "Every worker computes a step on the rows of all, because muster does not divide it: %s. XLA "
                "does if the program calls jax.distributed.initialize before it builds the strategy.",
                reason,
            )
            return lambda state, reads, batch: undivided(state, reads, self._all_rows(batch))
        _log.debug("XLA divides a step among the workers: %s.", reason)
        on_mesh = functools.partial(replicated_on, self._mesh)
        return lambda state, reads, batch: undivided(jax.tree.map(on_mesh, state), reads, batch)

    def _all_rows(self, batch: Any) -> Any:
        """Return the rows of all workers; every worker has those of an uneven batch."""
        return batch if isinstance(batch, UnevenBatch) else jax.tree.map(self._gathered, batch)

    def _gathered(self, array: Any) -> Any:
        """Return the rows of all workers; a number without rows is the same on all."""

        def move(rows: Any) -> Any:
            return np.concatenate(self._workers.all_gather(np.asarray(rows)))

        return by_numbers(move, array) if np.ndim(array) else array


def _require_equal_reductions(reduced: Sequence[Any], failure: Exception | None) -> None:
    """Check that all workers reduce values of the same lengths.

    Args:
        reduced: The lengths on each worker; None if its code has failed.
        failure: The error of this worker's code.

    Raises:
        UnevenError: They do not.
    """
    if failure is None and None in reduced:
        failure = TraceError("The code has failed on the rows of another worker.")
    elif failure is None and any(each != reduced[0] for each in reduced):
        failure = TraceError(UNLIKE_REDUCTIONS.format("values of other shapes"))
    if failure is not None:
        raise UnevenError(failure) from failure


def local_copy(value: jax.Array) -> jax.Array:
    """Return this process' copy of a value that is replicated over processes."""
    return value if value.is_fully_addressable else value.addressable_data(0)


def _on_local_state(step: Step) -> Step:
    return lambda state, reads, batch: step(jax.tree.map(local_copy, state), reads, batch)
