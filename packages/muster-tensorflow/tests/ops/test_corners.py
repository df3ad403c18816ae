"""Corners of operations: text beyond ASCII, nothing to reduce, infinities, odd lengths, (n, 1) labels.

Numbers are those of TensorFlow 2.15.
"""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf


def values(found: Any) -> Any:
    return np.asarray(found).tolist()


def test_text_beyond_ascii_stays_as_it_is() -> None:
    assert tf.strings.lower("ÉCOLE A").numpy().decode() == "École a"
    assert tf.strings.lower("ÉCOLE A", encoding="utf-8").numpy().decode() == "école a"
    assert tf.strings.upper("éa").numpy().decode() == "éA"
    assert tf.strings.upper("éa", encoding="utf-8").numpy().decode() == "ÉA"
    with pytest.raises(ValueError, match="encoding is '' or 'utf-8', got 'latin'"):
        tf.strings.lower("a", encoding="latin")


def test_white_space_and_classes_of_expressions_are_of_ascii() -> None:
    assert [each.decode() for each in tf.strings.split("a\u00a0b c\x1cd").numpy()] == ["a\u00a0b", "c\x1cd"]
    assert tf.strings.strip(" \u00a0a\t").numpy().decode() == "\u00a0a"
    assert tf.strings.regex_replace("café 1", r"\W", "").numpy().decode() == "caf1"


def test_text_vectorization_lowers_and_splits_by_ascii() -> None:
    layer = tf.keras.layers.TextVectorization()
    layer.adapt(["École école a\u00a0b"])
    assert sorted(layer.get_vocabulary()) == ["", "[UNK]", "a\u00a0b", "École", "école"]


def test_truth_values_as_text() -> None:
    assert tf.strings.as_string([True, False]).numpy().tolist() == [b"true", b"false"]
    assert tf.strings.as_string(False).numpy() == b"false"


def test_confusion_of_labels_in_a_column() -> None:
    column = np.array([[0], [1], [1]])
    assert values(tf.math.confusion_matrix(column, [0, 1, 0])) == [[1, 0], [1, 1]]
    assert values(tf.math.confusion_matrix([0, 1, 0], column)) == [[1, 1], [0, 1]]
    assert values(tf.math.confusion_matrix([0, 1], tf.round([0.2, 0.9]))) == [[1, 0], [0, 1]]
    assert values(tf.math.confusion_matrix([True, False], [True, True])) == [[0, 1], [0, 1]]
    for wrong in (-1, 2):
        with pytest.raises(ValueError, match="labels are not all among the 2 classes"):
            tf.math.confusion_matrix([0, wrong], [0, 1], num_classes=2)


def test_windows_of_odd_lengths() -> None:
    np.testing.assert_allclose(tf.signal.hann_window(5), [0, 0.5, 1, 0.5, 0], atol=1e-6)
    np.testing.assert_allclose(tf.signal.hann_window(4), [0, 0.5, 1, 0.5], atol=1e-6)
    np.testing.assert_allclose(tf.signal.hamming_window(5), [0.08, 0.54, 1, 0.54, 0.08], atol=1e-6)


def test_axes_of_any_kind_of_integer() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 6.0]])
    for axis in (1, np.int64(1), np.array(1), tf.rank(x) - 1, tf.constant(1, tf.int64), [1], tf.range(1, 2)):
        assert values(tf.reduce_mean(x, axis=axis)) == [1.5, 4.5]
        assert values(tf.reduce_sum(x, axis=axis)) == [3.0, 9.0]
    assert [each.shape[0] for each in tf.split(tf.ones([4, 2]), np.int64(2))] == [2, 2]


def test_the_euclidean_norm_of_two_axes() -> None:
    x = tf.constant([[3.0, 0.0], [0.0, 4.0]])
    assert values(tf.norm(x, axis=[-2, -1])) == 5.0
    assert values(tf.norm(x, ord=2, axis=[0, 1])) == 4.0
    assert values(tf.norm(x, axis=1)) == [3.0, 4.0]
    assert values(tf.linalg.normalize(x, axis=[0, 1])[1]) == [[5.0]]


def test_padding_of_sizes_that_are_no_integers() -> None:
    assert values(tf.image.resize_with_pad(tf.ones([2, 3, 1]), 4, 4)[:, 0, 0]) == [1, 1, 0, 0]
    rows = np.asarray(tf.image.resize_with_pad(tf.ones([200, 300, 1]), 100, 100))[:, 50, 0]
    assert np.flatnonzero(rows).tolist() == [*range(16, 82)]


def test_bands_of_infinities() -> None:
    found = tf.linalg.band_part(tf.fill([2, 2], -np.inf), 0, -1)
    assert values(found) == [[-np.inf, -np.inf], [0, -np.inf]]


def test_the_extremes_of_nothing() -> None:
    assert values(tf.reduce_max(tf.zeros([3, 0]), axis=1)) == [-np.inf] * 3
    assert values(tf.reduce_min(tf.zeros([0]))) == np.inf
    assert values(tf.reduce_max(tf.zeros([0], tf.int32))) == -(2**31)
    assert values(tf.reduce_max(tf.zeros([0, 2]), axis=1)) == []


def test_a_short_vector_is_normalized() -> None:
    found = tf.keras.backend.l2_normalize(tf.constant([[1e-4, 0.0]]), axis=1)
    np.testing.assert_allclose(found, [[1, 0]], rtol=1e-6)


def test_generators_of_neighbouring_seeds_draw_other_numbers() -> None:
    one, other = (tf.random.Generator.from_seed(seed) for seed in (1, 2))
    drawn = [set(values(each.normal([3]))) for each in (one, one, one, other, other)]
    assert len(set.union(*drawn)) == 15


def test_what_is_among_the_highest() -> None:
    assert values(tf.math.in_top_k([0, 1], [[np.nan, 1.0], [0.1, 0.9]], 1)) == [False, True]
    assert values(tf.math.in_top_k([5, -1], [[0.1, 0.9], [0.1, 0.9]], 1)) == [False, False]
