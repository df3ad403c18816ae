"""Diagonals above and below the main one, and bands of them, as TensorFlow 2.15 makes and reads them."""

import numpy as np
import pytest

import muster_tensorflow as tf


def test_one_diagonal() -> None:
    np.testing.assert_array_equal(tf.linalg.diag([1, 2], k=1), [[0, 1, 0], [0, 0, 2], [0, 0, 0]])
    np.testing.assert_array_equal(
        tf.linalg.diag([1, 2], k=-1, padding_value=9), [[9, 9, 9], [1, 9, 9], [9, 2, 9]]
    )
    np.testing.assert_array_equal(tf.linalg.diag([1, 2], num_cols=3), [[1, 0, 0], [0, 2, 0]])
    matrix = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(tf.linalg.diag_part(matrix), [0, 4])
    np.testing.assert_array_equal(tf.linalg.diag_part(matrix, k=1), [1, 5])
    np.testing.assert_array_equal(tf.linalg.set_diag(matrix, [7.0, 8.0], k=1), [[0, 7, 2], [3, 4, 8]])


# Recorded: tf.linalg.diag_part(tf.reshape(tf.range(12), [3, 4]), k=(-1, 2), align=…, padding_value=-1)
BANDS = {
    "RIGHT_LEFT": [[-1, 2, 7], [1, 6, 11], [0, 5, 10], [4, 9, -1]],
    "LEFT_RIGHT": [[2, 7, -1], [1, 6, 11], [0, 5, 10], [-1, 4, 9]],
    "LEFT_LEFT": [[2, 7, -1], [1, 6, 11], [0, 5, 10], [4, 9, -1]],
    "RIGHT_RIGHT": [[-1, 2, 7], [1, 6, 11], [0, 5, 10], [-1, 4, 9]],
}


@pytest.mark.parametrize("align", BANDS)
def test_a_band(align: str) -> None:
    matrix = np.arange(12).reshape(3, 4)
    band = tf.linalg.diag_part(matrix, k=(-1, 2), align=align, padding_value=-1)
    np.testing.assert_array_equal(band, BANDS[align])
    made = tf.linalg.diag(band, k=(-1, 2), num_rows=3, num_cols=4, align=align)
    np.testing.assert_array_equal(made, np.triu(np.tril(matrix, 2), -1))
    np.testing.assert_array_equal(tf.linalg.set_diag(matrix * 0, band, k=(-1, 2), align=align), made)


def test_what_is_no_band_is_refused() -> None:
    with pytest.raises(ValueError, match="lowest"):
        tf.linalg.diag_part(np.eye(2), k=(1, 0))
    with pytest.raises(ValueError, match="RIGHT_LEFT"):
        tf.linalg.diag_part(np.eye(2), align="LEFT")


def test_n_grams_of_padded_rows() -> None:
    words = tf.constant(["a", "b", "c"])
    ngrams = tf.strings.ngrams
    assert ngrams(words, 2, pad_values=("<", ">")).tolist() == ["< a", "a b", "b c", "c >"]
    assert ngrams(words, 3, pad_values="_", padding_width=1).tolist() == ["_ a b", "a b c", "b c _"]
    assert ngrams(words, 5, preserve_short_sequences=True).tolist() == ["a b c"]
    assert ngrams(words, 5).tolist() == []


def test_counts_of_rows_and_their_presence() -> None:
    np.testing.assert_array_equal(tf.math.bincount([[1, 1], [0, 2]], axis=-1), [[0, 2, 0], [1, 0, 1]])
    np.testing.assert_array_equal(tf.math.bincount([1, 1, 0], binary_output=True), [1, 1])
    with pytest.raises(ValueError, match="axis"):
        tf.math.bincount([1], axis=1)
