"""``tf.contrib.learn.preprocessing``."""

from pathlib import Path

import numpy as np

import muster_tensorflow as tf

preprocessing = tf.compat.v1.contrib.learn.preprocessing
TEXTS = ["Hello, World-wide TF users!", "hello TFRecord's users"]


def test_words_are_numbered_as_they_come(tmp_path: Path) -> None:
    processor = preprocessing.VocabularyProcessor(5)
    rows = list(processor.fit_transform(TEXTS))
    assert [row.tolist() for row in rows] == [[1, 2, 3, 4, 0], [5, 3, 6, 4, 0]]
    assert rows[0].dtype == np.int64
    assert len(processor.vocabulary_) == 7
    assert [row.tolist() for row in processor.transform(["users other Hello a b c"])] == [[4, 0, 1, 0, 0]]
    assert list(processor.reverse([[1, 4, 0]])) == ["Hello users <UNK>"]
    processor.save(tmp_path / "vocabulary")
    again = preprocessing.VocabularyProcessor.restore(tmp_path / "vocabulary")
    assert next(again.transform(["users"])).tolist() == [4, 0, 0, 0, 0]


def test_rare_words_are_unknown() -> None:
    processor = preprocessing.VocabularyProcessor(
        4, min_frequency=1, tokenizer_fn=lambda texts: (text.split() for text in texts)
    )
    rows = processor.fit_transform(["b b a", "c a a", "d"])
    assert [row.tolist() for row in rows] == [[2, 2, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]


def test_bytes_of_texts() -> None:
    processor = preprocessing.ByteProcessor(max_document_length=4)
    rows = list(processor.fit_transform(["aé", b"abcdef"]))
    assert [row.tolist() for row in rows] == [[97, 195, 169, 0], [97, 98, 99, 100]]
    assert list(processor.reverse(rows)) == ["aé", "abcd"]
