"""The input context: tells an input function its share of the data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class InputContext:
    """Identifies an input pipeline and its share of the input.

    Attributes:
        num_input_pipelines: The number of pipelines of the job: one for each worker.
        input_pipeline_id: The number of this pipeline, from 0.
        num_replicas_in_sync: The number of replicas that take part in a step, over all workers.

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
        """Return the batch size of each replica.

        Raises:
            ValueError: ``global_batch_size`` is not divisible by the number of replicas.
        """
        if global_batch_size % self.num_replicas_in_sync != 0:
            raise ValueError(
                f"The `global_batch_size` {global_batch_size} is not divisible by `num_replicas_in_sync` "
                f"{self.num_replicas_in_sync}."
            )
        return global_batch_size // self.num_replicas_in_sync
