"""Readers and writers of data files by TensorFlow's names."""

from pathlib import Path
from typing import Any

import numpy as np

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1
from muster.data import SparseTensor


def test_a_program_writes_and_reads_records(tmp_path: Path) -> None:
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


def test_features_are_described_by_dtypes_of_tensorflow() -> None:
    feature = {
        "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=[5, 6])),
        "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", b"b"])),
        "size": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    parsed = tf.io.parse_example(
        [example],
        {
            "ids": tf.io.VarLenFeature(tf.int64),
            "words": tf.io.FixedLenFeature(2, tf.string),
            "size": tf.io.FixedLenFeature([], tf.float32),
            "gone": tf.io.FixedLenFeature([2], tf.int64, default_value=-1),
            "many": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        },
    )
    assert isinstance(parsed["ids"], SparseTensor)
    np.testing.assert_array_equal(parsed["ids"].to_dense(), [[5, 6]])
    np.testing.assert_array_equal(parsed["words"], [[b"a", b"b"]])
    np.testing.assert_array_equal(parsed["size"], np.float32([0.5]))
    np.testing.assert_array_equal(parsed["gone"], [[-1, -1]])
    assert parsed["many"].shape == (1, 0)


def test_rows_are_read_with_dtypes_of_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,one\n2,two\n")
    rows = tf.data.experimental.CsvDataset(str(tmp_path / "a.csv"), [tf.int64, ""], header=True)
    assert [(int(number), tf.compat.as_text(name.numpy())) for number, name in rows] == [
        (1, "one"),
        (2, "two"),
    ]


def test_lines_are_decoded_with_tensorflow_1s_order_of_arguments() -> None:
    assert tf1.decode_csv("1;NA", [0, 5], ";", True, "name", "NA") == [1, 5]
