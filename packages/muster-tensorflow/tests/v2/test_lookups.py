"""`tf.keras.layers.StringLookup` and `IntegerLookup` in input functions."""

import inspect

import numpy as np
import pytest

import muster_tensorflow as tf
from muster._keras import keras

StringLookup, IntegerLookup = tf.keras.layers.StringLookup, tf.keras.layers.IntegerLookup
VOCAB = ["a", "b", "c", "d"]


@pytest.mark.parametrize("ours", [StringLookup, IntegerLookup])
def test_arguments_are_those_of_keras(ours):
    theirs = inspect.signature(getattr(keras.layers, ours.__name__)).parameters.values()
    ours = inspect.signature(ours).parameters.values()
    left_out = ("salt", "oov_method", "kwargs")
    assert [(p.name, p.default) for p in ours if p.name != "kwargs"] == [
        (p.name, p.default) for p in theirs if p.name not in left_out
    ]


def test_words_are_looked_up_as_in_the_tutorial():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        layer = tf.keras.layers.StringLookup(vocabulary=["a", "b", "c", "d", "f"])

    def dataset_fn(input_context):
        dataset = tf.data.Dataset.from_tensor_slices(["a", "c", "e"]).repeat()
        dataset = dataset.batch(input_context.get_per_replica_batch_size(4))
        dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        return dataset.map(lambda words: layer(words))

    batches = iter(strategy.distribute_datasets_from_function(dataset_fn))
    first = strategy.experimental_local_results(next(batches))
    assert [np.asarray(each).tolist() for each in first] == [[1, 3], [0, 1]]


@pytest.mark.parametrize("words", [["a", "z", "d"], [b"a", b"z", b"d"], np.array(["a", b"z", "d"], object)])
def test_words_are_text_or_bytes(words):
    numbers = StringLookup(vocabulary=VOCAB)(words)
    assert (numbers.tolist(), numbers.dtype) == ([1, 0, 4], np.int64)


def test_special_tokens_come_first():
    layer = StringLookup(vocabulary=VOCAB, mask_token="", oov_token="?")
    assert layer.get_vocabulary() == ["", "?", *VOCAB]
    assert layer.get_vocabulary(include_special_tokens=False) == VOCAB
    assert layer.vocabulary_size() == 6
    assert layer([["a", ""], ["z", "d"]]).tolist() == [[2, 0], [1, 5]]
    assert StringLookup(vocabulary=layer.get_vocabulary(), mask_token="", oov_token="?")("a") == 2
    back = StringLookup(vocabulary=layer.get_vocabulary(), mask_token="", oov_token="?", invert=True)
    assert back([2, 0, 1, 5, 6, -1]).tolist() == ["a", "", "?", "d", "?", "?"]


def test_without_a_number_for_other_words_they_are_refused():
    layer = StringLookup(vocabulary=VOCAB, num_oov_indices=0)
    assert layer("a") == 0
    with pytest.raises(ValueError, match="'z' is not in the vocabulary of 4 tokens"):
        layer(["a", "z"])


@pytest.mark.parametrize(
    ("mode", "words", "expected"),
    [
        ("one_hot", ["a", "z"], [[0, 1, 0], [1, 0, 0]]),
        ("one_hot", [["a"], ["m"]], [[0, 1, 0], [0, 0, 0]]),
        ("one_hot", "b", [0, 0, 1]),
        ("multi_hot", [["a", "a", "m"], ["z", "b", "a"]], [[0, 1, 0], [1, 1, 1]]),
        ("multi_hot", ["b", "b"], [0, 0, 1]),
        ("multi_hot", np.zeros((2, 0), str), [[0, 0, 0], [0, 0, 0]]),
        ("count", [["a", "a", "m"], ["z", "b", "a"]], [[0, 2, 0], [1, 1, 1]]),
    ],
)
def test_words_become_rows(mode, words, expected):
    rows = StringLookup(vocabulary=["a", "b"], mask_token="m", output_mode=mode)(words)
    assert (rows.tolist(), rows.dtype) == (expected, np.float32)


def test_vocabularies_are_learned_in_the_order_of_keras():
    layer = StringLookup(mask_token="")
    layer.adapt([["a", "c", "d"], ["d", "z", "b"], ["", "[UNK]", ""]])
    assert layer.get_vocabulary() == ["", "[UNK]", "d", "z", "c", "b", "a"]
    few = StringLookup(max_tokens=3)
    few.adapt(tf.data.Dataset.from_tensor_slices(["a", "b", "b", "c", "c", "c", "d"]).batch(2), steps=3)
    assert few.get_vocabulary() == ["[UNK]", "c", "b"]


def test_vocabularies_are_read_from_files(tmp_path):
    (tmp_path / "words.txt").write_text("é\nb\n", encoding="utf-8")
    (tmp_path / "numbers.txt").write_text("12\n7\n")
    assert StringLookup(vocabulary=str(tmp_path / "words.txt"))("é".encode()) == 1
    layer = IntegerLookup(vocabulary=tmp_path / "numbers.txt")
    batches = tf.data.Dataset.from_tensor_slices([[7], [12], [3]]).map(layer).batch(3)
    assert next(iter(batches)).tolist() == [[2], [1], [0]]
    assert IntegerLookup(vocabulary=[12, 7], invert=True)([2, 0]).tolist() == [7, -1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_oov_indices": -1}, "num_oov_indices must be at least 0, got -1"),
        ({"output_mode": "idf"}, "one of .*got 'idf'"),
        ({"output_mode": "tf_idf", "vocabulary": ["a"]}, "a weight for each of 1 tokens, got None"),
        ({"pad_to_max_tokens": True}, "needs max_tokens"),
        ({"output_mode": "count", "invert": True}, "'int' with invert=True"),
        ({"sparse": True}, "sparse=True is not available"),
        ({"max_tokens": 1, "mask_token": ""}, "max_tokens must be greater than 1, got 1"),
        ({"vocabulary": []}, "Cannot set an empty vocabulary"),
        ({"vocabulary": ["a", "b", "a"]}, "'a' more than once"),
        ({"vocabulary": ["a", "b"], "mask_token": "b"}, "mask_token 'b' is also in the vocabulary"),
        ({"vocabulary": ["a", "b"], "oov_token": "b", "invert": True}, "oov_token 'b' is also in"),
        ({"vocabulary": ["a", "b"], "max_tokens": 2}, "has 3 tokens, more than max_tokens=2"),
    ],
)
def test_what_is_not_there_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        StringLookup(**arguments)


# The numbers below are those of TensorFlow 2.15.
def test_several_indices_share_the_tokens_out_of_the_vocabulary():
    words = np.array(["a", "x", "yy", "zzz", "", "q"])
    layer = StringLookup(vocabulary=["a", "b"], num_oov_indices=3)
    assert layer(words).tolist() == [3, 2, 1, 0, 2, 2]
    assert layer.get_vocabulary() == ["[UNK]", "[UNK]", "[UNK]", "a", "b"]
    masked = StringLookup(vocabulary=["a", "b"], num_oov_indices=3, mask_token="")
    assert masked(words).tolist() == [4, 3, 2, 1, 0, 3]
    numbers = IntegerLookup(vocabulary=[5, 7], num_oov_indices=3)
    assert numbers([5, 7, 1, 2, 3, 4, -1, -2]).tolist() == [3, 4, 1, 2, 0, 1, 2, 1]
    assert numbers.from_config(numbers.get_config())([5, 4]).tolist() == [3, 1]
    assert numbers.vocab_size() == 5


def test_rows_have_as_many_columns_as_there_may_be_tokens():
    counting = StringLookup(vocabulary=["a", "b"], max_tokens=6, pad_to_max_tokens=True, output_mode="count")
    assert counting([["a", "b", "zz"]]).tolist() == [[1, 1, 1, 0, 0, 0]]
    assert counting(tf.keras.Input((3,), dtype="string")).shape == (None, 6)
    later = StringLookup(max_tokens=6, pad_to_max_tokens=True, output_mode="count")
    assert later(tf.keras.Input((3,), dtype="string")).shape == (None, 6)
    weighing = StringLookup(
        vocabulary=["a", "b"],
        idf_weights=[0.5, 0.25],
        output_mode="tf-idf",
        max_tokens=6,
        pad_to_max_tokens=True,
    )
    for layer in (weighing, StringLookup.from_config(weighing.get_config())):
        assert layer([["a", "b", "zz"]]).tolist() == [[0.375, 0.5, 0.25, 0, 0, 0]]


def test_rows_of_different_lengths():
    rows = tf.ragged.constant([["a", "b"], ["a"], []])
    layer = StringLookup(output_mode="multi_hot")
    layer.adapt(rows)
    assert layer(rows).tolist() == [[0, 1, 1], [0, 1, 0], [0, 0, 0]]
    weighing = StringLookup(output_mode="tf_idf")
    weighing.adapt(rows)
    expected = [[0, 0.6931472, 0.91629076], [0, 0.6931472, 0], [0, 0, 0]]
    np.testing.assert_allclose(weighing(rows), expected, rtol=1e-6)
    batches = tf.data.Dataset.from_tensor_slices([["a", "b"], ["a", "c"]]).batch(1)
    weighing.adapt(batches)
    np.testing.assert_allclose(weighing([["a", "a"]])[0, 1], 2 * np.log(1 + 2 / 3), rtol=1e-6)


def test_what_cannot_be_looked_up():
    with pytest.raises(ValueError, match="has no vocabulary: give one, or call adapt"):
        StringLookup()("a")
    with pytest.raises(TypeError, match="takes str or bytes, got int: 3"):
        StringLookup(vocabulary=VOCAB)([3])
    with pytest.raises(TypeError, match="takes integers, got float32"):
        IntegerLookup(vocabulary=[1])(np.float32(1.0))
    with pytest.raises(ValueError, match="vocabulary_dtype must be 'int64'"):
        IntegerLookup(vocabulary_dtype="string")
    with pytest.raises(TypeError, match="takes integers, got float64"):
        StringLookup(vocabulary=VOCAB, invert=True)([1.0])
    layer = IntegerLookup(vocabulary=[1])
    with pytest.raises(TypeError, match=r"call it in Dataset\.map"):
        tf.function(layer)(np.ones(2, np.int32))


def test_integer_lookup_has_older_names_of_arguments():
    layer = IntegerLookup(max_values=4, mask_value=0, oov_value=-2, vocabulary=[12, 7])
    assert layer([0, 12, 7, 5]).tolist() == [0, 2, 3, 1]
    config = layer.get_config()
    assert [config[each] for each in ("mask_token", "oov_token", "max_tokens")] == [0, -2, 4]
