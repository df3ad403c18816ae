"""TensorFlow 1's partitioners, and the names of those of TensorFlow 2."""

from typing import Any

import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1
from muster import distribute


@pytest.mark.parametrize(
    ("partitioner", "shape", "counts"),
    [
        (tf1.fixed_size_partitioner(3), (10, 4), [3, 1]),
        (tf1.fixed_size_partitioner(3, axis=1), (10, 2), [1, 2]),
        (tf1.fixed_size_partitioner(3), (), []),
        (tf1.min_max_variable_partitioner(), (1 << 20, 4), [1, 1]),
        (tf1.min_max_variable_partitioner(max_partitions=5, min_slice_size=100), (10, 4), [2, 1]),
        (tf1.min_max_variable_partitioner(5, -1, 40), (10, 4), [1, 4]),
        (tf1.variable_axis_size_partitioner(64), (20, 3), [4, 1]),
        (tf1.variable_axis_size_partitioner(64, max_shards=2), (20, 3), [2, 1]),
        (tf1.variable_axis_size_partitioner(40, axis=1), (10, 3), [1, 3]),
    ],
)
def test_shards_along_each_axis(partitioner: Any, shape: tuple[int, ...], counts: list[int]) -> None:
    assert partitioner(tf.TensorShape(shape), dtype=tf.float32) == counts
    assert partitioner(shape=shape) == counts


def test_texts_have_a_size() -> None:
    assert tf1.variable_axis_size_partitioner(128, bytes_per_string_element=8)((10, 3), tf.string) == [2, 1]
    assert tf1.min_max_variable_partitioner(9, 0, 80, 8)((10, 3), tf.string) == [3, 1]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("num_shards", {"num_shards": 0}),
        ("max_partitions", {"max_partitions": 0}),
        ("min_slice_size", {"min_slice_size": -1}),
        ("max_shard_bytes", {"max_shard_bytes": 0}),
        ("bytes_per_string_element", {"max_shard_bytes": 8, "bytes_per_string_element": 0}),
        ("bytes_per_string_element", {"max_partitions": 8, "bytes_per_string_element": 0}),
    ],
)
def test_errors_name_the_argument(name: str, arguments: dict[str, int]) -> None:
    function = {
        "num_shards": tf1.fixed_size_partitioner,
        "max_partitions": tf1.min_max_variable_partitioner,
        "min_slice_size": tf1.min_max_variable_partitioner,
        "max_shard_bytes": tf1.variable_axis_size_partitioner,
    }[next(iter(arguments))]
    with pytest.raises(ValueError, match=f"Argument `{name}` must be positive"):
        function(**arguments)


@pytest.mark.parametrize(
    "name", ["Partitioner", "FixedShardsPartitioner", "MinSizePartitioner", "MaxSizePartitioner"]
)
def test_those_of_tensorflow_2_have_their_names(name: str) -> None:
    assert getattr(tf.distribute.experimental.partitioners, name) is getattr(distribute, name)
