"""``tf.contrib.distribute``: strategies with the arguments that they had there."""

import logging
from typing import Any

import jax

from muster import distribute
from muster_tensorflow.programs.v2.devices import _soft_placement

_log = logging.getLogger(__name__)


class MirroredStrategy(_soft_placement.MirroredStrategy):
    """A `muster.distribute.MirroredStrategy`, for some of the GPUs of this machine.

    Args:
        devices: The devices; None for all, or as many as follows.
        num_gpus: How many GPUs; None for all. Without GPUs it is the devices that there are.
        num_gpus_per_worker: Another name of it.
        cross_device_ops: As of the strategy.
        prefetch_on_device: Unused.
        auto_shard_dataset: Unused.
    """

    def __init__(
        self,
        devices: Any = None,
        num_gpus: int | None = None,
        num_gpus_per_worker: int | None = None,
        cross_device_ops: Any = None,
        prefetch_on_device: bool | None = None,
        auto_shard_dataset: bool = False,
    ) -> None:
        count = num_gpus_per_worker if num_gpus is None else num_gpus
        if devices is None and count:
            if jax.default_backend() == "gpu":
                devices = [f"/gpu:{number}" for number in range(count)]
            else:
                _log.warning(
                    "There are no GPUs here: MirroredStrategy takes all devices for num_gpus=%d.", count
                )
        super().__init__(devices, cross_device_ops)


class AllReduceCrossDeviceOps(distribute.NcclAllReduce):
    """A `muster.distribute.NcclAllReduce` for any algorithm, which XLA chooses.

    Args:
        all_reduce_alg: Unused.
        num_packs: As of `muster.distribute.NcclAllReduce`.
        agg_small_grads_max_bytes: Unused, as the next.
        agg_small_grads_max_group: Unused.
    """

    def __init__(
        self,
        all_reduce_alg: str = "nccl",
        num_packs: int = 1,
        agg_small_grads_max_bytes: int = 0,
        agg_small_grads_max_group: int = 10,
    ) -> None:
        super().__init__(num_packs)


class OneDeviceStrategy(_soft_placement.OneDeviceStrategy):
    """A `muster.distribute.OneDeviceStrategy`; ``prefetch_on_device`` is unused."""

    def __init__(self, device: Any, prefetch_on_device: bool | None = None) -> None:
        super().__init__(device)


class CollectiveAllReduceStrategy(distribute.MultiWorkerMirroredStrategy):
    """A `muster.distribute.MultiWorkerMirroredStrategy`; ``num_gpus_per_worker`` is unused."""

    def __init__(self, num_gpus_per_worker: int = 0) -> None:
        super().__init__()


class ParameterServerStrategy(distribute.ParameterServerStrategyV1):
    """A `muster.distribute.ParameterServerStrategyV1`; ``num_gpus_per_worker`` is unused."""

    def __init__(self, num_gpus_per_worker: int = 0) -> None:
        super().__init__()


class TPUStrategy(distribute.TPUStrategy):
    """A `muster.distribute.TPUStrategy`; ``steps_per_run`` and others are unused."""

    def __init__(
        self,
        tpu_cluster_resolver: Any = None,
        steps_per_run: int | None = None,
        device_assignment: Any = None,
        **unused: Any,
    ) -> None:
        super().__init__(tpu_cluster_resolver, device_assignment)
