"""The engine of a mesh: replicas on the devices of one or more processes, reduced by XLA's collectives."""

import contextlib
import functools
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from muster._arrays import AnyArray
from muster.distribute.engine._compiled import BatchGroup, CompiledStep, compiled, in_turn
from muster.distribute.engine._packing import ONE_PACK, Packing
from muster.distribute.engine._split import ReplicatedBatch
from muster.distribute.engine._traced import Engine, Executables, Reads, State, Step, Traced, View
from muster.distribute.replicas._random_keys import by_numbers
from muster.distribute.workers._workers import SingleWorker, Workers
from muster.program import Replicas

AXIS = "replica"


class MeshEngine(Engine):
    """Compiles for the devices of a mesh.

    In the replica view the code runs under ``shard_map``. In the global view XLA partitions it.

    Args:
        mesh: The devices along one axis, ``AXIS``, over all processes.
        workers: The processes.
        packing: Which gradients are reduced together.
    """

    def __init__(self, mesh: Mesh, workers: Workers | None = None, packing: Packing = ONE_PACK) -> None:
        self._mesh = mesh
        self._workers = workers or SingleWorker()
        self._packing = packing

    def compile(self, traced: Traced, executables: Executables | None = None) -> Step:
        if traced.view is View.REPLICA:
            require_same_variables(self._workers, traced)
        make = self._replicated if traced.view is View.REPLICA else self._partitioned
        run_ahead = runs_ahead(self._mesh)
        return CompiledStep(functools.partial(make, traced), executables, run_ahead=run_ahead)

    def shard_mapped(self, traced: Traced, batch: Any) -> Step:
        """Return the replica view of traced code, for batches like this one: a function of global arrays."""
        first = batch.batches[0] if isinstance(batch, BatchGroup) else batch
        counts_once = isinstance(first, ReplicatedBatch)
        results = False if counts_once else traced.results_sharded

        def step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            replicas = self._replicas(active=1 if counts_once else self._mesh.size)
            return traced.run(state, reads, batch.batch if counts_once else batch, replicas)

        return jax.shard_map(
            functools.partial(in_turn, step),
            mesh=self._mesh,
            in_specs=(_specs(traced.state_sharded), P(), _specs(_sharded(traced, batch))),
            out_specs=(_specs(traced.new_state_sharded), _specs(results)),
            check_vma=False,
        )

    def _replicated(
        self, traced: Traced, state: State, reads: Reads, batch: Any, executables: Executables
    ) -> Step:
        place = self._placing(_sharded(traced, batch), batch)
        step = self.shard_mapped(traced, batch)
        run = compiled(step, (state, reads, place(batch)), executables)
        return lambda state, reads, batch: run(state, reads, place(batch))

    def _partitioned(
        self, traced: Traced, state: State, reads: Reads, batch: Any, executables: Executables
    ) -> Step:
        everywhere = NamedSharding(self._mesh, P())
        place = self._placing(_sharded(traced, batch), batch)

        def step(state: State, reads: Reads, batch: Any) -> Any:
            batch = batch.batch if isinstance(batch, ReplicatedBatch) else batch
            return jax.lax.with_sharding_constraint(traced.run(state, reads, batch, None), everywhere)

        run = compiled(step, (state, reads, place(batch)), executables)
        waits = not everywhere.is_fully_addressable

        def run_step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            nonlocal waits
            result: tuple[State, Any] = run(state, reads, place(batch))
            if waits:  # the threads of the collectives exist once a step has run
                jax.block_until_ready(result)
                _use_any_core()
                waits = False
            return result

        return run_step

    def _placing(self, sharded: Any, batch: Any) -> Callable[[Any], Any]:
        """Return a function that puts this process' part of batches like this one onto the devices."""
        shardings = [NamedSharding(self._mesh, P(AXIS) if leaf else P()) for leaf in _by_leaf(sharded, batch)]

        def place(batch: Any) -> Any:
            leaves, structure = jax.tree.flatten(batch)
            placed = [_on_devices(leaf, where) for leaf, where in zip(leaves, shardings, strict=True)]
            return jax.tree.unflatten(structure, placed)

        return place

    def _replicas(self, *, active: int) -> Replicas:
        """Return the replicas, as code inside of ``shard_map`` sees them."""
        return Replicas(
            index=jax.lax.axis_index(AXIS),
            all_reduce=self._packing.adding(functools.partial(jax.lax.psum, axis_name=AXIS)),
            count=self._mesh.size,
            active=active,
            bytes_per_pack=self._packing.limit,
        )


def require_same_variables(workers: Workers, traced: Traced) -> None:
    """Check that all workers compile code with the same variables.

    Raises:
        MismatchError: They differ.
    """
    if workers.size > 1:
        workers.require_equal("variables", [str(variable) for variable in traced.variables])


def replicated_on(mesh: Mesh, value: jax.Array) -> jax.Array:
    """Replicate a value, of which every process has a copy, on all devices of a mesh."""
    local = value.addressable_data(0)
    present = local.devices()
    copies = [local if device in present else jax.device_put(local, device) for device in mesh.local_devices]
    return jax.make_array_from_single_device_arrays(value.shape, NamedSharding(mesh, P()), copies)


def runs_ahead(mesh: Mesh) -> bool:
    """Whether a step may be dispatched before the one before is done.

    Several CPU devices in one process deadlock when Python runs ahead.
    """
    local = mesh.local_devices
    return len(local) == 1 or local[0].platform != "cpu"


def _sharded(traced: Traced, batch: Any) -> Any:
    if isinstance(batch, BatchGroup):
        return BatchGroup([traced.sharded(each) for each in batch.batches])
    return traced.sharded(batch)


def _by_leaf(sharded: Any, structure: Any) -> list[bool]:
    """Return the flags of a prefix for each array of a structure."""
    flags = jax.tree.map(lambda flag, part: [flag] * len(jax.tree.leaves(part)), sharded, structure)
    return jax.tree.leaves(flags)


def _specs(sharded: Any) -> Any:
    return jax.tree.map(lambda flag: P(AXIS) if flag else P(), sharded)


def _on_devices(array: AnyArray, sharding: NamedSharding) -> jax.Array:
    """Put this process' part of an array onto the devices, unless it is there."""
    if isinstance(array, jax.Array):
        current = array.sharding
        if current == sharding or current.is_equivalent_to(sharding, array.ndim):  # the first is faster
            return array
    placed: jax.Array = by_numbers(
        lambda numbers: jax.make_array_from_process_local_data(sharding, np.asarray(numbers)), array
    )
    return placed


def _use_any_core() -> None:
    """Let the threads of this process run on any core, even if it was bound to one.

    While XLA's collectives on CPU wait for other processes, they yield again and again rather than sleep.
    Bound to one core, each such wait costs a time slice of 4 ms: a step with five collectives takes 38 ms
    rather than 8.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setaffinity(int(thread), range(os.cpu_count() or 1))
