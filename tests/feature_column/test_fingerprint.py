"""Fingerprints of many texts at a time; the recorded cases say what they are."""

import numpy as np
import pytest

from muster.feature_column._fingerprint import fingerprint64, fingerprint_cat64


def test_texts_of_all_lengths_among_others_and_alone():
    texts = [bytes(i * 7 % 256 for i in range(length)) for length in range(300)]
    together = fingerprint64(texts)
    assert len(set(together.tolist())) == 300
    assert [fingerprint64([text])[0] for text in texts] == together.tolist()
    np.testing.assert_array_equal(fingerprint64(texts[::-1]), together[::-1])


def test_zero_bytes_count():
    one, other, none = fingerprint64([b"a", b"a\0", b""])
    assert len({one, other, none}) == 3


def test_no_texts():
    assert fingerprint64([]).shape == (0,)


@pytest.mark.filterwarnings("error")
def test_pairs_are_ordered():
    first, second = fingerprint64([b"x"]), fingerprint64([b"1"])
    assert fingerprint_cat64(first, second) != fingerprint_cat64(second, first)
