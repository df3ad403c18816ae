"""TensorFlow 1's functions that make partitioners."""

from collections.abc import Sequence
from typing import Any, Protocol

from muster.distribute import FixedShardsPartitioner, MaxSizePartitioner, MinSizePartitioner, Partitioner
from muster.extend import require_positive


class PartitionerV1(Protocol):
    """Partitions a variable by its shape and dtype; further arguments are ignored."""

    def __call__(
        self, shape: Sequence[int | None], dtype: Any = "float32", **unused: object
    ) -> list[int]: ...


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> PartitionerV1:
    """Make a partitioner with a fixed number of shards: see `muster.distribute.FixedShardsPartitioner`.

    Source: tensorflow/python/ops/partitioned_variables.py, ``fixed_size_partitioner``.
    """
    return _along(FixedShardsPartitioner(num_shards), axis)


def min_max_variable_partitioner(
    max_partitions: int = 1,
    axis: int = 0,
    min_slice_size: int = 256 << 10,
    bytes_per_string_element: int = 16,
) -> PartitionerV1:
    """Make a partitioner for shards of at least some bytes: see `muster.distribute.MinSizePartitioner`.

    Source: tensorflow/python/ops/partitioned_variables.py, ``min_max_variable_partitioner``.
    """
    least = require_positive("min_slice_size", min_slice_size)
    most = require_positive("max_partitions", max_partitions)
    text = require_positive("bytes_per_string_element", bytes_per_string_element)
    return _along(MinSizePartitioner(least, most, text), axis)


def variable_axis_size_partitioner(
    max_shard_bytes: int,
    axis: int = 0,
    bytes_per_string_element: int = 16,
    max_shards: int | None = None,
) -> PartitionerV1:
    """Make a partitioner for shards of at most some bytes: see `muster.distribute.MaxSizePartitioner`.

    Source: tensorflow/python/ops/partitioned_variables.py, ``variable_axis_size_partitioner``.
    """
    text = require_positive("bytes_per_string_element", bytes_per_string_element)
    return _along(MaxSizePartitioner(max_shard_bytes, max_shards, text), axis)


def _along(partitioner: Partitioner, axis: int) -> PartitionerV1:
    def partition(shape: Sequence[int | None], dtype: Any = "float32", **unused: object) -> list[int]:
        return partitioner(shape, dtype, axis)

    return partition
