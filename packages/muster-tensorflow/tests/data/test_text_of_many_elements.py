"""Maps of text compute many elements at a time: with the results that they have for each element."""

import logging
import random

import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1
from muster import DatasetError
from muster.data.pipeline._rows_function import RowsFunction

LINES = [f"{i % 2},{i / 8},w{i % 7},  Text {i} ,{i}|{i + 1}" for i in range(40)]
SVM = [" ".join([str(i % 2), *(f"{j * 10 + i}:{j / 4}" for j in range(3))]) for i in range(40)]
ACCENTED = [f"é{i}:ü:é{i % 3}" for i in range(40)]
UNEVEN = [" ".join([str(i % 2), *(f"{j}:{i}" for j in range(i % 4 + 1))]) for i in range(40)]
WORDS = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["w1", "w2"], [5, 7]), -1)


def csv(line):
    label, number, word, text, pair = tf.io.decode_csv(line, [[0], [0.0], [""], [""], [""]])
    return {
        "number": tf.math.log1p(number),
        "scaled": number * 2 - 1.5,
        "word": word,
        "id": WORDS.lookup(word),
        "bucket": tf.strings.to_hash_bucket_fast(word, 100),
        "is_w1": tf.equal(word, "w1"),
        "same": word == "w2",
        "clean": tf.strings.lower(tf.strings.strip(text)),
        "part": tf.strings.regex_replace(text, r"\s+", "_"),
        "length": tf.strings.length(text),
        "shown": tf.strings.as_string(number, precision=2),
        "pair": tf.strings.to_number(tf.strings.split(pair, "|"), tf.int32),
        "both": tf.stack([number, tf.cast(label, tf.float32)]),
        "constant": tf.constant([1.0, 2.0]),
    }, tf.cast(label, tf.int64)


def csv_of_version_1(line):
    columns = tf1.decode_csv(line, [[0], [0.0], [""], [""], [""]])
    parts = tf1.string_split([columns[4]], "|").values
    number = tf1.string_to_number(parts, tf.int64)
    return dict(zip("abc", columns[:3], strict=True)), number, tf1.to_float(columns[0])


def svm(line):
    columns = tf1.string_split([line], " ")
    labels = tf1.string_to_number(columns.values[0], out_type=tf.float32)
    splits = tf1.string_split(columns.values[1:], ":")
    ids_values = tf.reshape(splits.values, splits.dense_shape)
    ids, values = tf.split(ids_values, num_or_size_splits=2, axis=1)
    ids = tf1.string_to_number(ids, out_type=tf.int32)
    return {"ids": ids, "values": tf.squeeze(tf1.string_to_number(values), 1)}, tf.expand_dims(labels, 0)


def example(number):
    features = {
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[number, number / 2])),
        "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"w%d" % (number % 3)])),
        "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=range(number % 4))),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


RECORDS = [example(number) for number in range(40)]


def parsed(record):
    dense = {"x": tf.io.FixedLenFeature([2], tf.float32), "name": tf.io.FixedLenFeature([], tf.string)}
    found = tf.io.parse_single_example(record, dense)
    return {"x": found["x"] * 2, "name": found["name"], "id": tf.cast(found["x"], tf.int32)[0]}


def parsed_ids(record):
    return tf.io.parse_single_example(record, {"ids": tf.io.VarLenFeature(tf.int64)})


def words(line):
    return tf.strings.split(line, " ")[-1], tf.strings.join([line, "!"]), tf.strings.substr(line, 0, 1)


def accented(line):
    return [tf1.string_split([line], sep).values for sep in (":", "é", "ü")]


def loaded(lines, function, many, monkeypatch):
    """What a map loads of some lines, twice: the first time decides how."""
    with monkeypatch.context() as patched:
        if not many:
            patched.setattr(RowsFunction, "apply", lambda self, loaded, each: None)
        data = tf.data.Dataset.from_generator(lambda: iter(lines * 2), output_types=tf.string).map(function)
        rows = data.batch(len(lines)) if lines is not UNEVEN else data.padded_batch(len(lines))
        found = list(rows.as_numpy_iterator())
        return found, data._node._function._rows._works


def leaves(value):
    if isinstance(value, dict):
        return [each for key in sorted(value) for each in leaves(value[key])]
    return [each for part in value for each in leaves(part)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize(
    ("lines", "function"),
    [
        *((LINES, csv), (LINES, csv_of_version_1), (SVM, svm), (SVM, words), (UNEVEN, svm), (UNEVEN, words)),
        *((RECORDS, parsed), (RECORDS, parsed_ids), (ACCENTED, accented)),
    ],
)
def test_results_are_those_of_each_element(lines, function, monkeypatch):
    wanted, _ = loaded(lines, function, False, monkeypatch)
    found, works = loaded(lines, function, True, monkeypatch)
    assert works
    assert len(found) == len(wanted) == 2
    for one, other in zip(wanted, found, strict=True):
        assert repr(one) == repr(other)
        for a, b in zip(leaves(one), leaves(other), strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)


def test_it_is_said(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "muster")
    loaded(SVM, svm, True, monkeypatch)
    assert "map(svm) computes with the text of many elements at a time." in caplog.messages
    assert not any("element by element" in message for message in caplog.messages)


def branch(line):
    return tf.strings.length(line) if line == SVM[3] else tf.constant(-1)


def in_numpy(line):
    return np.array([len(str(line)), 1])


def in_python(line):
    return line.upper()


def told_apart(line):
    return tf.constant(isinstance(line, str))


def large(line):
    return tf.strings.to_number(tf.strings.split(line)[:1])[:, None] * tf.ones([1, 20_000])


def drawn(line):
    return tf.strings.join([line, str(random.random())])


def drawn_by_numpy(line):
    return tf.strings.to_number(tf.strings.substr(line, 0, 1)) + np.random.uniform()


def drawn_by_tensorflow(line):
    return tf.strings.to_number(tf.strings.substr(line, 0, 1)) + tf.random.uniform([], seed=1)


COUNTS = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)


def counted(line):
    key = tf.strings.substr(line, 0, 1)
    COUNTS.insert(key, COUNTS.lookup(key) + 1)
    return COUNTS.lookup(key)


@pytest.mark.parametrize(
    "function",
    [branch, in_numpy, in_python, told_apart, large, drawn, drawn_by_numpy, drawn_by_tensorflow, counted],
)
def test_what_tells_elements_apart_is_called_for_each(function, monkeypatch):
    found = []
    for many in (False, True):
        random.seed(3)
        np.random.seed(3)
        tf.random.set_seed(3)
        if function is counted:
            for key in COUNTS.export()[0]:
                COUNTS.remove(key)
        found.append(loaded(SVM, function, many, monkeypatch))
    assert not found[1][1]
    np.testing.assert_array_equal(found[0][0], found[1][0])


def wrong_at(place):
    return [*LINES[:place], "0,x", *LINES[place + 1 :]]


@pytest.mark.parametrize("place", [3, 30])
def test_a_line_that_is_wrong_is_named(place):
    data = tf.data.Dataset.from_generator(lambda: iter(wrong_at(place)), output_types=tf.string).map(csv)
    batches = iter(data.batch(20))
    if place >= 20:
        next(batches)
    with pytest.raises(DatasetError, match="Expect 5 fields but have 2 in record 0: '0,x'"):
        next(batches)
    kept = list(data.ignore_errors().batch(20).as_numpy_iterator())
    numbers = np.concatenate([features["scaled"] for features, _ in kept])
    assert numbers.tolist() == [i / 4 - 1.5 for i in range(40) if i != place]


def test_texts_with_zeros_keep_them():
    lines = [f"{i}\0" for i in range(8)] * 2
    data = tf.data.Dataset.from_generator(lambda: iter(lines), output_types=tf.string)
    sizes = data.map(lambda line: tf.strings.length(tf.strings.join([line, ""]))).batch(8)
    assert np.concatenate(list(sizes.as_numpy_iterator())).tolist() == [2] * 16


def test_reading_goes_on_at_the_same_line():
    data = tf.data.Dataset.from_generator(lambda: iter(SVM * 2), output_types=tf.string).map(svm).batch(8)
    iterator = iter(data)
    for _ in range(3):
        next(iterator)
    position = iterator.position
    rest = list(iterator)
    again = iter(data)
    again.go_on(position)
    assert repr(list(again)) == repr(rest)


def test_a_filter_reads_many_lines():
    lines = [f"#{i}" if i % 3 else f"{i}" for i in range(30)]
    data = tf.data.Dataset.from_generator(lambda: iter(lines), output_types=tf.string)
    kept = data.filter(lambda line: tf.not_equal(tf.strings.substr(line, 0, 1), "#")).batch(8)
    assert [int(each) for batch in kept for each in batch] == list(range(0, 30, 3))
