"""Tables of ``tf.lookup``."""

import pytest

import muster.compat.tensorflow as tf
import muster.compat.tensorflow.compat.v1 as tf1


def words() -> tf.lookup.KeyValueTensorInitializer:
    return tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.constant([5, 7]))


def test_a_table_gives_values_by_keys():
    table = tf.lookup.StaticHashTable(words(), default_value=-1)
    assert table.lookup(tf.constant([["b", "z"], ["a", "a"]])).numpy().tolist() == [[7, -1], [5, 5]]
    assert table[tf.constant("b")].numpy() == 7
    assert table.size().numpy() == 2


def test_a_table_maps_a_dataset():
    table = tf.lookup.StaticHashTable(words(), default_value=0)
    dataset = tf.data.Dataset.from_tensor_slices(["b", "c"]).map(lambda word: table.lookup(word))
    assert [int(number) for number in dataset] == [7, 0]


def test_numbers_become_words():
    names = tf.lookup.KeyValueTensorInitializer([0, 1], ["cat", "dog"])
    table = tf.lookup.StaticHashTable(names, default_value="?")
    assert table.lookup(tf.constant([1, 9])).numpy().tolist() == [b"dog", b"?"]


def test_a_vocabulary_in_a_file(tmp_path):
    (tmp_path / "words.txt").write_text("x\ny\n")
    lines = tf.lookup.TextFileInitializer(
        str(tmp_path / "words.txt"),
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    table = tf.lookup.StaticVocabularyTable(lines, num_oov_buckets=1)
    assert table.lookup(tf.constant(["y", "q", "x"])).numpy().tolist() == [1, 2, 0]
    assert table.size().numpy() == 3


def test_columns_of_a_file(tmp_path):
    (tmp_path / "prices.tsv").write_text("x\t1.5\ny\t2.5\n")
    prices = tf.lookup.TextFileInitializer(str(tmp_path / "prices.tsv"), tf.string, 0, tf.float32, 1)
    assert tf.lookup.StaticHashTable(prices, 0.0).lookup(tf.constant(["y"])).numpy().tolist() == [2.5]


def test_tables_of_contrib(tmp_path):
    (tmp_path / "words.txt").write_text("x\ny\n")
    lookup = tf1.contrib.lookup
    assert lookup.index_table_from_tensor(["p", "q"]).lookup(tf.constant(["q", "r"])).numpy().tolist() == [
        1,
        -1,
    ]
    table = lookup.index_table_from_file(str(tmp_path / "words.txt"), num_oov_buckets=1)
    assert table.lookup(tf.constant(["y", "r"])).numpy().tolist() == [1, 2]
    names = lookup.index_to_string_table_from_tensor(["p", "q"])
    assert names.lookup(tf.constant([1, 5])).numpy().tolist() == [b"q", b"UNK"]


@pytest.mark.parametrize(
    ("keys", "values", "message"),
    [(["a"], [1, 2], "a value for each key"), (["a", "a"], [1, 2], "'a' has two values")],
)
def test_keys_without_one_value(keys, values, message):
    with pytest.raises(ValueError, match=message):
        tf.lookup.KeyValueTensorInitializer(keys, values)


def test_a_model_has_no_texts():
    table = tf.lookup.StaticHashTable(words(), default_value=-1)
    with pytest.raises(TypeError, match="computes on the host"):
        table.lookup(tf.keras.Input((1,)))


def test_words_out_of_the_vocabulary_are_hashed():
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([0, 1], tf.int64)), num_oov_buckets=3
    )
    # Numbers of TensorFlow 2.15.
    assert table.lookup(tf.constant(["a", "x", "y", "zed", "", "b"])).numpy().tolist() == [0, 4, 4, 4, 4, 1]
    assert table.size().numpy() == 5
    numbers = tf.lookup.KeyValueTensorInitializer(
        tf.constant([5, 7], tf.int64), tf.constant([0, 1], tf.int64)
    )
    table = tf.lookup.StaticVocabularyTable(numbers, 3)
    assert table.lookup(tf.constant([5, 6, 7, 8, 9], tf.int64)).numpy().tolist() == [0, 4, 1, 3, 4]
    with pytest.raises(ValueError, match="num_oov_buckets must be 1 or more, got 0"):
        tf.lookup.StaticVocabularyTable(words(), num_oov_buckets=0)


def test_numbers_are_looked_up_in_functions():
    prices = tf.lookup.KeyValueTensorInitializer(tf.constant([7, 5]), tf.constant([1.5, 2.5]))
    table = tf.lookup.StaticHashTable(prices, -1.0)
    looked_up = tf.function(table.lookup)(tf.constant([[5, 7], [6, 5]]))
    assert looked_up.numpy().tolist() == [[2.5, 1.5], [-1.0, 2.5]]


def test_words_of_a_file_by_their_numbers(tmp_path):
    (tmp_path / "words.txt").write_text("a\nb\nc\n")
    lookup = tf1.contrib.lookup
    table = lookup.index_to_string_table_from_file(str(tmp_path / "words.txt"), default_value="?")
    assert table.lookup([2, 0, 7]).tolist() == ["c", "a", "?"]
    short = lookup.index_to_string_table_from_file(tmp_path / "words.txt", vocab_size=1)
    assert short.lookup([0, 1]).tolist() == ["a", "UNK"]
