"""The engine of a mesh: replicas on devices of one or more processes, with XLA's collectives."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from muster._arrays import AnyArray
from muster.distribute.engine._compiled import CompiledStep, compiled, scan_group
from muster.distribute.engine._packing import ONE_PACK, Packing
from muster.distribute.engine._rows_in_files import in_files, step_on_files
from muster.distribute.engine._split import (
    ReplicatedBatch,
    UnevenBatch,
    WholeWarning,
    filled_up,
    row_count,
    sizes_of,
    unwrapped,
)
from muster.distribute.engine._traced import Engine, Executables, Reads, State, Step, Traced, View
from muster.distribute.engine._uneven import as_chief_has, first_of, variants_of, with_replicated_fallback
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
        self.looks_up_rows = self._workers.size == 1  # others might look up other rows
        self._whole_warning = WholeWarning()

    def compile(self, traced: Traced, executables: Executables) -> Step:
        make = self._partitioned
        if traced.view is View.REPLICA:
            self._workers.require_equal("variables", list(map(str, traced.variables)))
            make = self._replicated
        local = self._mesh.local_devices
        # Several CPU devices in one process deadlock when Python dispatches a step before the last is done.
        run_ahead = len(local) == 1 or local[0].platform != "cpu"
        return CompiledStep(functools.partial(make, traced, executables), run_ahead=run_ahead)

    def shard_mapped(self, traced: Traced, batch: Any) -> Step:
        """Map traced code over the mesh, for batches like this one: a function of global arrays."""
        first = first_of(batch)
        results = traced.sharded_results(first)
        add = self._packing.adding(functools.partial(jax.lax.psum, axis_name=AXIS))
        variants = variants_of(first, self._mesh.size)

        def step(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            replicas = Replicas(
                index=jax.lax.axis_index(AXIS),
                all_reduce=add,
                count=self._mesh.size,
                active=1 if isinstance(batch, ReplicatedBatch) else self._mesh.size,
                bytes_per_pack=self._packing.limit,
            )
            if variants is None:
                return traced.step(state, reads, batch, replicas)
            return variants.step(traced, state, reads, batch, replicas)

        mapped = jax.shard_map(
            functools.partial(scan_group, step, traced.loss),
            mesh=self._mesh,
            in_specs=(_specs(traced.state_sharded), P(), _specs(traced.sharded(batch))),
            out_specs=(_specs(traced.new_state_sharded), _specs(results)),
            check_vma=False,
        )
        if variants is None:
            return mapped

        def run(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            state, out = mapped(state, reads, batch)
            return state, variants.results_of(out, results)

        return run

    def _replicated(
        self, traced: Traced, executables: Executables, state: State, reads: Reads, batch: Any
    ) -> Step:
        if in_files(state):
            return step_on_files(traced, state, batch, lambda part: self.compile(part, executables))
        make = functools.partial(self._mapped, traced, executables, state, reads)
        return with_replicated_fallback(make, batch, self._whole_warning)

    def _mapped(
        self, traced: Traced, executables: Executables, state: State, reads: Reads, batch: Any
    ) -> Step:
        place = self._placing(traced, batch)
        step = self.shard_mapped(traced, batch)
        run = compiled(step, (state, reads, place(batch)), executables)
        return lambda state, reads, batch: run(state, reads, place(as_chief_has(batch, self._workers)))

    def _partitioned(
        self, traced: Traced, executables: Executables, state: State, reads: Reads, batch: Any
    ) -> Step:
        everywhere = NamedSharding(self._mesh, P())
        place = self._placing(traced, batch)
        rows = batch.rows if isinstance(batch, UnevenBatch) else None
        shared = not isinstance(first_of(batch), ReplicatedBatch)

        def step(state: State, reads: Reads, batch: Any) -> Any:
            if rows is not None:  # without the padding; XLA keeps the rows where they are
                batch = jax.tree.map(lambda leaf: leaf[:rows] if leaf.ndim else leaf, unwrapped(batch))
            examples = row_count(unwrapped(batch)) if shared else None

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
            result: tuple[State, Any] = run(state, reads, place(as_chief_has(batch, self._workers)))
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
        put = _on_devices
        if isinstance(first := first_of(batch), UnevenBatch):
            divide = filled_up if traced.view is View.GLOBAL else sizes_of
            put = functools.partial(_padded_on_devices, divide(first.rows, self._mesh.size))

        def place(batch: Any) -> Any:
            leaves, structure = jax.tree.flatten(batch)
            placed = [put(leaf, where) for leaf, where in zip(leaves, shardings, strict=True)]
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


def _padded_on_devices(sizes: Sequence[int], array: AnyArray, sharding: NamedSharding) -> jax.Array:
    """Put this process' rows of a global array onto the devices, each padded to the largest of the sizes."""
    if not np.ndim(array):
        return _on_devices(array, sharding)

    def put(numbers: AnyArray) -> jax.Array:
        rows, largest = np.asarray(numbers), max(sizes)

        def part(index: tuple[slice, ...] | None) -> np.ndarray[Any, Any]:
            device = index[0].start // largest if index else 0
            start = sum(sizes[:device])
            own = rows[start : start + sizes[device]]
            return np.pad(own, [(0, largest - len(own)), *[(0, 0)] * (rows.ndim - 1)])

        shape = (largest * len(sizes), *rows.shape[1:])
        return jax.make_array_from_callback(shape, sharding, part)

    placed: jax.Array = by_numbers(put, array)
    return placed
