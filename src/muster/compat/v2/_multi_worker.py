"""``tf.distribute.experimental.MultiWorkerMirroredStrategy`` and what was said to it."""

from muster.cluster import ClusterResolver
from muster.distribute import (
    CommunicationImplementation,
    CommunicationOptions,
    MultiWorkerMirroredStrategy,
)


class ExperimentalMultiWorkerMirroredStrategy(MultiWorkerMirroredStrategy):
    """`MultiWorkerMirroredStrategy` with the arguments that it had before TensorFlow 2.4.

    Args:
        communication: who carries the collectives.
        cluster_resolver: says who is in the job; None reads ``TF_CONFIG``.

    Raises:
        ValueError: NCCL is asked for where there are no GPUs, or it is no implementation.

    Source: tensorflow/python/distribute/collective_all_reduce_strategy.py,
    ``_CollectiveAllReduceStrategyExperimental``.
    """

    def __init__(
        self,
        communication: CommunicationImplementation | str = CommunicationImplementation.AUTO,
        cluster_resolver: ClusterResolver | None = None,
    ) -> None:
        super().__init__(cluster_resolver, CommunicationOptions(implementation=communication))


def collective_hints(bytes_per_pack: int = 0, timeout_seconds: float | None = None) -> CommunicationOptions:
    """The options that hints became.

    Args:
        bytes_per_pack: gradients are added in packs that are closed once they exceed this.
        timeout_seconds: how long a worker may keep the others waiting.

    Source: tensorflow/python/distribute/collective_util.py, ``Hints``.
    """
    return CommunicationOptions(bytes_per_pack=bytes_per_pack, timeout_seconds=timeout_seconds)
