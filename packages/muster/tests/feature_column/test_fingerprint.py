"""Fingerprints of many texts at a time; the recorded cases say what they are."""

import hashlib

import numpy as np
import pytest

from muster.feature_column import crossed_column
from muster.feature_column._fingerprint import fingerprint64, fingerprint64_of_integers, fingerprint_cat64


def test_texts_of_all_lengths_among_others_and_alone():
    texts = [bytes(i * 7 % 256 for i in range(length)) for length in range(300)]
    together = fingerprint64(texts)
    assert len(set(together.tolist())) == 300
    assert [fingerprint64([text])[0] for text in texts] == together.tolist()
    np.testing.assert_array_equal(fingerprint64(texts[::-1]), together[::-1])


def test_lengths_as_tensorflow():
    """Recorded from TensorFlow 2.15.1: the digest of ``tf.fingerprint`` of texts of 0 to 399 bytes."""
    texts = [bytes((i * 7 + length * 13) % 256 for i in range(length)) for length in range(400)]
    digest = hashlib.sha256(fingerprint64(texts).astype("<u8").tobytes()).hexdigest()
    assert digest == "efc97ed3905ad3a7ecefa11031aadfce6bfe714441d36728ef6e3a7824664667"


def test_crosses_as_tensorflow():
    """Recorded from TensorFlow 2.15.1: the digest of the ids of ``tf.sparse.cross_hashed``."""
    rng = np.random.default_rng(0)
    features = {
        "a": rng.integers(0, 50, (200, 3)),
        "b": rng.integers(-5, 2**40, (200, 2)),
        "c": rng.integers(0, 99, (200, 2)).astype(str),
    }
    ids, _ = crossed_column(["a", "b", "c"], 1000003, hash_key=12345).sparse_ids(features)
    assert ids.values.shape == (200 * 3 * 2 * 2,)
    digest = hashlib.sha256(ids.values.astype("<i8").tobytes()).hexdigest()
    assert digest == "d5e4dae08031c1a16259296f67cbe1a42db31fedaf4f1fd0550b20fc2cc62a1d"


def test_zero_bytes_count():
    one, other, none = fingerprint64([b"a", b"a\0", b""])
    assert len({one, other, none}) == 3


def test_no_texts():
    assert fingerprint64([]).shape == (0,)


@pytest.mark.filterwarnings("error")
def test_pairs_are_ordered():
    first, second = fingerprint64([b"x"]), fingerprint64([b"1"])
    assert fingerprint_cat64(first, second) != fingerprint_cat64(second, first)


def test_text_is_taken_as_utf_8():
    texts = ["", "a", "plain", "Zürich", "東京", "a\0"]
    expected = fingerprint64([text.encode() for text in texts]).tolist()
    assert fingerprint64(texts).tolist() == expected
    assert fingerprint64([texts[0], b"a", *texts[2:]]).tolist() == expected
    assert fingerprint64(texts[1:3]).tolist() == expected[1:3]
    with pytest.raises(ValueError, match="Text or bytes are wanted, got 3"):
        fingerprint64(["a", 3])


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "uint64"])
def test_integers_are_hashed_as_their_decimal_text(dtype):
    most = np.iinfo(dtype).max
    tens = [each for ten in range(20) for each in (10**ten - 1, 10**ten, 10**ten + 1) if each <= most]
    for largest in (0, 7, 9, 9999, 10000, 10**9, 10**17, 10**18, most):
        numbers = np.array([each for each in (*tens, largest) if each <= min(largest, most)], dtype)
        expected = fingerprint64([str(int(each)) for each in numbers])
        np.testing.assert_array_equal(fingerprint64_of_integers(numbers), expected)


def test_negative_integers_and_none():
    expected = fingerprint64(["-12", "3"])
    np.testing.assert_array_equal(fingerprint64_of_integers(np.array([-12, 3])), expected)
    assert fingerprint64_of_integers(np.zeros(0, np.int64)).shape == (0,)
