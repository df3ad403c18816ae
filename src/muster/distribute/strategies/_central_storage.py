"""CentralStorageStrategy: variables on one device, replicas on all."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from muster.distribute.engine._compiled import Executables, State, Step
from muster.distribute.engine._global_view import GlobalView
from muster.distribute.functions._function import Traced
from muster.distribute.strategies._mirrored import MirroredStrategy
from muster.distribute.strategies._one_device import device_of
from muster.program import Program


class CentralStorageStrategy(MirroredStrategy):
    """Keeps variables in the host's memory, and computes on several devices of one process.

    In each step the replicas get the variables, and what they make of them together goes back.

    Args:
        compute_devices: TensorFlow device strings or ``jax.Device`` s; None takes all accelerators, else one
            CPU.
        parameter_device: where the variables are; None for the host.

    Raises:
        ValueError: if a device does not exist or is given twice, or they are of several kinds.

    Source: tensorflow/python/distribute/central_storage_strategy.py, ``CentralStorageStrategy``. There
    variables stay on the GPU where there is only one; here, on the host.
    """

    def __init__(
        self,
        compute_devices: Sequence[str | jax.Device] | None = None,
        parameter_device: str | jax.Device | None = None,
    ) -> None:
        super().__init__(compute_devices)
        self._storage = SingleDeviceSharding(device_of(parameter_device or "/cpu:0"))

    @property
    def sharding(self) -> jax.sharding.Sharding | None:
        return self._storage

    @property
    def global_view(self) -> GlobalView:
        return GlobalView(self._mesh, self._storage)

    def compile(self, program: Program[Any], executables: Executables) -> Step:
        step, everywhere = super().compile(program, executables), NamedSharding(self._mesh, P())

        def stored(state: State, batch: Any) -> tuple[State, Any]:
            state, outputs = step(jax.device_put(state, everywhere), batch)
            return jax.device_put(state, self._storage), outputs

        return stored

    def compile_function(self, traced: Traced, executables: Executables) -> Step:
        step, everywhere = super().compile_function(traced, executables), NamedSharding(self._mesh, P())
        own = slice(len(traced.variables.changes), len(traced.variables.changes) + len(traced.variables.own))

        def moved(state: list[Any], to: jax.sharding.Sharding) -> list[Any]:
            """Move what is not each replica's own."""
            return [
                *jax.device_put(state[: own.start], to),
                *state[own],
                *jax.device_put(state[own.stop :], to),
            ]

        def stored(state: list[Any], batch: Any) -> tuple[list[Any], Any]:
            reads, arrays = batch
            state, results = step(moved(state, everywhere), (jax.device_put(reads, everywhere), arrays))
            return moved(state, self._storage), results

        return stored
