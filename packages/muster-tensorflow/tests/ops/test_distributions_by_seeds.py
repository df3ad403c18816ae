"""Random numbers that follow from a seed have the moments of their distributions."""

import numpy as np

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1

SEED, SHAPE = [3, 4], [4000, 2]


def test_moments() -> None:
    drawn = np.asarray(tf.random.stateless_gamma(SHAPE, SEED, [2.0, 4.0], beta=2.0))
    np.testing.assert_allclose(drawn.mean(0), [1, 2], rtol=0.06)
    np.testing.assert_allclose(drawn.var(0), [0.5, 1], rtol=0.15)
    np.testing.assert_array_equal(drawn, tf.random.stateless_gamma(SHAPE, SEED, [2.0, 4.0], beta=2.0))
    drawn = np.asarray(tf.random.stateless_poisson(SHAPE, SEED, [2.0, 4.0]))
    assert drawn.dtype == np.int32
    np.testing.assert_allclose(drawn.mean(0), [2, 4], rtol=0.06)
    drawn = np.asarray(tf.random.stateless_binomial(SHAPE, SEED, [10, 4], [0.2, 0.5]))
    assert drawn.dtype == np.int32
    assert drawn[:, 1].max() <= 4
    np.testing.assert_allclose(drawn.mean(0), [2, 2], rtol=0.06)


def test_normal_numbers_between_bounds() -> None:
    draw = tf.random.stateless_parameterized_truncated_normal
    drawn = np.asarray(draw(SHAPE, SEED, [1.0, 5.0], 2.0, [0.0, 4.0], [2.0, 6.0]))
    assert ((drawn >= [0, 4]) & (drawn <= [2, 6])).all()
    np.testing.assert_allclose(drawn.mean(0), [1, 5], atol=0.06)


def test_other_places() -> None:
    drawn = tf1.random.stateless_multinomial([[1.0, 2.0]], 4, [1, 2], output_dtype=np.int32)
    np.testing.assert_array_equal(drawn, tf.random.stateless_categorical([[1.0, 2.0]], 4, [1, 2]))
    places = [int(tf.random.experimental.index_shuffle(each, [1, 2, 3], 4)) for each in range(5)]
    assert sorted(places) == list(range(5))
