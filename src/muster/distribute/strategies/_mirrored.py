"""MirroredStrategy: a replica on each of this process' devices."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from muster.distribute.engine._compiled import CompiledStep, Executables, Step, StepMaker
from muster.distribute.engine._global_view import GlobalView
from muster.distribute.engine._replicated import AXIS, ReplicatedFunction, ReplicatedStep, runs_ahead
from muster.distribute.functions._function import Traced
from muster.distribute.input._input_context import InputContext
from muster.distribute.input._shared_batches import Signals, batches_for_replicas
from muster.distribute.strategies._cross_device_ops import CrossDeviceOps
from muster.distribute.strategies._one_device import device_of
from muster.distribute.strategies._strategy import Strategy
from muster.program import Program, functions_run_eagerly


class MirroredStrategy(Strategy):
    """Trains on several devices of one process: variables on each, a batch for each, gradients added.

    Args:
        devices: TensorFlow device strings or ``jax.Device`` s; None takes all accelerators, else one CPU.
        cross_device_ops: in how many collectives gradients travel; None for one.

    Raises:
        ValueError: if a device does not exist or is given twice, or they are of several kinds.
        TypeError: if ``cross_device_ops`` is something else.

    Source: tensorflow/python/distribute/mirrored_strategy.py, ``MirroredStrategy``.
    """

    def __init__(
        self,
        devices: Sequence[str | jax.Device] | None = None,
        cross_device_ops: CrossDeviceOps | None = None,
    ) -> None:
        if cross_device_ops is not None and not isinstance(cross_device_ops, CrossDeviceOps):
            raise TypeError(
                "`cross_device_ops` must be one of NcclAllReduce, HierarchicalCopyAllReduce and "
                f"ReductionToOneDevice, got {cross_device_ops!r}."
            )
        self._packing = (cross_device_ops or CrossDeviceOps()).packing
        self._mesh = Mesh(np.array(local_devices(devices)), (AXIS,))
        one = self._mesh.size == 1
        self._sharding: jax.sharding.Sharding = (
            SingleDeviceSharding(self._mesh.devices.flat[0]) if one else NamedSharding(self._mesh, P())
        )

    @property
    def num_replicas_in_sync(self) -> int:
        return self._mesh.size

    @property
    def input_context(self) -> InputContext:
        return InputContext(num_replicas_in_sync=self.num_replicas_in_sync)

    @property
    def sharding(self) -> jax.sharding.Sharding | None:
        return self._sharding

    @property
    def own_sharding(self) -> jax.sharding.Sharding:
        return NamedSharding(self._mesh, P(AXIS))

    @contextlib.contextmanager
    def share_batches(
        self, batches: Iterator[Any], first: Any, signals: Signals | None = None
    ) -> Iterator[Iterator[Any]]:
        yield batches_for_replicas(batches, self._mesh.size)

    def compile(self, program: Program, executables: Executables) -> Step:  # type: ignore[type-arg]
        if self._mesh.size == 1:  # there is nobody to meet
            return super().compile(program, executables)
        if functions_run_eagerly():
            raise ValueError(
                f"run_functions_eagerly(True) debugs one replica; {self} has "
                f"{self.num_replicas_in_sync}. Leave the strategy out to debug."
            )
        return self._on_mesh(ReplicatedStep(program, self._mesh, self._packing), executables)

    @property
    def global_view(self) -> GlobalView:
        return GlobalView(self._mesh)

    def compile_function(self, traced: Traced, executables: Executables) -> Step:
        if self._mesh.size == 1:
            return super().compile_function(traced, executables)
        return self._on_mesh(ReplicatedFunction(traced, self._mesh, self._packing), executables)

    def _on_mesh(self, make: StepMaker, executables: Executables) -> Step:
        return CompiledStep(make, executables, run_ahead=runs_ahead(self._mesh))


def local_devices(names: Sequence[str | jax.Device] | None = None) -> list[jax.Device]:
    """The devices that are named; without names, all accelerators, else one CPU device."""
    if names is None:
        devices = jax.local_devices()
        return list(devices[:1] if devices[0].platform == "cpu" else devices)
    if isinstance(names, str):
        raise ValueError(f"`devices` must be a list of devices, got the text {names!r}: write [{names!r}].")
    devices = [device_of(name) for name in names]
    if not devices:
        raise ValueError("There must be at least one device, got an empty list.")
    if len(set(devices)) < len(devices):
        raise ValueError(f"Every device may be given once, got {list(names)}.")
    if len({device.platform for device in devices}) > 1:
        raise ValueError(f"The devices must be of one kind, got {list(names)}.")
    return devices
