"""Embeddings of a changed vocabulary."""

import numpy as np
import pytest

import muster_tensorflow as tf


def test_words_of_both_vocabularies_keep_their_embeddings(tmp_path):
    base = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    (tmp_path / "words").write_text("b\na\n", encoding="utf-8")
    for vocabulary in (["b", "a"], np.array([b"b", b"a"]), str(tmp_path / "words")):
        found = tf.keras.utils.warmstart_embedding_matrix(vocabulary, ["x", "a", "b"], base, "zeros")
        assert found.numpy().tolist() == [[0, 0], [3, 4], [1, 2]]
        assert found.dtype == tf.float32


def test_a_vocabulary_is_words_or_a_file():
    with pytest.raises(ValueError, match="got int"):
        tf.keras.utils.warmstart_embedding_matrix(3, ["a"], np.ones((1, 1)))
