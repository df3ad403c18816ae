"""``tfds.load`` over idx files that the test writes."""

import gzip
import struct
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import muster_tensorflow.datasets as tfds


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


def numbers(data: Any) -> list[int]:
    return [int(example["label"]) for example in data]


def test_splits_are_cut_and_joined(data_dir: str) -> None:
    def load(split: Any) -> Any:
        return tfds.load("mnist", split=split, data_dir=data_dir)

    assert numbers(load("train[:50%]")) == [0, 1, 2]
    assert numbers(load("train[-2:]")) == [4, 5]
    assert numbers(load("train[20%:4]")) == [1, 2, 3]
    assert numbers(load("train[:40%]+test[2:]")) == [0, 1, 2]
    assert numbers(load("all")) == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    train, test = load(["train[:80%]", "test"])
    assert (len(train), len(test)) == (5, 3)
    assert numbers(load({"rest": "train[5:]"})["rest"]) == [5]
    (train,) = load((tfds.Split.TRAIN,))
    assert len(train) == 6


def test_tensors_and_builders(data_dir: str) -> None:
    whole = tfds.load("mnist", split="train", batch_size=-1, data_dir=data_dir)
    assert tfds.as_numpy(whole)["image"].shape == (6, 28, 28, 1)
    images, labels = tfds.load("mnist", split="test", batch_size=-1, as_supervised=True, data_dir=data_dir)
    assert images.dtype == np.uint8
    assert labels.numpy().tolist() == [0, 1, 2]
    builder = tfds.builder("mnist:3.*.*", data_dir=data_dir)
    builder.download_and_prepare()
    data = tfds.as_numpy(builder.as_dataset(split="test", as_supervised=True))
    assert [int(label) for _, label in data] == [int(label) for _, label in data] == [0, 1, 2]
    assert len(data) == 3
    label = builder.info.features["label"]
    assert (label.num_classes, label.int2str(3), label.str2int("4")) == (10, "3", 4)
    assert set(tfds.as_numpy(builder.as_dataset())) == {"train", "test"}


def test_other_sets_are_those_of_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_data() -> Any:
        rows = np.zeros((4, 32, 32, 3), np.uint8), np.array([[1], [0], [2], [9]])
        return rows, (rows[0][:1], rows[1][:1])

    monkeypatch.setattr(keras.datasets.cifar10, "load_data", load_data)
    data, info = tfds.load("cifar10", split="train", as_supervised=True, with_info=True)
    image, label = next(iter(data))
    assert (image.shape, label) == ((32, 32, 3), 1)
    assert info.features["label"].int2str(label) == "automobile"
    assert "cifar10" in tfds.list_builders()


def test_what_is_not_there_is_named(data_dir: str) -> None:
    with pytest.raises(ValueError, match="no data set 'imagenet2012': only 'mnist'"):
        tfds.load("imagenet2012")
    for wrong in ("validation", "train[:50%", "train[:1.5]"):
        with pytest.raises(ValueError, match="There is no split"):
            tfds.load("mnist", split=wrong, data_dir=data_dir)


def test_texts_become_numbers_of_words(tmp_path: Path) -> None:
    text = tfds.features.text
    assert text.Tokenizer().tokenize(b"It's a-b, ok") == ["It", "s", "a", "b", "ok"]
    tokenizer = text.Tokenizer(alphanum_only=False, reserved_tokens=["<EOS>"])
    assert tokenizer.tokenize("hi, you<EOS>") == ["hi", ", ", "you", "<EOS>"]
    encoder = tfds.deprecated.text.TokenTextEncoder(["hi", "bye", "a-b"], oov_buckets=3, tokenizer=tokenizer)
    encoder.save_to_file(str(tmp_path / "words"))
    for each in (encoder, text.TokenTextEncoder.load_from_file(str(tmp_path / "words"))):
        assert each.vocab_size == 7
        assert each.decode(np.array([1, 2, 6, 0, 0])) == "hi bye UNK"
    plain = text.TokenTextEncoder(["hi", "bye", "a-b"], oov_buckets=3)
    assert plain.encode("hi zoo you bye a-b") == [1, 5, 5, 2, 3]
    assert text.ByteTextEncoder(["<EOS>"]).encode("é<EOS>") == [197, 171, 1]
    assert text.ByteTextEncoder(["<EOS>"]).decode([197, 171, 1, 0]) == "é<EOS>"


def test_texts_become_numbers_of_frequent_parts(tmp_path: Path) -> None:
    made = tfds.deprecated.text.SubwordTextEncoder
    encoder = made.build_from_corpus(["hello hello help"] * 3 + ["a held hat"], 262)
    encoder.save_to_file(str(tmp_path / "parts"))
    for each in (encoder, made.load_from_file(str(tmp_path / "parts"))):
        assert (each.subwords, each.vocab_size) == (["hello_", "help", "held_", "hat", "a_"], 262)
        assert each.encode("hello held_x") == [1, 110, 107, 114, 106, 101, 126]
        assert each.encode("你".encode()) == [234, 195, 166]
        for written in ("hello held_x", "a_ b__", "\\&und 你好"):
            assert each.decode(each.encode(written)) == written
    with pytest.raises(ValueError, match="must be >= 258"):
        made.build_from_corpus(["a"], 100)
    lacking = "Video"
    with pytest.raises(AttributeError, match=r"muster has no tfds\.features\.Video"):
        getattr(tfds.features, lacking)
