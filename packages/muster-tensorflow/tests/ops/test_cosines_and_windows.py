"""Cosine transforms and windows of tf.signal; the values are TensorFlow's."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1

s = np.arange(8, dtype=np.float32) ** 1.5
CASES: list[Any] = [
    ("dctn", lambda: tf.signal.dct(s, norm="ortho", n=5), [7.61362, -6.37192, 1.09351, -0.449995, 0.182002]),
    (
        "idctn",
        lambda: tf.signal.idct(s, norm="ortho"),
        [14.51, -19.7949, 9.93921, -7.07028, 4.48974, -3.10026, 1.6422, -0.615781],
    ),
    ("mdct", lambda: tf.signal.mdct(s, 4), [[-8.023, -1.21548], [-22.4817, 0.243885], [-41.1794, 2.55957]]),
    (
        "imdct",
        lambda: tf.signal.inverse_mdct(tf.signal.mdct(s, 4)),
        [-0.222008, 0.94801, 2.82843, 5.19615, 8, 11.1803, 18.0445, 4.22571],
    ),
    (
        "mdctn",
        lambda: tf.signal.mdct(s, 4, norm="ortho", pad_end=True),
        [[-4.0115, -0.607739], [-11.2409, 0.121943], [-20.5897, 1.27978], [-5.61828, 13.5637]],
    ),
    (
        "imdctn",
        lambda: tf.signal.inverse_mdct(tf.signal.mdct(s, 4, norm="ortho"), norm="ortho"),
        [-0.222008, 0.948009, 2.82843, 5.19615, 8, 11.1803, 18.0445, 4.22571],
    ),
    (
        "vorbis",
        lambda: tf.signal.vorbis_window(6),
        [0.105029, 0.707107, 0.994469, 0.994469, 0.707107, 0.105029],
    ),
    (
        "kaiser",
        lambda: tf.signal.kaiser_window(5, beta=12.0),
        [5.27734e-05, 0.215673, 1, 0.215673, 5.27734e-05],
    ),
    (
        "kbd",
        lambda: tf.signal.kaiser_bessel_derived_window(6, beta=12.0),
        [0.00713103, 0.707107, 0.999975, 0.999975, 0.707107, 0.00713103],
    ),
    (
        "istftw",
        lambda: tf.signal.inverse_stft_window_fn(2)(6, dtype=tf.float32),
        [0, 0.222222, 0.666667, 0.888889, 0.666667, 0.222222],
    ),
    (
        "istftw2",
        lambda: tf.signal.inverse_stft_window_fn(2, tf.signal.hamming_window)(4, dtype=tf.float32),
        [0.0794913, 0.925926, 0.993641, 0.925926],
    ),
]
TYPES = {
    1: (
        [104.324, -54.8638, 8.08089, -6.07, 2.74687, -2.77587, 1.83116, -2.22251],
        [104.324, -54.8638, 8.08089, -6.07, 2.74687, -2.77587, 1.83116, -2.22251],
    ),
    2: (
        [122.844, -69.4801, 11.1297, -5.95545, 2.84357, -1.63249, 0.95556, -0.39581],
        [58.0401, -79.1795, 39.7568, -28.2811, 17.959, -12.401, 6.56881, -2.46313],
    ),
    3: (
        [58.0401, -79.1795, 39.7568, -28.2811, 17.959, -12.401, 6.56881, -2.46313],
        [122.844, -69.4801, 11.1297, -5.95545, 2.84357, -1.63249, 0.95556, -0.39581],
    ),
    4: (
        [47.7904, -72.9135, 42.1324, -32.3449, 26.4591, -23.1967, 21.4508, -20.5929],
        [47.7904, -72.9135, 42.1324, -32.3449, 26.4591, -23.1967, 21.4508, -20.5929],
    ),
}


@pytest.mark.parametrize(("call", "expect"), [each[1:] for each in CASES], ids=[each[0] for each in CASES])
def test_values_of_signals(call: Any, expect: Any) -> None:
    np.testing.assert_allclose(call(), expect, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", TYPES)
def test_types_of_cosine_transforms(number: int) -> None:
    expect, inverse = TYPES[number]
    np.testing.assert_allclose(tf.signal.dct(s, type=number), expect, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(tf.signal.idct(s, type=number), inverse, rtol=1e-4, atol=1e-4)
    if number > 1:
        there = tf.signal.dct(s, type=number, norm="ortho")
        np.testing.assert_allclose(tf.signal.idct(there, type=number, norm="ortho"), s, atol=1e-4)


def test_what_cosine_transforms_refuse() -> None:
    with pytest.raises(ValueError, match="1 to 4"):
        tf.signal.idct(s, type=5)
    with pytest.raises(ValueError, match="type 1"):
        tf.signal.dct(s, type=1, norm="ortho")
    with pytest.raises(ValueError, match="norm"):
        tf.signal.dct(s, type=3, norm="other")
    np.testing.assert_allclose(tf.signal.dct(s, type=3, n=4), tf.signal.dct(s[:4], type=3), rtol=1e-5)


def test_transforms_of_volumes() -> None:
    volume = s.reshape(2, 2, 2)
    there = tf1.spectral.rfft3d(volume)
    np.testing.assert_allclose(there, np.fft.rfftn(volume), rtol=1e-5)
    np.testing.assert_allclose(tf.signal.irfft3d(there, [2, 2, 2]), volume, atol=1e-5)


def test_older_places() -> None:
    assert tf1.spectral.dct is tf.signal.dct
    np.testing.assert_array_equal(tf1.manip.roll([1, 2, 3], 1, 0), [3, 1, 2])
