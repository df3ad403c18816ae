"""The input context: tells an input function its share of the data."""

from dataclasses import dataclass

from muster.distribute.engine._split import sizes_of


@dataclass(frozen=True)
class InputContext:
    """Identifies an input pipeline and its share of the input.

    Attributes:
        num_input_pipelines: The number of pipelines of the job: one for each worker that it began with.
        input_pipeline_id: The number of this pipeline, from 0.
        num_replicas_in_sync: The number of replicas that take part in a step, over all workers.

    Source: tensorflow/python/distribute/distribute_lib.py, ``InputContext``.

    Example:
        ```python
        def input_fn(input_context):  # of an Estimator, or of distribute_datasets_from_function
            workers, worker = input_context.num_input_pipelines, input_context.input_pipeline_id
            data = Dataset.range(100).shard(workers, worker)
            return data.batch(input_context.get_per_replica_batch_size(32))

        second = muster.distribute.InputContext(2, input_pipeline_id=1, num_replicas_in_sync=2)
        assert next(iter(input_fn(second)))[:2].tolist() == [1, 3]
        ```
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

    def of_job(self, count: int, per_step: int) -> "list[InputContext]":
        """Return the pipelines that this worker reads of a job that began with another number of workers.

        They are consecutive: workers, by rank, have all in order. The first workers may read one more.

        Args:
            count: The number of the job's pipelines, at least one for each worker.
            per_step: The number of batches that a step takes of each.
        """
        sizes = sizes_of(count, self.num_input_pipelines)
        first = sum(sizes[: self.input_pipeline_id])
        numbers = range(first, first + sizes[self.input_pipeline_id])
        return [InputContext(count, number, count * per_step) for number in numbers]
