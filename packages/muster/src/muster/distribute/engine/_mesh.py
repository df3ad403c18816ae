"""The engine of a mesh: replicas on devices of one or more processes, with XLA's collectives."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from muster._arrays import AnyArray
from muster.distribute.engine._compiled import compiled, scan_group
from muster.distribute.engine._packing import ONE_PACK, Packing
from muster.distribute.engine._split import ReplicatedBatch, filled_up, row_count
from muster.distribute.engine._traced import BatchGroup, Executables, Reads, State, Step, Traced, View
from muster.distribute.engine._uneven import EvenEngine
from muster.distribute.replicas._values import by_numbers
from muster.distribute.workers._workers import SingleWorker, Workers
from muster.program import Replicas
from muster.program.passes import Rows, exchanging_rows


def use_any_core() -> None:
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


AXIS = "replica"


class MeshEngine(EvenEngine):
    """Compiles for the devices of a mesh.

    In the replica view the code runs under ``shard_map``. In the global view XLA partitions it.

    Args:
        mesh: The devices along one axis, ``AXIS``, over all processes.
        workers: The processes.
        packing: Which gradients are reduced together.
    """

    def __init__(self, mesh: Mesh, workers: Workers | None = None, packing: Packing = ONE_PACK) -> None:
        local = mesh.local_devices
        super().__init__(workers or SingleWorker(), len(local))
        self._mesh = mesh
        self._packing = packing
        self.looks_up_rows = self.workers.size == 1  # others might look up other rows
        # Several CPU devices in one process deadlock when Python dispatches a step before the last is done.
        self.run_ahead = len(local) == 1 or local[0].platform != "cpu"

    def step_for(
        self, traced: Traced, executables: Executables, state: State, reads: Reads, batch: Any
    ) -> Step:
        if traced.view is View.GLOBAL:
            return self._partitioned(traced, executables, state, reads, batch)
        place = self._placing(traced, batch)
        run = compiled(self.shard_mapped(traced, batch), (state, reads, place(batch)), executables)
        return lambda state, reads, batch: run(state, reads, place(batch))

    def shard_mapped(self, traced: Traced, batch: Any) -> Step:
        """Map traced code over the mesh, for batches like this one: a function of global arrays."""
        results = traced.sharded_results(batch.batches[0] if isinstance(batch, BatchGroup) else batch)
        add = self._packing.adding(functools.partial(jax.lax.psum, axis_name=AXIS))

        def step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            replicas = Replicas(
                index=jax.lax.axis_index(AXIS),
                all_reduce=add,
                count=self._mesh.size,
                active=1 if isinstance(batch, ReplicatedBatch) else self._mesh.size,
                bytes_per_pack=self._packing.limit,
            )
            return traced.step(state, reads, batch, replicas)

        mapped = jax.shard_map(
            functools.partial(scan_group, step, traced.loss),
            mesh=self._mesh,
            in_specs=(_specs(traced.state_sharded), P(), _specs(traced.sharded(batch))),
            out_specs=(_specs(traced.new_state_sharded), _specs(results)),
            check_vma=False,
        )
        of_all = traced.of_all
        if of_all is None:
            return mapped

        def run(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            state, out = mapped(state, reads, batch)
            return state, of_all(out, results)

        return run

    def _partitioned(
        self, traced: Traced, executables: Executables, state: State, reads: Reads, batch: Any
    ) -> Step:
        everywhere = NamedSharding(self._mesh, P())
        place = self._placing(traced, batch)
        shared = not isinstance(batch, ReplicatedBatch)

        def step(state: State, reads: Reads, batch: Any) -> Any:
            examples = traced.rows or row_count(batch) if shared else None

            def everyones(own: Rows) -> Rows:
                summed = own.summed_by_device(filled_up(examples, self._mesh.size)) if examples else own
                return dataclasses.replace(
                    summed, parts=jax.lax.with_sharding_constraint(summed.parts, everywhere)
                )

            with exchanging_rows(everyones):
                result = traced.step(state, reads, batch)
            return jax.lax.with_sharding_constraint(result, everywhere)

        run = compiled(step, (state, reads, place(batch)), executables)
        waits = not everywhere.is_fully_addressable

        def run_step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            nonlocal waits
            result: tuple[State, Any] = run(state, reads, place(batch))
            if waits:  # the threads of the collectives exist once a step has run
                jax.block_until_ready(result)
                use_any_core()
                waits = False
            return result

        return run_step

    def _placing(self, traced: Traced, batch: Any) -> Callable[[Any], Any]:
        """Return a function that puts this process' part of batches like this one onto the devices."""
        flags = jax.tree.leaves(jax.tree.broadcast(traced.sharded(batch), batch))
        shardings = [NamedSharding(self._mesh, P(AXIS) if flag else P()) for flag in flags]

        def place(batch: Any) -> Any:
            leaves, structure = jax.tree.flatten(batch)
            placed = [_on_devices(leaf, where) for leaf, where in zip(leaves, shardings, strict=True)]
            return jax.tree.unflatten(structure, placed)

        return place


def replicated_on(mesh: Mesh, value: jax.Array) -> jax.Array:
    """Replicate a value, of which every process has a copy, on all devices of a mesh."""
    local = value.addressable_data(0)
    present = local.devices()
    copies = [local if device in present else jax.device_put(local, device) for device in mesh.local_devices]
    return jax.make_array_from_single_device_arrays(value.shape, NamedSharding(mesh, P()), copies)


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
