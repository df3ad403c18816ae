"""TensorFlow 1's iterators and transformations in input functions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster.estimator import ModeKeys, RunConfig
from muster.estimator._model_fn import call_input_fn
from muster_tensorflow.library.ops._one_shot import OneShotIterator, as_dataset

FEATURES = {"x": np.arange(8, dtype=np.float32).reshape(4, 2), "unused": np.zeros(4, np.float32)}
LABELS = np.arange(4, dtype=np.float32).reshape(4, 1)


def dataset() -> Any:
    return tf.data.Dataset.from_tensor_slices((FEATURES, LABELS)).batch(2)


def whole(iterator: OneShotIterator) -> Any:
    return iterator.get_next()


def taken_apart(iterator: OneShotIterator) -> Any:
    features, labels = iterator.get_next()
    return {"x": features["x"]}, labels


@pytest.mark.parametrize("returned", [whole, taken_apart])
def test_an_estimator_reads_all_that_an_iterator_stands_for(returned: Any, tmp_path: Path) -> None:
    seen = []

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        outputs = tf.layers.dense(features["x"], 1)
        seen.append(sorted(features))
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=features["x"])
        loss = tf.losses.mean_squared_error(labels, outputs)
        train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.estimator.Estimator(model_fn, tmp_path)
    estimator.train(lambda: returned(dataset().make_one_shot_iterator()))
    assert estimator.get_variable_value("global_step") == 2
    rows = list(estimator.predict(lambda: returned(tf.data.make_one_shot_iterator(dataset()))))
    assert np.array(rows).tolist() == FEATURES["x"].tolist()
    assert seen[0] == (["unused", "x"] if returned is whole else ["x"])


def test_values_of_an_iterator_are_those_of_elements() -> None:
    features, labels = dataset().make_one_shot_iterator().get_next()
    assert (labels.shape, labels.dtype) == ((None, 1), np.float32)
    swapped = list(as_dataset((labels, features["x"])))
    assert [each[0].tolist() for each in swapped] == [[[0], [1]], [[2], [3]]]
    only = as_dataset(tf.data.Dataset.range(2).make_one_shot_iterator().get_next())
    assert [int(each) for each in only] == [0, 1]


def test_operations_compute_with_values_of_an_iterator() -> None:
    features, labels = dataset().make_one_shot_iterator().get_next()
    scaled = 255 - tf.to_float(features["x"]) * 2
    first, _ = tf.split(scaled, 2, axis=1)
    first.set_shape([None, 1])
    elements = list(as_dataset(({"first": first, "x": features["x"]}, labels[:, 0] > 0)))
    assert [each[0]["first"].tolist() for each in elements] == [[[255], [251]], [[247], [243]]]
    assert [each[1].tolist() for each in elements] == [[False, True], [True, True]]
    assert elements[1][0]["x"].tolist() == FEATURES["x"][2:].tolist()


def test_values_of_an_iterator_may_lie_in_lists() -> None:
    features, labels = dataset().make_one_shot_iterator().get_next()
    first = next(iter(as_dataset(([features["x"]], [labels]))))
    assert (first[0][0].tolist(), first[1][0].tolist()) == ([[0, 1], [2, 3]], [[0], [1]])


def test_text_of_an_iterator_is_looked_up() -> None:
    lines = tf.data.Dataset.from_tensor_slices(["1,b", "2,a", "3,c"]).batch(2)
    number, word = tf.decode_csv(lines.make_one_shot_iterator().get_next(), [[0], [""]])
    table = tf.contrib.lookup.index_table_from_tensor(tf.constant(["a", "b"]))
    elements = list(as_dataset(({"number": number}, table.lookup(word))))
    assert [each[0]["number"].tolist() for each in elements] == [[1, 2], [3]]
    assert [each[1].tolist() for each in elements] == [[1, 0], [-1]]


def test_values_of_an_iterator_that_cannot_be_computed_with() -> None:
    value = tf.data.Dataset.range(2).make_one_shot_iterator().get_next()
    with pytest.raises(TypeError, match=r"or in Dataset\.map"):
        np.asarray(value)
    iterator = dataset().make_one_shot_iterator()
    with pytest.raises(ValueError, match="values of one call"):
        _ = iterator.get_next()[1] + iterator.get_next()[1]
    with pytest.raises(ValueError, match="of one call, and no others"):
        as_dataset((iterator.get_next()[0], iterator.get_next()[1]))
    with pytest.raises(ValueError, match="of one call, and no others"):
        as_dataset((iterator.get_next()[0], LABELS))


def test_transformations_are_applied() -> None:
    numbers = tf.data.Dataset.range(4)
    mapped = numbers.apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 3, drop_remainder=True))
    assert [each.tolist() for each in mapped] == [[0, 2, 4]]
    assert [int(each) for each in mapped.apply(tf.data.experimental.unbatch())] == [0, 2, 4]
    shuffled = numbers.apply(tf.contrib.data.shuffle_and_repeat(4, 2, seed=1))
    passes = [int(each) for each in shuffled]
    assert sorted(passes[:4]) == sorted(passes[4:]) == [0, 1, 2, 3]
    mixed = numbers.apply(
        tf.data.experimental.parallel_interleave(lambda x: tf.data.Dataset.from_tensors(x).repeat(2), 2)
    )
    assert [int(each) for each in mixed] == [0, 1, 0, 1, 2, 3, 2, 3]
    ahead = numbers.apply(tf.data.experimental.prefetch_to_device("/gpu:0"))
    assert [int(each) for each in ahead] == [0, 1, 2, 3]


def test_contrib_has_the_transformations_of_before() -> None:
    rows = tf.data.Dataset.range(5).map(lambda x: tf.fill([x], x))
    padded = rows.apply(tf.contrib.data.padded_batch_and_drop_remainder(2, [None]))
    assert [each.shape for each in padded] == [(2, 1), (2, 3)]
    buckets = rows.apply(
        tf.contrib.data.bucket_by_sequence_length(
            element_length_func=lambda row: tf.shape(row)[0],
            bucket_batch_sizes=np.full(2, 2),
            bucket_boundaries=[3],
        )
    )
    assert sorted(each.shape for each in buckets) == [(1, 2), (2, 1), (2, 4)]
    table = tf.contrib.lookup.HashTable(
        tf.contrib.lookup.KeyValueTensorInitializer(["a", "b"], np.int64([1, 2])), -1
    )
    assert table.lookup(np.array(["b", "c"])).tolist() == [2, -1]
    assert tf.contrib.lookup.string_to_index(np.array(["b"]), mapping=["a", "b"]).tolist() == [1]
    assert tf.contrib.lookup.index_to_string(np.int64([1, 2]), ["a", "b"]).tolist() == ["b", "UNK"]


def test_transformations_are_methods_of_datasets() -> None:
    numbers = tf.data.Dataset.range(6)
    experimental = tf.data.experimental
    assert [int(each) for each in numbers.apply(experimental.take_while(lambda x: x < 2))] == [0, 1]
    assert len(numbers.filter(lambda x: True).apply(experimental.assert_cardinality(6))) == 6
    assert [int(each) for each in numbers.batch(4).apply(experimental.unbatch())] == list(range(6))
    assert [int(each) for each in numbers.apply(experimental.copy_to_device("/gpu:0"))] == list(range(6))
    groups = numbers.apply(
        experimental.group_by_window(lambda x: x % 2, lambda key, window: window.batch(9), window_size=9)
    )
    assert [each.tolist() for each in groups] == [[0, 2, 4], [1, 3, 5]]
    mixed = experimental.sample_from_datasets([numbers, numbers], seed=1)
    assert sorted(int(each) for each in mixed) == sorted(2 * list(range(6)))
    assert [int(each) for each in experimental.Counter(3, 2).take(2)] == [3, 5]


def test_batches_of_parsed_examples(tmp_path: Path) -> None:
    path = str(tmp_path / "examples.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for label in range(5):
            value = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
            example = tf.train.Example(features=tf.train.Features(feature={"label": value, "x": value}))
            writer.write(example.SerializeToString())
    features = {"label": tf.io.FixedLenFeature([], tf.int64), "x": tf.io.FixedLenFeature([1], tf.int64)}
    make = tf.data.experimental.make_batched_features_dataset
    batches = list(make(path, 2, features, label_key="label", num_epochs=1, shuffle=False))
    assert [labels.tolist() for _, labels in batches] == [[0, 1], [2, 3], [4]]
    assert batches[0][0]["x"].tolist() == [[0], [1]]
    (whole,) = make([path], 5, features, num_epochs=1, drop_final_batch=True)
    assert sorted(whole["label"].tolist()) == list(range(5))
    with pytest.raises(ValueError, match="must be in the features"):
        make(path, 2, features, label_key="other")


def test_elements_of_a_dataset_are_written(tmp_path: Path) -> None:
    records = tf.data.Dataset.from_generator(lambda: iter([b"a\x00", b"b"]), tf.string)
    tf.data.experimental.TFRecordWriter(tmp_path / "records", "GZIP").write(records)
    found = tf.data.TFRecordDataset(tmp_path / "records", "GZIP")
    assert list(found) == [b"a\x00", b"b"]
    with pytest.raises(TypeError, match="A record is bytes, got"):
        tf.data.experimental.TFRecordWriter(tmp_path / "numbers").write(tf.data.Dataset.range(3))


def test_filters_take_what_operations_return_of_numbers_of_64_bits() -> None:
    numbers = tf.data.Dataset.from_generator(lambda: iter([{"a": [0]}, {"a": [3]}]), {"a": tf.int64})
    texts = numbers.map(lambda x: {**x, "text": tf.as_string(x["a"])})
    kept = texts.filter(lambda x: tf.not_equal(tf.unstack(x["a"])[0], 0))
    assert [each["a"].tolist() for each in kept] == [[3]]


def test_random_numbers_of_an_input_fn_are_new_in_each_batch() -> None:
    images = np.arange(6, dtype=np.float32).reshape(3, 2)

    def batches(input_fn: Any) -> Any:
        return call_input_fn(input_fn, ModeKeys.TRAIN, {}, RunConfig("unused"))

    def beside_an_iterator() -> Any:
        image = tf.data.Dataset.from_tensor_slices(images).batch(1).make_one_shot_iterator().get_next()
        return {"image": image, "noise": tf.random_normal([1, 4]) * 1}, None

    def of_an_iterator() -> Any:
        image = tf.data.Dataset.from_tensor_slices(images).batch(1).make_one_shot_iterator().get_next()
        return {"image": image, "noise": tf.random_normal([1, 4])}, None

    with pytest.raises(ValueError, match="of one call, and no others"):
        batches(beside_an_iterator)
    found = [each for each, _ in batches(of_an_iterator)]
    np.testing.assert_array_equal(np.concatenate([each["image"] for each in found]), images)
    noise = np.concatenate([each["noise"] for each in found])
    assert noise.shape == (3, 4)
    assert len(np.unique(noise)) == 12

    def alone() -> Any:
        return tf.random.uniform([2]), np.int32([1, 2])

    first, second, *_ = batches(alone).take(3)
    assert first[0].tolist() != second[0].tolist()
    assert first[1].tolist() == second[1].tolist() == [1, 2]
    assert isinstance(batches(lambda: np.float32([1])), np.ndarray)

    def computed() -> Any:
        x = tf.random.uniform([3])
        return {"x": tf.slice(x, [0], [2]), "parts": [x + 1, tf.constant([2])]}, x * 2

    (one, twice), (other, _) = batches(computed).take(2)
    assert one["x"].tolist() != other["x"].tolist()
    np.testing.assert_allclose(twice[:2], one["x"] * 2)
    np.testing.assert_allclose(one["parts"][0], twice / 2 + 1)
    assert one["parts"][1].tolist() == [2]
    evaluated = call_input_fn(computed, ModeKeys.EVAL, {}, RunConfig("unused"))
    assert not isinstance(evaluated, tf.data.Dataset)  # it is one batch: evaluation ends
