"""What an input function learns about who else reads the data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class InputContext:
    """Which share of the input a pipeline reads.

    Attributes:
        num_input_pipelines: how many pipelines the job has: one a worker.
        input_pipeline_id: which of them this is, from 0.
        num_replicas_in_sync: how many replicas take part in a step, over all workers.

    Source: tensorflow/python/distribute/distribute_lib.py, ``InputContext``.
    """

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def __str__(self) -> str:
        return (
            f"tf.distribute.InputContext(input pipeline id {self.input_pipeline_id}, "
            f"total: {self.num_input_pipelines})"
        )

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """The batch size of each replica.

        Raises:
            ValueError: if ``global_batch_size`` is not divisible by the number of replicas.
        """
        if global_batch_size % self.num_replicas_in_sync != 0:
            raise ValueError(
                f"The `global_batch_size` {global_batch_size} is not divisible by `num_replicas_in_sync` "
                f"{self.num_replicas_in_sync}."
            )
        return global_batch_size // self.num_replicas_in_sync
