"""Telling which elements a pipeline reads."""

import numpy as np
import pytest

from muster.data import Dataset, TextLineDataset
from muster.data.sharding._share import describe_share

TEN = Dataset.range(10)


@pytest.mark.parametrize(
    ("dataset", "told"),
    [
        (TEN.shard(3, 1), "examples 1, 4, 7 of 10"),
        (TEN.shard(2, 1), "examples 1, 3, 5, … of 10"),
        (TEN.shard(3, 1).shuffle(9, seed=1).repeat().batch(2), "examples 1, 4, 7 of 10"),
        (TEN.repeat().shard(3, 2), "examples 2, 5, 8, … of an endless sequence"),
        (TEN.filter(lambda i: i > 2).shard(3, 0), "examples 0, 3, 6, … of an unknown number"),
        (TEN.batch(4).shard(2, 0).unbatch(), "batches 0, 2 of 3"),
        (TEN.take(1).shard(2, 1), "none of the 1 examples"),
        (TEN.shard(4, 3).enumerate(), "examples 3, 7 of 10"),
        (Dataset.zip(TEN.shard(4, 3), TEN.shard(4, 3)), "examples 3, 7 of 10"),
        (TEN.shard(4, 3).concatenate(TEN.take(4).shard(4, 3)), "examples 3, 7 of 10 and examples 3 of 4"),
        (TEN.shard(4, 1).flat_map(Dataset.range), "datasets 1, 5, 9 of 10"),
        (TEN.batch(2), "all of its dataset, which is not divided by shard()"),
    ],
)
def test_the_share_of_a_pipeline(dataset, told):
    assert describe_share(dataset) == told


def test_what_is_told_is_what_is_read():
    shard = Dataset.from_tensor_slices(np.arange(10)).shard(3, 1)
    assert ", ".join(map(str, shard)) in describe_share(shard)


def test_files_are_told_by_their_names(tmp_path):
    for name in "abcdefgh":
        (tmp_path / name).touch()
    files = Dataset.list_files(f"{tmp_path}/*", shuffle=False)
    assert describe_share(files.shard(2, 1).interleave(TextLineDataset)) == "files b, d, f, … of 8"
