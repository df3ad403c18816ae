"""TPUStrategy: a replica on each TPU core."""

from collections.abc import Sequence
from typing import Any

import jax

from muster._errors import ClusterError
from muster.cluster import ClusterResolver
from muster.distribute.strategies._mirrored import MirroredStrategy


class TPUStrategy(MirroredStrategy):
    """Trains on the TPU cores of one host: each has the variables and a batch; gradients are reduced.

    Args:
        tpu_cluster_resolver: Returned by ``cluster_resolver``; JAX finds the TPUs of this host by itself.
        experimental_device_assignment: Accepted for TensorFlow's programs.
        devices: TensorFlow device strings or ``jax.Device`` s, of any kind; None takes all local devices.

    Raises:
        ClusterError: JAX was set up for several hosts.
        ValueError: A device does not exist or is named twice, or they are of several kinds.

    Source: tensorflow/python/distribute/tpu_strategy.py, ``TPUStrategyV2``.
    """

    def __init__(
        self,
        tpu_cluster_resolver: ClusterResolver | None = None,
        experimental_device_assignment: Any = None,
        *,
        devices: Sequence[str | jax.Device] | None = None,
    ) -> None:
        if jax.process_count() > 1:
            raise ClusterError(
                f"TPUStrategy trains on the devices of one process, and JAX was set up for "
                f"{jax.process_count()}. Use MultiWorkerMirroredStrategy(TPUClusterResolver()) instead, "
                "before jax.distributed is initialized."
            )
        self._resolver = tpu_cluster_resolver
        super().__init__(jax.local_devices() if devices is None else devices)

    @property
    def cluster_resolver(self) -> ClusterResolver | None:
        return self._resolver
