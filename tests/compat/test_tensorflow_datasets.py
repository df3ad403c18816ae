"""``tfds.load`` over idx files that the test writes."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

import muster.compat.tensorflow_datasets as tfds


@pytest.fixture
def data_dir(tmp_path: Path) -> str:
    for name, count in {"train": 6, "t10k": 3}.items():
        images = struct.pack(">IIII", 0x803, count, 28, 28) + bytes(range(count)) * 784
        labels = struct.pack(">II", 0x801, count) + bytes(range(count))
        (tmp_path / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (tmp_path / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return str(tmp_path)


def test_load_as_the_guide_does(data_dir: str) -> None:
    datasets, info = tfds.load(name="mnist", with_info=True, as_supervised=True, data_dir=data_dir)
    image, label = next(iter(datasets["train"]))
    assert (image.shape, image.dtype, label.dtype) == ((28, 28, 1), np.uint8, np.int64)
    assert {name: split.num_examples for name, split in info.splits.items()} == {"train": 6, "test": 3}
    assert info.features["image"].shape == (28, 28, 1)
    assert info.splits.total_num_examples == 9
    assert info.supervised_keys == ("image", "label")


def test_load_one_split_in_batches_as_dicts(data_dir: str) -> None:
    tfds.disable_progress_bar()
    data = tfds.load("mnist", split="test", batch_size=2, data_dir=data_dir, try_gcs=True)
    assert [batch["label"].tolist() for batch in data] == [[0, 1], [2]]
    assert next(iter(data))["image"].shape == (2, 28, 28, 1)
    _, info = tfds.load("mnist", split="test", with_info=True, data_dir=data_dir)
    assert set(info.splits) == {"train", "test"}


def test_what_is_not_there_is_named(data_dir: str) -> None:
    with pytest.raises(ValueError, match="no data set 'cifar10': only 'mnist'"):
        tfds.load("cifar10")
    with pytest.raises(ValueError, match=r"train\[:50%\]"):
        tfds.load("mnist", split="train[:50%]", data_dir=data_dir)
