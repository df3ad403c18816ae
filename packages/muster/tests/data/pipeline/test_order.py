"""take, skip, shard and repeat."""

from dataset_model import read

from muster.data import Dataset


def test_shard_take_skip_repeat() -> None:
    assert read(Dataset.range(10).shard(3, 1)) == [1, 4, 7]
    assert read(Dataset.range(2).shard(3, 2)) == []
    assert read(Dataset.range(5).take(-1)) == list(range(5))
    assert read(Dataset.range(5).take(0)) == []
    assert read(Dataset.range(5).skip(-1)) == []
    assert read(Dataset.range(5).skip(9)) == []
    assert read(Dataset.range(2).repeat(0)) == []
    assert read(Dataset.range(2).repeat(-1).take(5)) == [0, 1, 0, 1, 0]
    assert read(Dataset.range(0).repeat()) == []
    assert read(Dataset.range(5).filter(lambda x: x < 0).repeat()) == []


def test_each_shard_reads_its_own_and_all_read_everything() -> None:
    parts = [read(Dataset.range(11).shard(4, index)) for index in range(4)]
    assert sorted(sum(parts, [])) == list(range(11))
