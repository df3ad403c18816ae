"""``tf.distribute.experimental.MultiWorkerMirroredStrategy`` and its hints."""

from muster.cluster import ClusterResolver
from muster.distribute import (
    CommunicationImplementation,
    CommunicationOptions,
    MultiWorkerMirroredStrategy,
)


class ExperimentalMultiWorkerMirroredStrategy(MultiWorkerMirroredStrategy):
    """`MultiWorkerMirroredStrategy` with the arguments that it had before TensorFlow 2.4.

    Args:
        communication: Which library runs the collectives.
        cluster_resolver: Names the tasks of the job; None reads ``TF_CONFIG``.

    Raises:
        ValueError: ``communication`` is NCCL where there are no GPUs, or no such library exists.

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
    """Return hints as `CommunicationOptions`, TensorFlow's later name for them.

    Args:
        bytes_per_pack: The size in bytes above which a pack of gradients is closed and reduced.
        timeout_seconds: How long the others wait for a worker.

    Source: tensorflow/python/distribute/collective_util.py, ``Hints``.
    """
    return CommunicationOptions(bytes_per_pack=bytes_per_pack, timeout_seconds=timeout_seconds)
