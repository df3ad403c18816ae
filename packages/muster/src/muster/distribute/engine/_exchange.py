"""The engine of workers with one CPU device each: they all-reduce on the host, between compiled parts."""

import functools
import logging
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from muster.distribute.engine._compiled import CompiledStep, compiled, compiled_step
from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._in_turn import InTurnEngine
from muster.distribute.engine._mesh import MeshEngine, replicated_on
from muster.distribute.engine._split import ReplicatedBatch, UnevenBatch
from muster.distribute.engine._traced import Engine, Executables, Reads, State, Step, Traced, View
from muster.distribute.engine._uneven import EvenEngine, UnevenEngine, as_chief_has
from muster.distribute.replicas._values import by_numbers
from muster.distribute.workers._workers import Workers
from muster.program import Replicas
from muster.program.partition import IndivisibleError, partitioned
from muster.program.passes import all_reduce_on_host

_log = logging.getLogger(__name__)


class CutEngine(EvenEngine):
    """Compiles for one replica on each worker: cuts programs at reductions, and reduces on the host.

    Args:
        workers: The processes.
        bytes_per_pack: Values are reduced in packs of about this size; 0 for a single one.
    """

    runs_own = True

    def __init__(self, workers: Workers, bytes_per_pack: int) -> None:
        super().__init__(workers, 1)
        self._rank = jnp.uint32(workers.rank)
        self._bytes_per_pack = bytes_per_pack

    def step_for(
        self, traced: Traced, executables: Executables, state: State, reads: Reads, batch: Any
    ) -> Step:
        count = self.workers.size

        def local_step(state: State, reads: Reads, batch: Any, rank: jax.Array) -> tuple[State, Any]:
            replicas = Replicas(
                index=rank,
                all_reduce=all_reduce_on_host,
                count=count,
                active=1 if isinstance(batch, ReplicatedBatch) else count,
                bytes_per_pack=self._bytes_per_pack,
                program_of=self.workers.rank,
            )
            return traced.step(state, reads, batch, replicas)

        donated = len(jax.tree.leaves(state))
        parts, structure = traced.cut(local_step, state, reads, batch, self._rank, donated=donated)
        runs: list[Callable[..., list[jax.Array]]] = []

        def step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            values: list[Any] = [*jax.tree.leaves((state, reads, batch)), self._rank]
            results: list[jax.Array] = []
            for number, part in enumerate(parts):
                takes = [values[i] for i in part.takes]
                if number == len(runs):  # each part is compiled when it is first run
                    runs.append(compiled(part.function, tuple(takes), executables, part.donates))
                results = runs[number](*takes)
                partial_sums, kept = results[: len(part.sums)], results[len(part.sums) :]
                if partial_sums:
                    sums = self.workers.all_reduce([np.asarray(value) for value in partial_sums])
                    values += [*sums, *kept]
            return jax.tree.unflatten(structure, results)  # type: ignore[no-any-return]

        return step


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
        engine = CutEngine if workers.share is None else InTurnEngine
        self._replicas = self._in_loops = UnevenEngine(engine(workers, bytes_per_pack))
        if workers.in_loops is not workers:
            self._in_loops = UnevenEngine(InTurnEngine(workers, bytes_per_pack, in_loops=True))

    def compile(self, traced: Traced, executables: Executables) -> Step:
        if traced.view is View.REPLICA:
            return (self._in_loops if traced.in_loops else self._replicas).compile(traced, executables)
        engine = UnevenEngine(MeshEngine(self._mesh, self._workers)) if self._mesh else DeviceEngine()
        undivided = engine.compile(traced, executables)
        make = functools.partial(self._divided, traced, executables, undivided)
        return CompiledStep(make, share=self._workers.share)

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
            whole = compiled_step(traced.step, (state, reads, batch), executables)
            return _on_local_state(
                lambda state, reads, batch: whole(state, reads, as_chief_has(self._workers, batch))
            )

        def run(state: State, reads: Reads, batch: Any, replicas: Any) -> tuple[State, Any]:
            def function(state: State, batch: Any) -> tuple[State, Any]:
                return traced.step(state, reads, batch)

            return partitioned(function, state, batch, replicas)  # type: ignore[no-any-return]

        reason = ""
        try:
            step = self._replicas.step_for(Traced(run=run), executables, state, reads, batch, alike=True)
            exchanged = _on_local_state(step)
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


def local_copy(value: jax.Array) -> jax.Array:
    """Return this process' copy of a value that is replicated over processes."""
    return value if value.is_fully_addressable else value.addressable_data(0)


def _on_local_state(step: Step) -> Step:
    return lambda state, reads, batch: step(jax.tree.map(local_copy, state), reads, batch)
