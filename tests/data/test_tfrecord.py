"""TFRecord files and the Examples in them."""

import random
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_model import read

import muster.compat.tensorflow as tf
from muster._errors import DatasetError
from muster.data import (
    BytesList,
    Example,
    Feature,
    Features,
    FixedLenFeature,
    FixedLenSequenceFeature,
    FloatList,
    Int64List,
    TFRecordDataset,
    TFRecordOptions,
    TFRecordWriter,
    decode_raw,
    parse_example,
    parse_single_example,
)

RECORDS = [random.Random(size).randbytes(size) for size in (0, 1, 11, 12, 200, 5000, 100_000)]


def write(path: Path, records: list[bytes], options: Any = None) -> str:
    with TFRecordWriter(path, options) as writer:
        for record in records:
            writer.write(record)
    return str(path)


@pytest.mark.parametrize("compression", [None, "", "GZIP", "ZLIB"])
def test_records_come_back(tmp_path: Path, compression: str | None) -> None:
    path = write(tmp_path / "a", RECORDS, TFRecordOptions(compression))
    dataset = TFRecordDataset([path, Path(path)], compression)
    assert read(dataset) == 2 * RECORDS
    for place in range(0, 2 * len(RECORDS) + 1, 3):
        with dataset.iterator() as iterator:
            for _ in range(place):
                next(iterator)
            assert read(dataset.iterator(iterator.position)) == (2 * RECORDS)[place:]


def test_a_record_is_its_length_its_data_and_masked_checksums(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [b"123456789", b""])
    data = Path(path).read_bytes()
    assert data[:8] == struct.pack("<Q", 9)
    # CRC-32C of "123456789" is e3069283 by RFC 3720; rotated by 15 bits, plus a282ead8.
    rotated = (0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF
    assert data[21:25] == struct.pack("<I", rotated + 0xA282EAD8 & 0xFFFFFFFF)
    assert len(data) == 16 + 9 + 16


def test_every_damage_is_found(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a", [b"first", b"second"]))
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        expected = f"{path}: The record at byte {0 if place < 21 else 21} is damaged"
        with pytest.raises(DatasetError, match=expected):
            read(TFRecordDataset(path))
        if place not in (0, 21):
            path.write_bytes(whole[:place])
            with pytest.raises(DatasetError, match="the file ends"):
                read(TFRecordDataset(path))


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_compressed_file_that_is_cut_off(tmp_path: Path, compression: str) -> None:
    path = Path(write(tmp_path / "a", RECORDS, compression))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DatasetError, match=f"{path} cannot be uncompressed as {compression}: .*cut off"):
        read(TFRecordDataset(path, compression))


def test_a_wrong_compression_is_an_error(tmp_path: Path) -> None:
    plain, gzip = write(tmp_path / "plain", RECORDS), write(tmp_path / "gzip", RECORDS, "GZIP")
    with pytest.raises(DatasetError, match="cannot be uncompressed as GZIP"):
        read(TFRecordDataset(plain, "GZIP"))
    with pytest.raises(DatasetError, match="Is it compressed"):
        read(TFRecordDataset(gzip))
    with pytest.raises(ValueError, match="compression_type is 'GZIP', 'ZLIB', '' or None, got 'gzip'"):
        TFRecordDataset(plain, "gzip")


def test_a_missing_file_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", RECORDS)
    with pytest.raises(
        DatasetError, match=rf"no file {tmp_path}/b.tfrecord.*looked for.*a.tfrecord.*In {tmp_path} there"
    ):
        read(TFRecordDataset([path, tmp_path / "b.tfrecord"]))
    with pytest.raises(DatasetError, match="The folder /nowhere is not there either"):
        read(TFRecordDataset("/nowhere/a"))
    with pytest.raises(DatasetError, match="cannot be written: No such file"):
        TFRecordWriter("/nowhere/a")


@pytest.mark.parametrize(("given", "error"), [(3, TypeError), ([], ValueError), ([3], TypeError)])
def test_what_is_no_path_is_refused(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="TFRecordDataset needs"):
        TFRecordDataset(given)


def test_only_bytes_are_written(tmp_path: Path) -> None:
    with (
        TFRecordWriter(tmp_path / "a") as writer,
        pytest.raises(TypeError, match="A record is bytes, got 'text'"),
    ):
        writer.write("text")  # type: ignore[arg-type]


def example(**features: Any) -> bytes:
    kinds = {"bytes": BytesList, "float": FloatList, "int64": Int64List}
    made = {}
    for name, values in features.items():
        kind = name.split("_")[0]
        made[name] = Feature(**{f"{kind}_list": kinds[kind](values)}) if kind in kinds else Feature()
    return Example(Features(made)).SerializeToString()


MANY = list(range(-200, 200)) + [2**63 - 1, -(2**63)]
ONE = {
    "bytes_a": [b"\0\xff", b""],
    "float_a": [1.5, -2.0, np.float32(0.1)],
    "float_none": [],
    "int64_a": [7],
    "int64_many": MANY,
    "nothing": [],
    "a name of " + 200 * "x": [],
}


def protobuf_example() -> Any:
    """The message class of tf.train.Example, made of its description by Google's own package."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    lists = [("BytesList", 12), ("FloatList", 2), ("Int64List", 3)]
    for name, kind in lists:
        file.message_type.add(name=name).field.add(name="value", number=1, label=3, type=kind)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, field) in enumerate(
        zip(lists, ("bytes_list", "float_list", "int64_list"), strict=True), 1
    ):
        feature.field.add(
            name=field, number=number, label=1, type=11, type_name=f".t.{name[0]}", oneof_index=0
        )
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=9)
    entry.field.add(name="value", number=2, label=1, type=11, type_name=".t.Feature")
    features.field.add(name="feature", number=1, label=3, type=11, type_name=".t.Features.FeatureEntry")
    whole = file.message_type.add(name="Example")
    whole.field.add(name="features", number=1, label=1, type=11, type_name=".t.Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


def test_examples_are_those_of_protocol_buffers() -> None:
    theirs = protobuf_example().FromString(example(**ONE)).features.feature
    assert list(theirs["bytes_a"].bytes_list.value) == ONE["bytes_a"]
    assert list(theirs["float_a"].float_list.value) == [np.float32(value) for value in ONE["float_a"]]
    assert list(theirs["int64_many"].int64_list.value) == MANY
    assert theirs["nothing"].WhichOneof("kind") is None
    assert theirs["float_none"].WhichOneof("kind") == "float_list"
    message = protobuf_example()()
    message.features.feature["int64_a"].int64_list.value.extend(MANY)
    message.features.feature["float_a"].float_list.value.extend([0.5, 2.0])
    message.features.feature["bytes_a"].bytes_list.value.append(b"x" * 1000)
    ours = Example.FromString(message.SerializeToString()).features.feature
    assert ours["int64_a"].int64_list == Int64List(MANY)
    assert ours["float_a"].float_list == FloatList([0.5, 2.0])
    assert ours["bytes_a"].bytes_list == BytesList([b"x" * 1000])


def test_numbers_that_are_not_packed_are_read() -> None:
    int64 = b"\x1a\x05\x08\x07\x08\x80\x01"  # Feature: int64_list: 7, 128
    entry = b"\x0a\x01a\x12" + bytes([len(int64)]) + int64
    inner = b"\x0a" + bytes([len(entry)]) + entry
    parsed = parse_single_example(
        b"\x0a" + bytes([len(inner)]) + inner, {"a": FixedLenFeature([2], np.int64)}
    )
    np.testing.assert_array_equal(parsed["a"], [7, 128])


def test_parsing_one_and_many() -> None:
    features = {
        "int64_a": FixedLenFeature([], tf.int64),
        "float_a": FixedLenFeature([1, 3], tf.float32),
        "bytes_a": FixedLenFeature(2, tf.string),
        "gone": FixedLenFeature([2], tf.int64, default_value=-1),
        "text": FixedLenFeature([], tf.string, default_value="none"),
        "nothing": FixedLenFeature([], tf.float32, default_value=0.5),
        "int64_many": FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    }
    other = example(**{**ONE, "int64_a": [8], "int64_many": [5]})
    one = parse_single_example(example(**ONE), features)
    assert one["int64_a"] == 7
    assert one["int64_a"].dtype == np.int64
    assert one["text"] == b"none"
    np.testing.assert_array_equal(one["float_a"], np.array([ONE["float_a"]], np.float32))
    many = parse_example(np.array([example(**ONE), other], object), features)
    np.testing.assert_array_equal(many["int64_a"], [7, 8])
    assert many["float_a"].shape == (2, 1, 3)
    assert many["bytes_a"].tolist() == [ONE["bytes_a"]] * 2
    np.testing.assert_array_equal(many["gone"], [[-1, -1]] * 2)
    assert many["text"].tolist() == [b"none"] * 2
    np.testing.assert_array_equal(many["nothing"], np.array([0.5, 0.5], np.float32))
    np.testing.assert_array_equal(many["int64_many"][1], [5] + [0] * (len(MANY) - 1))
    assert {name: array.shape for name, array in parse_example([], features).items()}["float_a"] == (0, 1, 3)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"gone": FixedLenFeature([], np.int64)}, "The feature 'gone' of example 0 of the batch is required"),
        ({"int64_a": FixedLenFeature([], np.float32)}, "'int64_a'.* type int64, where float was asked for"),
        (
            {"int64_a": FixedLenFeature([3], np.int64)},
            r"'int64_a'.* has 1 values, where its shape \(3,\) needs 3",
        ),
        (
            {"float_a": FixedLenSequenceFeature([2], np.float32, allow_missing=True)},
            "'float_a'.* has 3 values, no multiple of the 2",
        ),
    ],
)
def test_what_an_example_lacks_is_named(spec: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        parse_example([example(**ONE), example(**ONE)], spec)


def test_descriptions_of_features_are_checked() -> None:
    with pytest.raises(ValueError, match="dtype float32, int64 or string, got uint8"):
        FixedLenFeature([], np.uint8)
    with pytest.raises(ValueError, match="allow_missing=True"):
        FixedLenSequenceFeature([], np.int64)
    with pytest.raises(TypeError, match="The feature 'a' is described by 'VarLen'"):
        parse_single_example(b"", {"a": "VarLen"})
    with pytest.raises(AttributeError, match=r"muster has no tf.io.VarLenFeature"):
        _ = tf.io.VarLenFeature  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="Name the features"):
        parse_single_example(b"", {})
    with pytest.raises(TypeError, match="A BytesList holds bytes, got 'a'"):
        BytesList(["a"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="An Int64List holds whole numbers"):
        Int64List([0.5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="A Feature has values of one kind, got 2"):
        Feature(int64_list=Int64List([1]), float_list=FloatList([1]))


def test_bytes_that_are_no_example() -> None:
    for wrong in (b"\x0a\xff", b"\x0a\x05\x0a", b"\x0b\x00", b"\x0a\x02\x0a\x7f"):
        with pytest.raises(DatasetError, match="is no tf.train.Example"):
            Example.FromString(wrong)
    whole = example(**ONE)
    for end in range(1, len(whole)):  # whatever it is cut to, it is read or refused
        with pytest.raises(DatasetError, match="is no tf.train.Example"):
            Example.FromString(whole[:end])


def test_raw_numbers() -> None:
    np.testing.assert_array_equal(decode_raw(b"\x01\x00\x02\x00", np.uint16), [1, 2])
    np.testing.assert_array_equal(decode_raw(b"\x00\x01", np.int16, little_endian=False), [1])
    np.testing.assert_array_equal(
        decode_raw(np.array([b"ab", b"cd"], object), np.uint8), [[97, 98], [99, 100]]
    )
    with pytest.raises(DatasetError, match="3 bytes, which are no whole number of int16"):
        decode_raw(b"abc", np.int16)
    with pytest.raises(DatasetError, match=r"equally long, got lengths \[1, 2\]"):
        decode_raw(np.array([b"a", b"bc"], object), np.uint8)


def test_a_program_written_for_tensorflow(tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.uint8).reshape(6, 2, 2)
    with tf.io.TFRecordWriter(str(tmp_path / "images.tfrecord")) as writer:
        for label, image in enumerate(images):
            feature = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())

    def parse(record: Any) -> Any:
        parsed = tf.io.parse_single_example(
            record,
            {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)},
        )
        image = tf.reshape(tf.io.decode_raw(parsed["image"], tf.uint8), [2, 2])
        return tf.cast(image, tf.float32) / 255, parsed["label"]

    files = tf.data.Dataset.list_files(str(tmp_path / "*.tfrecord"))
    dataset = files.interleave(tf.data.TFRecordDataset).map(parse).batch(4)
    (first, labels), (second, _) = dataset
    np.testing.assert_allclose(np.concatenate([first, second]) * 255, images)
    np.testing.assert_array_equal(labels, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("dtype", "default"), [(np.int64, 0.5), (np.float32, "x"), (str, 3), (np.int64, [1, None])]
)
def test_defaults_of_another_type(dtype: type, default: object) -> None:
    with pytest.raises(ValueError, match=rf"default_value .* cannot be {re.escape(repr(default))}"):
        FixedLenFeature([2], dtype, default)
    with pytest.raises(ValueError, match="cannot be"):
        FixedLenSequenceFeature([], dtype, allow_missing=True, default_value=default)
