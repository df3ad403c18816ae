"""Tables of ``tf.lookup``."""

import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1


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


def test_tables_change():
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, default_value=-1)
    table.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
    table.insert("b", 5)
    found = table.lookup(tf.constant([["a", "b"], ["c", "a"]]))
    assert (found.numpy().tolist(), found.dtype) == ([[1, 5], [-1, 1]], tf.int64)
    assert table.lookup(["c", "b"], dynamic_default_values=[7, 8]).numpy().tolist() == [7, 5]
    assert table[tf.ragged.constant([["a"], ["x", "b"]])].to_list() == [[1], [-1, 5]]
    table.remove(["a", "z"])
    keys, values = table.export()
    assert (keys.numpy().tolist(), values.numpy().tolist(), int(table.size())) == ([b"b"], [5], 1)
    with pytest.raises(ValueError, match=r"Expected shape \[2\] for value, got \[1\]"):
        table.insert(["a", "b"], [1])


def test_values_of_tables_are_vectors():
    table = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.float32, default_value=[0.0, 0.0], empty_key=-1, deleted_key=-2
    )

    @tf.function
    def count(key):
        table.insert(key, table.lookup(key) + 1.0)
        return table.lookup(key)

    counted = [count(tf.constant([3], tf.int64)).numpy().tolist() for _ in range(2)]
    assert counted == [[[1, 1]], [[2, 2]]]
    with pytest.raises(ValueError, match="Using the deleted_key as a table key is not allowed"):
        table.lookup([-2])
    with pytest.raises(ValueError, match="must have the same shape, and be different"):
        tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, 0, empty_key=1, deleted_key=1)


def test_a_dataset_looks_up_what_a_table_has():
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int32, default_value=0)
    table.insert(["a"], [3])
    found = tf.data.Dataset.from_tensor_slices(["a", "b"]).map(table.lookup)
    assert [int(each) for each in found] == [3, 0]


def test_sparse_keys_are_looked_up():
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["no", "yes"], [3, 5]), 0)
    found = table.lookup(tf.sparse.SparseTensor([[0, 0], [1, 2]], ["yes", "x"], [2, 3]))
    assert tf.sparse.to_dense(found).numpy().tolist() == [[5, 0, 0], [0, 0, 0]]
    assert found.indices.numpy().tolist() == [[0, 0], [1, 2]]
