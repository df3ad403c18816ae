"""The global view of a step: the code sees the whole batch, whose rows lie on all devices."""

import contextlib
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from muster import cpu
from muster.distribute.engine._compiled import CompiledStep, Executables, State, Step, compiled
from muster.distribute.engine._replicated import AXIS, on_devices, runs_ahead
from muster.distribute.input._shared_batches import Whole

Array = Any
Function = Callable[[Any, Any], tuple[Any, Any]]
"""``(state, batch) -> (state, results)``, pure."""


class GlobalView:
    """The devices of a strategy as one: XLA divides a step among them, which does what it does on one.

    Args:
        mesh: the devices along one axis, ``AXIS``, over all processes.
        storage: where state is between steps; None leaves it on all devices.
    """

    def __init__(self, mesh: Mesh, storage: SingleDeviceSharding | None = None) -> None:
        self._mesh = mesh
        self._everywhere = NamedSharding(mesh, P())
        self._rows = NamedSharding(mesh, P(AXIS))
        self._storage = storage

    def placed(self, value: Array) -> Array:
        """The value of a variable, which every process has, where a step takes it."""
        sharding = self._storage or self._everywhere
        if value.sharding == sharding:
            return value
        if self._storage is not None:
            return jax.device_put(value, self._storage)
        own = value.addressable_data(0)
        there = own.devices()
        copies = [
            own if device in there else jax.device_put(own, device) for device in self._mesh.local_devices
        ]
        return jax.make_array_from_single_device_arrays(value.shape, sharding, copies)

    def compile(self, function: Function, executables: Executables) -> Step:
        """Make a function run on all devices.

        Args:
            function: its batch has the rows of all processes.
            executables: what was compiled before, to be used again and added to.

        Returns:
            ``(state, batch) -> (state, results)``, which donates the state. The batch is this process' rows
            of it, or a ``Whole`` one, on which all devices work alike. Results are the same everywhere.
        """
        make = _Maker(function, self._everywhere, self._rows)
        step = CompiledStep(make, executables, run_ahead=runs_ahead(self._mesh))
        if self._storage is None:
            return step

        def stored(state: State, batch: Any) -> tuple[State, Any]:
            state, results = step(jax.device_put(state, self._everywhere), batch)
            return jax.device_put(state, self._storage), results

        return stored


class _Maker:
    def __init__(self, function: Function, everywhere: NamedSharding, rows: NamedSharding) -> None:
        self._function = function
        self._everywhere = everywhere
        self._rows = rows

    def __call__(self, state: State, batch: Any, executables: Executables) -> Step:
        cpu.prepare()
        alone = self._everywhere.mesh.size == 1
        rows = self._everywhere if isinstance(batch, Whole) else self._rows

        def step(state: State, batch: Any) -> Any:
            own = batch.batch if isinstance(batch, Whole) else batch
            returned = jax.tree.map(jnp.asarray, self._function(state, own))
            return returned if alone else jax.lax.with_sharding_constraint(returned, self._everywhere)

        if alone:
            return compiled(step, (state, batch), (0,), executables)  # JAX places the batch

        def place(batch: Any) -> Any:
            return jax.tree.map(
                lambda leaf: on_devices(leaf, rows if np.ndim(leaf) else self._everywhere), batch
            )

        run = compiled(step, (state, place(batch)), (0,), executables)
        waits = not self._everywhere.is_fully_addressable

        def run_step(state: State, batch: Any) -> tuple[State, Any]:
            nonlocal waits
            result: tuple[State, Any] = run(state, place(batch))
            if waits:  # now the threads exist
                jax.block_until_ready(result)
                _use_any_core()
                waits = False
            return result

        return run_step


def _use_any_core() -> None:
    """Let the threads of this process, which may have one core, use any.

    While XLA's collectives on CPU wait for other processes, they give up their turn again and again rather
    than sleep. On a core that they share, what they wait for comes 4 ms later, when its turn is up: with all
    threads on one core a step with five collectives takes 38 ms rather than 8.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setaffinity(int(thread), range(os.cpu_count() or 1))
