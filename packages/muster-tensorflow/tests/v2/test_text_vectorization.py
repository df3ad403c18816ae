"""``tf.keras.layers.TextVectorization``, whose results are those of TensorFlow's documentation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

TextVectorization = tf.keras.layers.TextVectorization


def test_texts_become_indices() -> None:
    layer = TextVectorization(max_tokens=5000, output_mode="int", output_sequence_length=4)
    layer.adapt(tf.data.Dataset.from_tensor_slices(["foo", "bar", "baz"]).batch(64))
    assert layer.get_vocabulary() == ["", "[UNK]", "foo", "baz", "bar"]
    assert layer(np.array([["foo qux bar"], ["qux baz"]])).tolist() == [[2, 1, 4, 0], [1, 3, 0, 0]]
    assert layer("Foo, BAR! a b c").tolist() == [2, 4, 1, 1]
    assert layer(["bar"]).dtype == np.int64


def test_eager_results_are_tensors() -> None:
    layer = TextVectorization(vocabulary=["earth", "wind"])
    assert layer(["wind"]).numpy()[0][0] == 3
    assert layer(["wind"]).shape.as_list() == [1, 1]


def test_modes_have_the_names_of_tensorflow_2_3() -> None:
    found = TextVectorization(output_mode="binary", vocabulary=["a", "b"])(["a a"])
    assert found.tolist() == [[0, 1, 0]]
    lookup = tf.keras.layers.StringLookup(vocabulary=["a", "b"], num_oov_indices=0, output_mode="binary")
    assert lookup(["b", "b"]).tolist() == [0, 1]
    TextVectorization(output_mode="tf-idf").adapt(["a b", "a"])


def test_a_vocabulary_is_given(tmp_path: Path) -> None:
    layer = TextVectorization(vocabulary=["earth", "wind", "and", "fire"])
    assert layer.get_vocabulary() == ["", "[UNK]", "earth", "wind", "and", "fire"]
    assert layer(["earth and fire", "wind", ""]).tolist() == [[2, 4, 5], [3, 0, 0], [0, 0, 0]]
    (tmp_path / "words.txt").write_text("earth\nwind\n")
    assert TextVectorization(vocabulary=str(tmp_path / "words.txt")).vocabulary_size() == 4


def test_words_are_counted() -> None:
    texts = ["a b a", "b c"]
    words = ["a", "b", "c"]
    assert TextVectorization(output_mode="multi_hot", vocabulary=words)(texts).tolist() == [
        [0, 1, 1, 0],
        [0, 0, 1, 1],
    ]
    counted = TextVectorization(max_tokens=6, output_mode="count", pad_to_max_tokens=True, vocabulary=words)
    assert counted([*texts, "z z"]).tolist() == [[0, 2, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0], [2, 0, 0, 0, 0, 0]]
    weighted = TextVectorization(output_mode="tf_idf", vocabulary=words, idf_weights=[1.0, 2.0, 3.0])
    assert weighted("a a c z").tolist() == [2, 2, 0, 3]
    with pytest.raises(ValueError, match="a weight for each of 3 tokens"):
        TextVectorization(output_mode="tf_idf", vocabulary=words)


def test_weights_are_learned() -> None:
    layer = TextVectorization(output_mode="tf_idf")
    layer.adapt(["a b", "b", "b b"])
    assert layer.get_vocabulary() == ["[UNK]", "b", "a"]
    b, a = np.log(1 + 3 / 4), np.log(1 + 3 / 2)
    np.testing.assert_allclose(layer("b b a x"), [(a + b) / 2, 2 * b, a], rtol=1e-6)


def test_texts_are_cut_as_wished() -> None:
    def tokens(**arguments: Any) -> list[str]:
        layer = TextVectorization(**arguments)
        layer.adapt(["The cat."])
        return sorted(layer.get_vocabulary(include_special_tokens=False))

    assert tokens() == ["cat", "the"]
    assert tokens(standardize=None) == ["The", "cat."]
    assert tokens(standardize="lower") == ["cat.", "the"]
    assert tokens(standardize="strip_punctuation") == ["The", "cat"]
    assert tokens(standardize=None, split=None) == ["The cat."]
    assert tokens(split="character") == sorted(set("the cat"))
    assert tokens(ngrams=2) == ["cat", "the", "the cat"]
    assert tokens(ngrams=(2,)) == ["the cat"]
    assert tokens(standardize=lambda texts: tf.strings.regex_replace(tf.strings.lower(texts), "t", "")) == [
        "ca.",
        "he",
    ]
    assert tokens(split=lambda texts: tf.strings.split(texts, sep="e")) == [" cat", "th"]


def test_ragged_rows() -> None:
    layer = TextVectorization(vocabulary=["a", "b"], ragged=True)
    assert layer(["a b", "b"]).to_list() == [[2, 3], [3]]


def test_it_is_for_a_map() -> None:
    layer = TextVectorization(vocabulary=["a", "b"], output_sequence_length=3)
    data = tf.data.Dataset.from_tensor_slices((["a b", "b"], [0, 1])).batch(2)
    rows, labels = next(iter(data.map(lambda text, label: (layer(text), label))))
    assert (rows.tolist(), labels.tolist()) == ([[2, 3, 0], [3, 0, 0]], [0, 1])
    with pytest.raises(ValueError, match="has no vocabulary"):
        TextVectorization()("a")


@pytest.mark.parametrize(
    "arguments",
    [{"standardize": "upper"}, {"split": "word"}, {"output_mode": "one"}, {"sparse": True}],
)
def test_wrong_arguments_are_told(arguments: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        TextVectorization(**arguments)
