"""TensorFlow 1's input of queues: producers, readers, and batches that an input_fn returns."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster_tensorflow.library.ops._one_shot import as_dataset

DEFAULTS: Any = [[0.0], [""], [0]]


def elements(returned: Any) -> list[Any]:
    """The elements that an Estimator reads of what an input_fn returned."""
    return list(as_dataset(returned))


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    """Two files with a header and five lines each."""
    for file in range(2):
        lines = [f"{file * 5 + i},t{file * 5 + i},{i % 2}\n" for i in range(5)]
        (tmp_path / f"{file}.csv").write_text("a,b,label\n" + "".join(lines))
    return [str(tmp_path / "0.csv"), str(tmp_path / "1.csv")]


@pytest.fixture
def records(tmp_path: Path) -> str:
    """Four examples with lists of 0 to 3 numbers."""
    with tf.python_io.TFRecordWriter(str(tmp_path / "records")) as writer:
        for i in range(4):
            feature = {"v": tf.train.Feature(int64_list=tf.train.Int64List(value=range(i)))}
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    return str(tmp_path / "records")


@pytest.mark.parametrize("smaller", [False, True])
def test_an_estimator_trains_on_lines_of_a_queue(tables: list[str], tmp_path: Path, smaller: bool) -> None:
    def input_fn() -> Any:
        queue = tf.train.string_input_producer(tables, num_epochs=1)
        _, rows = tf.TextLineReader(skip_header_lines=1).read_up_to(queue, num_records=4)
        columns = tf.decode_csv(tf.expand_dims(rows, -1), record_defaults=DEFAULTS)
        features = tf.train.shuffle_batch(
            dict(zip(["a", "b", "label"], columns, strict=True)),
            4,
            capacity=20,
            min_after_dequeue=5,
            enqueue_many=True,
            allow_smaller_final_batch=smaller,
        )
        return features, features.pop("label")

    seen = elements(input_fn())
    assert [len(labels) for _, labels in seen] == ([4, 4, 2] if smaller else [4, 4])
    numbers = np.concatenate([features["a"].ravel() for features, _ in seen])
    texts = np.concatenate([features["b"].ravel() for features, _ in seen])
    assert [f"t{int(each)}" for each in numbers] == [str(each) for each in texts]
    assert len(set(numbers)) == len(numbers)
    if smaller:
        column = tf.feature_column.numeric_column("a")
        estimator = tf.estimator.LinearClassifier([column], model_dir=str(tmp_path / "model"))
        estimator.train(input_fn)
        assert estimator.get_variable_value("global_step") == 3


def test_a_line_is_read_with_its_key_and_batched(tables: list[str]) -> None:
    queue = tf.train.string_input_producer(tables, num_epochs=2, shuffle=False)
    key, row = tf.TextLineReader(skip_header_lines=1).read(queue)
    a, _, label = tf.decode_csv(row, record_defaults=DEFAULTS)
    keys, pairs = tf.train.batch([key, tf.stack([a, tf.cast(label, tf.float32)])], 10)
    (keys, pairs), second = elements((keys, pairs))
    assert str(keys[0]) == f"{tables[0]}:2"
    assert str(keys[-1]) == f"{tables[1]}:6"
    np.testing.assert_array_equal(pairs[:2], [[0, 0], [1, 1]])
    np.testing.assert_array_equal(second[1], pairs)


def test_examples_of_records_are_padded(records: str) -> None:
    queue = tf.train.string_input_producer([records], num_epochs=1)
    _, serialized = tf.TFRecordReader().read(queue)
    parsed = tf.parse_single_example(serialized, {"v": tf.VarLenFeature(tf.int64)})
    (padded,) = elements(tf.train.batch([tf.sparse_tensor_to_dense(parsed["v"])], 4, dynamic_pad=True))
    np.testing.assert_array_equal(padded, [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 2]])
    _, many = tf.TFRecordReader().read_up_to(queue, 3)
    first, last = elements(tf.parse_example(many, {"v": tf.VarLenFeature(tf.int64)}))
    assert first["v"].values.tolist() == [0, 0, 1]
    assert last["v"].values.tolist() == [0, 1, 2]


def test_files_and_records_of_one_size(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"h123456")
    queue = tf.train.string_input_producer([tmp_path / "a"], num_epochs=1)
    key, value = tf.FixedLengthRecordReader(3, header_bytes=1).read(queue)
    assert [int(tf.decode_raw(each, tf.uint8)[0]) for each in elements(value)] == [ord("1"), ord("4")]
    assert [str(each) for each in elements(key)] == [f"{tmp_path / 'a'}:{i}" for i in range(2)]
    ((key, value),) = elements(tf.WholeFileReader().read(queue))
    assert (str(key), bytes(value.item())) == (str(tmp_path / "a"), b"h123456")
    ((key, value),) = elements(tf.IdentityReader().read(queue))
    assert str(key) == str(value) == str(tmp_path / "a")
    with pytest.raises(ValueError, match="hop_bytes must be record_bytes"):
        tf.FixedLengthRecordReader(3, hop_bytes=1)


def test_slices_of_arrays_come_in_epochs() -> None:
    arrays = [np.arange(6.0).reshape(6, 1), list(range(6))]
    image, label = tf.train.slice_input_producer(arrays, num_epochs=1, shuffle=False)
    images, labels = tf.train.batch([image, label], 4, allow_smaller_final_batch=True)
    first, last = elements((images, tf.one_hot(labels, 6)))
    np.testing.assert_array_equal(first[0], [[0], [1], [2], [3]])
    np.testing.assert_array_equal(last[1], np.eye(6)[4:])
    shuffled = elements(tf.train.slice_input_producer(arrays[1:], num_epochs=2, seed=3)[0])
    assert sorted(map(int, shuffled[:6])) == sorted(map(int, shuffled[6:])) == list(range(6))
    numbers = elements(tf.train.range_input_producer(3, 1, shuffle=False).dequeue_many(2))
    assert [each.tolist() for each in numbers] == [[0, 1]]
    assert [int(each) for each in elements(tf.train.limit_epochs(label, 2))] == [0, 1]
    assert [int(each) for each in elements(tf.train.limit_epochs(7, 2))] == [7, 7]


def test_queues_of_nothing_are_errors() -> None:
    with pytest.raises(ValueError, match="requires a non-null input tensor"):
        tf.train.string_input_producer([])
    with pytest.raises(ValueError, match="at least one tensor in slice_input_producer"):
        tf.train.slice_input_producer([])
